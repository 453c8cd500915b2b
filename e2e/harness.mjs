// Shared functions of all tests in JavaScript. They send requests, direct the service behind Caddy,
// and report checks. console/harness.mjs adds a browser, and openrouter/harness.mjs OpenRouter's client.

import assert from "node:assert/strict";

// The service behind Caddy. It pauses a stream after each event.

const control = process.env.PRESETS_CONTROL_URL;

export async function tell(path) {
  const answer = await fetch(control + path, { method: "POST" });
  assert.equal(answer.status, 200, `${path}: ${await answer.text()}`);
}

// last returns the service's latest request, its body as the text that it got,
// and how many there were.
export const last = async () => (await fetch(`${control}/last`)).json();

export const count = async () => (await last()).count;

// upstream returns the latest request, its body decoded.
export async function upstream() {
  const { last: request } = await last();
  return { ...request, body: request.body && JSON.parse(request.body) };
}

// send sends a request without a client. The body is text, or what becomes JSON. It returns the
// status, the headers, the text and its JSON.
export async function send(method, url, { key, headers, body } = {}) {
  const response = await fetch(url, {
    method,
    headers: { ...(key && { Authorization: `Bearer ${key}` }), ...(body !== undefined && { "Content-Type": "application/json" }), ...headers },
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: text ? JSON.parse(text) : undefined };
}

// failure returns the error of a call that must fail.
export async function failure(call) {
  try {
    await call();
  } catch (err) {
    return err;
  }
  assert.fail("got success");
}

// within fails if a promise does not settle soon.
export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within two minutes: ${what}`)), 120_000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

let failures = 0;

// check runs one check and prints a line about it. explain returns the text of an error.
export async function check(name, run, explain = (err) => err?.message ?? String(err)) {
  try {
    await run();
    console.log(`ok    ${name}`);
  } catch (err) {
    failures++;
    console.log(`FAIL  ${name}\n      ${explain(err).replaceAll("\n", "\n      ")}`);
  }
}

// finish prints the result of all checks, and sets the exit code.
export function finish() {
  console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
  process.exitCode = failures === 0 ? 0 : 1;
}
