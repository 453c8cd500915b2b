// What the checks of the official OpenRouter client share.

import { HTTPClient, OpenRouter } from "@openrouter/sdk";
import * as errors from "@openrouter/sdk/models/errors";

const serverURL = process.env.PRESETS_BASE_URL;

// client returns the SDK's client, its validation of answers on, and the bytes
// it last sent and received; those of a stream are not kept. Failures are not
// tried again, so that none hides behind a later success. Every request gets
// the query and the fields of the body that are given, which is how users of
// the client send what it has no name for.
export function client(apiKey, { query, fields } = {}) {
  const seen = {};
  const httpClient = new HTTPClient();
  httpClient.addHook("beforeRequest", async (request) => {
    if (query) {
      const url = new URL(request.url);
      url.search = new URLSearchParams(query);
      request = new Request(url, request);
    }
    if (fields) {
      const { url, method, headers, signal } = request;
      const body = JSON.stringify({ ...await request.json(), ...fields });
      request = new Request(url, { method, headers, signal, body });
    }
    seen.sent = Buffer.from(await request.clone().arrayBuffer());
    return request;
  });
  httpClient.addHook("response", async (response) => {
    seen.status = response.status;
    seen.headers = response.headers;
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
      seen.received = Buffer.from(await response.clone().arrayBuffer());
    }
  });
  const sdk = new OpenRouter({ apiKey, serverURL, httpClient, retryConfig: { strategy: "none" }, timeoutMs: 30_000 });
  return { sdk, seen };
}

let failures = 0;

// check runs one check and prints a line about it.
export async function check(name, run) {
  try {
    await run();
    console.log(`ok    ${name}`);
  } catch (err) {
    failures++;
    const why = err instanceof errors.ResponseValidationError
      ? `${err.pretty()}\n${err.body}`
      : err instanceof errors.OpenRouterError
        ? `${err.name} ${err.statusCode}: ${err.body}`
        : err?.message ?? String(err);
    console.log(`FAIL  ${name}\n      ${why.replaceAll("\n", "\n      ")}`);
  }
}

// finish says how the checks went, and makes it the exit code.
export function finish() {
  console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
  process.exitCode = failures === 0 ? 0 : 1;
}
