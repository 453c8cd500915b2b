// Runs the official OpenRouter client, which validates answers, against caddy-presets.
// Prints one line per check; exits with 1 on a failure.
//
// sdk_test.go starts the server and sets the environment.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as errors from "@openrouter/sdk/models/errors";
import { check, client, finish, kept, rejects, sameConfig, utc, uuid } from "./harness.mjs";
import { fullRequest } from "./full-request.mjs";

const managementKey = process.env.PRESETS_MANAGEMENT_KEY;
const inferenceKey = process.env.PRESETS_INFERENCE_KEY;

const userOfManagementKey = "user_e2e";

const management = client(managementKey);
const inference = client(inferenceKey);

const makeWorkspace = (who, body) => who.sdk.workspaces.create({ createWorkspaceRequest: body });
const makePreset = (who, slug, body) => who.sdk.presets.createPresetsResponses({ slug, responsesRequest: body });

// Workspaces

const allFields = {
  name: "Zespół Łódź \u{1F600}",
  slug: "team-full",
  description: "Every field",
  defaultTextModel: "acme/large",
  defaultImageModel: "acme/paint",
  defaultProviderSort: "throughput",
  ioLoggingApiKeyIds: [1, 9007199254740991],
  ioLoggingSamplingRate: 0.0001,
  disabledServerTools: ["openrouter:bash", "openrouter:web_search"],
  isDataDiscountLoggingEnabled: false,
  isObservabilityBroadcastEnabled: true,
  isObservabilityIoLoggingEnabled: true,
};

let minimal, full;

await check("workspaces.create with name and slug only", async () => {
  minimal = (await makeWorkspace(management, { name: "Minimal", slug: "team-minimal" })).data;
  assert.equal(management.seen.status, 201);
  const { id, defaultGuardrailId, createdAt, ...rest } = minimal;
  assert.match(id, uuid);
  assert.match(defaultGuardrailId, uuid);
  assert.match(createdAt, utc);
  assert.deepEqual(rest, {
    name: "Minimal",
    slug: "team-minimal",
    description: null,
    defaultTextModel: null,
    defaultImageModel: null,
    defaultProviderSort: null,
    ioLoggingApiKeyIds: null,
    ioLoggingSamplingRate: 1,
    disabledServerTools: null,
    isDataDiscountLoggingEnabled: true,
    isObservabilityBroadcastEnabled: false,
    isObservabilityIoLoggingEnabled: false,
    createdBy: userOfManagementKey,
    updatedAt: null,
  });
});

await check("workspaces.create with all fields, io_logging_api_key_ids as integers", async () => {
  full = (await makeWorkspace(management, allFields)).data;
  assert.equal(management.seen.status, 201);
  for (const [name, value] of Object.entries(allFields)) {
    assert.deepEqual(full[name], value, name);
  }
  assert.match(management.seen.received.toString(), /"io_logging_api_key_ids":\[1,9007199254740991\]/);
  assert.notEqual(full.id, minimal.id);
  assert.notEqual(full.defaultGuardrailId, minimal.defaultGuardrailId);
});

await check("workspaces.get by id", async () => {
  assert.deepEqual((await management.sdk.workspaces.get({ id: full.id })).data, full);
});

await check("workspaces.get by slug", async () => {
  assert.deepEqual((await management.sdk.workspaces.get({ id: "team-full" })).data, full);
  assert.deepEqual((await management.sdk.workspaces.get({ id: "team-minimal" })).data, minimal);
});

await check("workspaces.get of the default workspace", async () => {
  assert.equal((await management.sdk.workspaces.get({ id: "default" })).data.slug, "default");
});

await check("workspaces.get of an unknown one: NotFoundResponseError", () =>
  rejects(() => management.sdk.workspaces.get({ id: "nowhere" }), errors.NotFoundResponseError, 404, /not found/i));

await check("workspaces.create with a taken slug: BadRequestResponseError", () =>
  rejects(() => makeWorkspace(management, { name: "Again", slug: "team-full" }), errors.BadRequestResponseError, 400, /\/slug: already in use/));

