// Shared functions of the checks of the official OpenRouter client.

import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { HTTPClient, OpenRouter } from "@openrouter/sdk";
import * as errors from "@openrouter/sdk/models/errors";
import { check as checkAny, failure, send } from "../harness.mjs";

export { count, failure, finish, last, tell, upstream, within } from "../harness.mjs";

const serverURL = process.env.PRESETS_BASE_URL;
const exchanges = process.env.PRESETS_EXCHANGES; // a file that gets each request and its answer, for openapi/

export const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const utc = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
export const tag = /^"[0-9a-f]{32}"$/; // a strong entity tag

// client returns the SDK's client, which validates answers. It also returns the bytes
// that it last sent and received, except for streams. The client retries failures only
// with retryConfig, because a later success would hide them. query and fields are added
// to every request. Users of the client send unknown parameters in this way.
export function client(apiKey, { query, fields, retryConfig = { strategy: "none" }, baseURL = serverURL } = {}) {
  const seen = {};
  const httpClient = new HTTPClient();
  httpClient.addHook("beforeRequest", async (request) => {
    if (query) {
      const url = new URL(request.url);
      for (const [name, value] of Object.entries(query)) {
        url.searchParams.set(name, value);
      }
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
  httpClient.addHook("response", async (response, request) => {
    seen.status = response.status;
    seen.headers = response.headers;
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
      seen.received = Buffer.from(await response.clone().arrayBuffer());
      record(request, seen);
    }
  });
  const sdk = new OpenRouter({ apiKey, serverURL: baseURL, httpClient, retryConfig, timeoutMs: 120_000 });
  return { sdk, seen };
}

// raw sends a request that the client has no operation for. It returns the status, the
// headers and the JSON of the answer, if it has a body.
export async function raw(method, path, options = {}) {
  const answer = await send(method, serverURL + path, options);
  const { status, headers, text } = answer;
  record({ method, url: serverURL + path }, { sent: Buffer.from(options.body ? JSON.stringify(options.body) : ""), status, headers, received: Buffer.from(text) });
  return answer;
}

// must is raw for requests that must succeed. It returns the answer's JSON.
export async function must(method, path, options) {
  const { status, json } = await raw(method, path, options);
  assert.equal(status, 200, `${method} ${path}: ${JSON.stringify(json)}`);
  return json;
}

// record adds an exchange to the file that is compared with openapi.yaml.
function record({ method, url }, { sent, status, headers, received }) {
  if (exchanges) {
    const path = url.slice(serverURL.length);
    appendFileSync(exchanges, `${JSON.stringify({
      method, path, status, sent: sent.toString(), received: received.toString(), headers: Object.fromEntries(headers),
    })}\n`);
  }
}

// rejects asserts that a call fails with the client's own typed error, and returns the
// error. The envelope must agree with the status.
export async function rejects(call, type, status, message) {
  const err = await failure(call);
  assert.equal(err.name, type.name, `got ${err.name} (${err.message} ${err.body ?? ""})`);
  assert.ok(err instanceof type);
  assert.equal(err.statusCode, status);
  assert.match(err.contentType, /^application\/json/);
  const envelope = JSON.parse(err.body);
  assert.equal(envelope.error.code, status);
  assert.match(envelope.error.message, message);
  return err;
}

// kept has the fields that a preset keeps, by API.
const keptOfAll = [
  "model", "models", "provider", "route", "plugins", "tools", "tool_choice", "stop_server_tools_when",
  "temperature", "top_p", "top_k", "service_tier", "cache_control",
];
const keptOfResponsesAndChat = [
  ...keptOfAll, "parallel_tool_calls", "frequency_penalty", "presence_penalty", "top_logprobs", "reasoning",
  "modalities", "image_config", "prompt_cache_options",
];
export const kept = {
  responses: new Set([...keptOfResponsesAndChat, "max_tool_calls", "max_output_tokens", "text", "include", "truncation"]),
  chat: new Set([
    ...keptOfResponsesAndChat, "min_p", "top_a", "repetition_penalty", "seed", "logit_bias", "logprobs", "max_tokens",
    "max_completion_tokens", "stop", "reasoning_effort", "response_format",
  ]),
  messages: new Set([
    ...keptOfAll, "fallbacks", "max_tokens", "stop_sequences", "thinking", "output_config", "context_management", "speed",
  ]),
};

// sameConfig asserts that the stored configuration has the kept fields of the request. They
// are in order, byte for byte, and without null.
export function sameConfig({ sent, received }, fields) {
  const want = Object.fromEntries(Object.entries(JSON.parse(sent)).filter(([name, value]) => fields.has(name) && value !== null));
  assert.ok(
    received.includes(Buffer.from(`"config":${JSON.stringify(want)}`)),
    `config differs\n got: ${received}\nwant: ${JSON.stringify(want)}`,
  );
}

// check runs one check and prints a line about it, with what the client did not accept.
export const check = (name, run) => checkAny(name, run, (err) => {
  if (err instanceof errors.ResponseValidationError) {
    return `${err.pretty()}\n${err.body}`;
  }
  return err instanceof errors.OpenRouterError ? `${err.name} ${err.statusCode}: ${err.body}` : err?.message ?? String(err);
});