await check("workspaces.create with a bad slug: BadRequestResponseError with its place", async () => {
  const err = await rejects(() => makeWorkspace(management, { name: "Bad", slug: "-Bad-" }), errors.BadRequestResponseError, 400, /^Invalid request parameters: \/slug/);
  assert.equal(err.error.metadata.issues[0].path, "/slug");
});

await check("workspaces.create with an inference key: ForbiddenResponseError", () =>
  rejects(() => makeWorkspace(inference, { name: "No", slug: "no" }), errors.ForbiddenResponseError, 403, /^Only management keys can perform this operation$/));

await check("workspaces.get with an inference key: 403, which the client has no type for", () =>
  rejects(() => inference.sdk.workspaces.get({ id: "default" }), errors.OpenRouterDefaultError, 403, /^Only management keys can perform this operation$/));

await check("workspaces.create with an unknown key: UnauthorizedResponseError", () =>
  rejects(() => makeWorkspace(client("sk-nobody-knows-this-one"), { name: "No", slug: "no" }), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/));

await check("workspaces.create without a key: UnauthorizedResponseError", () =>
  rejects(() => makeWorkspace(client(undefined), { name: "No", slug: "no" }), errors.UnauthorizedResponseError, 401, /^Missing Authentication header$/));

// Presets

let first, second;

await check("presets.createPresetsResponses makes version 1", async () => {
  first = (await makePreset(management, "analyst", { model: "acme/small", temperature: 0, instructions: "Be brief." })).data;
  assert.equal(management.seen.status, 200);
  sameConfig(management.seen, kept.responses);
  const version = first.designatedVersion;
  assert.match(first.id, uuid);
  assert.equal(first.slug, "analyst");
  assert.equal(first.name, "analyst");
  assert.equal(first.description, null);
  assert.equal(first.status, "active");
  assert.equal(first.statusUpdatedAt, null);
  assert.equal(first.creatorUserId, userOfManagementKey);
  assert.match(first.createdAt, utc);
  assert.match(first.updatedAt, utc);
  assert.equal(version.version, 1);
  assert.equal(version.id, first.designatedVersionId);
  assert.equal(version.presetId, first.id);
  assert.equal(version.creatorId, userOfManagementKey);
  assert.equal(version.systemPrompt, "Be brief.");
  const { data: home } = await management.sdk.workspaces.get({ id: "default" });
  assert.equal(first.workspaceId, home.id);
});

await check("presets.createPresetsResponses makes version 2 from a full request", async () => {
  second = (await makePreset(management, "analyst", fullRequest)).data;
  const version = second.designatedVersion;
  assert.equal(version.version, 2);
  assert.equal(version.id, second.designatedVersionId);
  assert.notEqual(second.designatedVersionId, first.designatedVersionId);
  assert.equal(version.systemPrompt, fullRequest.instructions);
  for (const name of ["id", "name", "slug", "workspaceId", "creatorUserId", "createdAt"]) {
    assert.equal(second[name], first[name], name);
  }
  sameConfig(management.seen, kept.responses);
  assert.equal(version.config.tools.length, fullRequest.tools.length);
  assert.equal(version.config.plugins.length, fullRequest.plugins.length);
  for (const name of ["input", "instructions", "stream", "store", "prompt", "metadata", "user", "session_id", "trace", "debug", "background", "safety_identifier", "prompt_cache_key"]) {
    assert.ok(!(name in version.config), `${name} is stored`);
  }
});

await check("presets.createPresetsResponses with every string tool choice and null", async () => {
  for (const toolChoice of ["auto", "none", "required", { type: "shell" }, { type: "web_search_preview" }, { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "a" }] }]) {
    await makePreset(management, "choices", { toolChoice, reasoning: null, provider: null, truncation: null, include: null, text: { format: { type: "json_object" }, verbosity: null } });
    sameConfig(management.seen, kept.responses);
  }
});

await check("presets.createPresetsResponses by 16 at once: versions 1 to 16", async () => {
  const made = await Promise.all(Array.from({ length: 16 }, () => makePreset(client(managementKey), "busy", { model: "acme/small" })));
  assert.deepEqual(made.map(({ data }) => data.designatedVersion.version).sort((a, b) => a - b), Array.from({ length: 16 }, (_, i) => i + 1));
});

await check("presets of a workspace named by ?workspace_id= are its own", async () => {
  const there = client(managementKey, { query: { workspace_id: "team-full" } });
  const { data } = await makePreset(there, "analyst", { model: "acme/small" });
  assert.equal(data.workspaceId, full.id);
  assert.equal(data.designatedVersion.version, 1);
  assert.notEqual(data.id, first.id);
});

await check("presets.createPresetsResponses in an unknown workspace: NotFoundResponseError", () =>
  rejects(() => makePreset(client(managementKey, { query: { workspace_id: "nowhere" } }), "analyst", { model: "acme/small" }), errors.NotFoundResponseError, 404, /workspace not found/i));

await check("presets.createPresetsResponses with previous_response_id: BadRequestResponseError with its place", async () => {
  const err = await rejects(() => makePreset(management, "analyst", { previousResponseId: "resp_1" }), errors.BadRequestResponseError, 400, /^Invalid request parameters: \/previous_response_id/);
  assert.equal(err.error.metadata.issues.length, 1);
  assert.equal(err.error.metadata.issues[0].path, "/previous_response_id");
});

await check("presets.createPresetsResponses with two broken rules: both are named", async () => {
  const err = await rejects(() => makePreset(management, "analyst", { maxToolCalls: 31, user: "u".repeat(257) }), errors.BadRequestResponseError, 400, /^Invalid request parameters: /);
  assert.deepEqual(err.error.metadata.issues.map(({ path }) => path).sort(), ["/max_tool_calls", "/user"]);
});

await check("presets.createPresetsResponses with a bad slug: BadRequestResponseError", async () => {
  for (const slug of ["-analyst", "a/b", "ą", "a".repeat(129)]) {
    await rejects(() => makePreset(management, slug, { model: "acme/small" }), errors.BadRequestResponseError, 400, /slug/);
  }
});

await check("presets.createPresetsResponses with an inference key: ForbiddenResponseError", () =>
  rejects(() => makePreset(inference, "analyst", { model: "acme/small" }), errors.ForbiddenResponseError, 403, /^Only management keys can perform this operation$/));

await check("presets.createPresetsResponses with an unknown key: UnauthorizedResponseError", () =>
  rejects(() => makePreset(client("sk-nobody-knows-this-one"), "analyst", { model: "acme/small" }), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/));

await check("none of the refused requests made a version", async () => {
  const { data } = await makePreset(management, "analyst", { model: "acme/small" });
  assert.equal(data.designatedVersion.version, 3);
});

// Other requests go to the gateway. The upstream of sdk_test.go repeats the request in
// its answer's headers.

function untouched({ sent, received, headers }) {
  const hash = (bytes) => createHash("sha256").update(bytes).digest("hex");
  assert.equal(headers.get("x-received-sha256"), hash(sent), "the request's body changed on its way");
  assert.equal(headers.get("x-received-authorization"), ""); // the key does not reach the gateway
  assert.equal(headers.get("x-sent-sha256"), hash(received), "the answer's body changed on its way");
}

await check("models.list reaches the gateway", async () => {
  const { result } = await inference.sdk.models.list();
  assert.deepEqual(result.data, []);
  untouched(inference.seen);
});

await check("chat.send reaches the gateway byte for byte", async () => {
  const answer = await inference.sdk.chat.send({
    chatRequest: { model: "@preset/analyst", messages: [{ role: "user", content: "Zażółć gęślą jaźń \u{1F600}".repeat(1000) }], temperature: 0.7 },
  });
  assert.equal(answer.choices[0].message.content, "pong");
  assert.ok(inference.seen.sent.length > 10_000);
  untouched(inference.seen);
});

finish();
