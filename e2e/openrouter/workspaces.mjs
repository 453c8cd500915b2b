// Runs the official OpenRouter client, which validates answers, through the whole life of
// workspaces. Prints one line per check; exits with 1 on a failure.
//
// sdk_test.go starts the servers, makes the workspace keyed with a key that acts
// in it, and sets the environment.

import assert from "node:assert/strict";
import * as models from "@openrouter/sdk/models";
import * as errors from "@openrouter/sdk/models/errors";
import { check, client, count, failure, finish, must, rejects, tag, upstream, utc, uuid } from "./harness.mjs";

const managementKey = process.env.PRESETS_MANAGEMENT_KEY;
const inferenceKey = process.env.PRESETS_INFERENCE_KEY;
const keyedKey = process.env.PRESETS_KEYED_KEY;

const management = client(managementKey);
const inference = client(inferenceKey);
const keyed = client(keyedKey);
const stranger = client("sk-nobody-knows-this-one");
const nobody = client(undefined);

const { workspaces, presets } = management.sdk;

const make = (who, body, options) => who.sdk.workspaces.create({ createWorkspaceRequest: body }, options);
const update = (who, id, body, options) => who.sdk.workspaces.update({ id, updateWorkspaceRequest: body }, options);
const remove = (who, id, more, options) => who.sdk.workspaces.delete({ id, ...more }, options);

// Lists

await check("workspaces.list pages through all, the oldest first", async () => {
  const made = [];
  for (let i = 0; i < 51; i++) {
    made.push((await make(management, { name: `Team ${i}`, slug: `team-${i}` })).data);
  }
  for (const limit of [undefined, 7, 53, 100]) {
    const listed = [];
    for await (const { result } of await workspaces.list({ limit })) {
      assert.equal(result.totalCount, 53);
      listed.push(...result.data);
    }
    assert.deepEqual(listed.map(({ slug }) => slug), ["default", "keyed", ...made.map(({ slug }) => slug)]);
    assert.deepEqual(listed.slice(2), made);
  }
  const { result } = await workspaces.list({ offset: 52, limit: 1 });
  assert.deepEqual(result.data, [made[50]]);
});

await check("workspaces.list with a bad page: 400, which the client has no type for", async () => {
  for (const [page, name] of [[{ limit: 0 }, "limit"], [{ limit: 101 }, "limit"], [{ offset: -1 }, "offset"]]) {
    await rejects(() => workspaces.list(page), errors.OpenRouterDefaultError, 400, new RegExp(name));
  }
});

await check("workspaces.list with the wrong key: 401 and 403", async () => {
  await rejects(() => stranger.sdk.workspaces.list(), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
  await rejects(() => nobody.sdk.workspaces.list(), errors.UnauthorizedResponseError, 401, /^Missing Authentication header$/);
  await rejects(() => inference.sdk.workspaces.list(), errors.OpenRouterDefaultError, 403, /^Only management keys can perform this operation$/);
});

// Updates

let patched = (await make(management, { name: "Patched", slug: "patched" })).data;

// updated asserts that a change sets exactly these values of the workspace.
async function updated(body, want = body) {
  const { data } = await update(management, patched.id, body);
  assert.match(data.updatedAt, utc);
  assert.deepEqual({ ...data, updatedAt: patched.updatedAt }, { ...patched, ...want });
  assert.deepEqual((await workspaces.get({ id: patched.id })).data, data);
  patched = data;
}

const changes = {
  name: "Zespół Łódź \u{1F600}",
  description: "Every field",
  defaultTextModel: "acme/large",
  defaultImageModel: "acme/paint",
  defaultProviderSort: "latency",
  ioLoggingApiKeyIds: [1, 9007199254740991],
  ioLoggingSamplingRate: 0.0001,
  isDataDiscountLoggingEnabled: false,
  isObservabilityBroadcastEnabled: true,
  isObservabilityIoLoggingEnabled: true,
  disabledServerTools: Object.values(models.UpdateWorkspaceRequestDisabledServerTool),
  slug: "patched-2",
};

await check("workspaces.update knows every field that the client knows", () => {
  assert.deepEqual(Object.keys(models.UpdateWorkspaceRequest$outboundSchema.in.shape).sort(), Object.keys(changes).sort());
});

for (const [name, value] of Object.entries(changes)) {
  await check(`workspaces.update of ${name} alone`, () => updated({ [name]: value }));
}

await check("workspaces.update of all fields at once, by slug", async () => {
  const { data: other } = await make(management, { name: "Other", slug: "other" });
  const { data } = await update(management, "other", { ...changes, slug: "other-2" });
  assert.deepEqual(data, { ...other, ...changes, slug: "other-2", updatedAt: data.updatedAt });
});

await check("workspaces.update with null clears what may be null", () =>
  updated({
    description: null, defaultTextModel: null, defaultImageModel: null, defaultProviderSort: null, ioLoggingApiKeyIds: null, disabledServerTools: null,
  }));

await check("workspaces.update with [] clears disabledServerTools", async () => {
  await updated({ disabledServerTools: ["openrouter:bash"] });
  await updated({ disabledServerTools: [] }, { disabledServerTools: null });
});

await check("workspaces.update with {} changes nothing", async () => {
  const { data } = await update(management, patched.id, {});
  assert.deepEqual(data, patched);
});

await check("a workspace is found by its new slug, and its old one is free", async () => {
  assert.deepEqual((await workspaces.get({ id: "patched-2" })).data, patched);
  await rejects(() => workspaces.get({ id: "patched" }), errors.NotFoundResponseError, 404, /not found/i);
  await make(management, { name: "Again", slug: "patched" });
});

await check("workspaces.update of what is not there: NotFoundResponseError", () =>
  rejects(() => update(management, "nowhere", { name: "No" }), errors.NotFoundResponseError, 404, /not found/i));

await check("workspaces.update with a broken rule: BadRequestResponseError with its place", async () => {
  for (const [body, path] of [
    [{ name: "" }, "/name"],
    [{ name: "n".repeat(101) }, "/name"],
    [{ slug: "-bad-" }, "/slug"],
    [{ slug: "default" }, "/slug"],
    [{ description: "d".repeat(501) }, "/description"],
    [{ defaultProviderSort: "cheapest" }, "/default_provider_sort"],
    [{ ioLoggingSamplingRate: 0 }, "/io_logging_sampling_rate"],
  ]) {
    const err = await rejects(() => update(management, patched.id, body), errors.BadRequestResponseError, 400, /^Invalid request parameters: \//);
    assert.equal(err.error.metadata.issues[0].path, path);
  }
  for (const name of ["name", "slug", "io_logging_sampling_rate", "is_data_discount_logging_enabled"]) { // null; the client itself does not send it
    const err = await rejects(() => update(client(managementKey, { fields: { [name]: null } }), patched.id, {}), errors.BadRequestResponseError, 400, /./);
    assert.equal(err.error.metadata.issues[0].path, `/${name}`);
  }
  assert.deepEqual((await workspaces.get({ id: patched.id })).data, patched);
});

await check("the default workspace keeps its slug: BadRequestResponseError", () =>
  rejects(() => update(management, "default", { slug: "home" }), errors.BadRequestResponseError, 400, /\/slug/));

await check("workspaces.update and delete with the wrong key: ForbiddenResponseError and UnauthorizedResponseError", async () => {
  for (const call of [(who) => update(who, patched.id, { name: "No" }), (who) => remove(who, patched.id)]) {
    await rejects(() => call(inference), errors.ForbiddenResponseError, 403, /^Only management keys can perform this operation$/);
    await rejects(() => call(keyed), errors.ForbiddenResponseError, 403, /^Only management keys can perform this operation$/);
    await rejects(() => call(stranger), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
    await rejects(() => call(nobody), errors.UnauthorizedResponseError, 401, /^Missing Authentication header$/);
  }
});

// Conditional and repeated requests, by the client's own headers

const withHeaders = (headers) => ({ headers });

await check("workspaces.update with If-Match: the first wins, the second gets 412, which the client has no type for", async () => {
  await workspaces.get({ id: patched.id });
  const known = management.seen.headers.get("etag");
  assert.match(known, tag);
  await update(management, patched.id, { name: "First" }, withHeaders({ "If-Match": known }));
  const next = management.seen.headers.get("etag");
  assert.notEqual(next, known);
  await rejects(() => update(management, patched.id, { name: "Second" }, withHeaders({ "If-Match": known })), errors.OpenRouterDefaultError, 412, /^Precondition failed/);
  await rejects(() => remove(management, patched.id, {}, withHeaders({ "If-Match": known })), errors.OpenRouterDefaultError, 412, /^Precondition failed/);
  const err = await failure(() => workspaces.get({ id: patched.id }, withHeaders({ "If-None-Match": next })));
  assert.ok(err instanceof errors.OpenRouterDefaultError, `got ${err}`);
  assert.equal(err.statusCode, 304);
  patched = (await workspaces.get({ id: patched.id })).data;
  assert.equal(patched.name, "First");
});

await check("workspaces.create with an Idempotency-Key: once, and the same answer again", async () => {
  const once = withHeaders({ "Idempotency-Key": "workspace 1" });
  const { data: first } = await make(management, { name: "Once", slug: "once" }, once);
  const { data: again } = await make(management, { name: "Once", slug: "once" }, once);
  assert.equal(management.seen.status, 201);
  assert.deepEqual(again, first);
  await rejects(() => make(management, { name: "Once", slug: "once-2" }, once), errors.OpenRouterDefaultError, 422, /Idempotency-Key/);
  await rejects(() => make(management, { name: "Once", slug: "once" }), errors.BadRequestResponseError, 400, /\/slug: already in use/);
});

await check("workspaces.delete with an Idempotency-Key: the same answer again, though it is gone", async () => {
  const once = withHeaders({ "Idempotency-Key": "workspace 2" });
  assert.deepEqual(await remove(management, "once", {}, once), { deleted: true });
  assert.deepEqual(await remove(management, "once", {}, once), { deleted: true });
  await rejects(() => remove(management, "once"), errors.NotFoundResponseError, 404, /not found/i);
});

// Server tools that are switched off

const search = { type: "openrouter:web_search" };
const ask = (who, more) => who.sdk.chat.send({ chatRequest: { model: "acme/large", messages: [{ role: "user", content: "Hello" }], ...more } });
const respond = (who, more) => who.sdk.responses.send({ responsesRequest: { model: "acme/large", input: "Hello", ...more } });

await check("a server tool that is switched off: chat.send gets ForbiddenResponseError, responses.send 403", async () => {
  await ask(inference, { tools: [search] });
  assert.deepEqual((await upstream()).body.tools, [search]);
  await presets.createPresetsChatCompletions({ slug: "searcher", chatRequest: { model: "acme/large", messages: [], tools: [search] } });
  await update(management, "default", { disabledServerTools: ["openrouter:web_search", "openrouter:bash"] });

  const before = await count();
  for (const more of [
    { tools: [search] },
    { tools: [{ type: "openrouter:datetime" }, search] },
    { model: "@preset/searcher" }, // the preset's
    { model: "acme/large@preset/searcher", tools: [{ type: "openrouter:datetime" }] },
  ]) {
    for (const stream of [false, true]) {
      const err = await rejects(() => ask(inference, { ...more, stream }), errors.ForbiddenResponseError, 403, /openrouter:web_search/);
      assert.ok(err.error.message.length < 200);
      await rejects(() => respond(inference, { ...more, stream }), errors.ForbiddenResponseError, 403, /openrouter:web_search/);
    }
  }
  assert.equal(await count(), before);

  await ask(inference, { tools: [{ type: "openrouter:datetime" }] });
  await ask(inference, { model: "acme/large" });
  await ask(keyed, { tools: [search] }); // of another workspace
  assert.equal(await count(), before + 3);
  await update(management, "default", { disabledServerTools: null });
  await ask(inference, { model: "@preset/searcher" });
  assert.deepEqual((await upstream()).body.tools, [search]);
});

// Deletions

await check("workspaces.delete takes the presets along, and the slug is free", async () => {
  const { data: doomed } = await make(management, { name: "Doomed", slug: "doomed" });
  const there = client(managementKey, { query: { workspace_id: "doomed" } });
  await there.sdk.presets.createPresetsResponses({ slug: "inside", responsesRequest: { model: "acme/small" } });
  assert.deepEqual(await remove(management, doomed.id), { deleted: true });
  await rejects(() => workspaces.get({ id: doomed.id }), errors.NotFoundResponseError, 404, /not found/i);
  await rejects(() => remove(management, "doomed"), errors.NotFoundResponseError, 404, /not found/i);
  // The client knows no 404 for the list of presets.
  await rejects(() => there.sdk.presets.list(), errors.OpenRouterDefaultError, 404, /workspace not found/i);
  const { data: anew } = await make(management, { name: "Anew", slug: "doomed" });
  assert.notEqual(anew.id, doomed.id);
  assert.equal((await there.sdk.presets.list()).result.totalCount, 0);
  await rejects(() => there.sdk.presets.get({ slug: "inside" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
});

await check("workspaces.delete while a key acts there: BadRequestResponseError", async () => {
  await rejects(() => remove(management, "keyed"), errors.BadRequestResponseError, 400, /keys/);
  // The parameter for the default workspace has no effect on others.
  await rejects(() => remove(management, "keyed", { confirmDefaultWorkspaceDeletion: true }), errors.BadRequestResponseError, 400, /keys/);
  assert.equal((await workspaces.get({ id: "keyed" })).data.slug, "keyed");
});

await check("workspaces.delete of the default workspace needs a confirmation, and leaves an empty one", async () => {
  const { data: old } = await workspaces.get({ id: "default" });
  assert.ok((await presets.list()).result.totalCount > 0);
  await rejects(() => remove(management, "default"), errors.BadRequestResponseError, 400, /confirm_default_workspace_deletion/);
  await rejects(() => remove(management, old.id, { confirmDefaultWorkspaceDeletion: false }), errors.BadRequestResponseError, 400, /confirm_default_workspace_deletion/);
  assert.deepEqual(await remove(management, "default", { confirmDefaultWorkspaceDeletion: true }), { deleted: true });
  const { data: anew } = await workspaces.get({ id: "default" });
  assert.match(anew.id, uuid);
  assert.notEqual(anew.id, old.id);
  await rejects(() => workspaces.get({ id: old.id }), errors.NotFoundResponseError, 404, /not found/i);
  assert.equal((await presets.list()).result.totalCount, 0);
  // Keys of the default workspace act in the new default workspace.
  assert.equal((await inference.sdk.presets.list()).result.totalCount, 0);
  await rejects(() => ask(inference, { model: "@preset/searcher" }), errors.NotFoundResponseError, 404, /@preset\/searcher/);
  await presets.createPresetsResponses({ slug: "searcher", responsesRequest: { model: "acme/small", temperature: 0.5 } });
  await ask(inference, { model: "@preset/searcher" });
  assert.equal((await upstream()).body.temperature, 0.5);
});

await check("a workspace's defaults for models serve the client's requests", async () => {
  await update(management, "default", { defaultTextModel: "acme/of-the-team" });
  await presets.createPresetsMessages({ slug: "modelless", messagesRequest: { model: "acme/small", messages: [] } });
  const plain = await must("POST", "/presets/modelless/messages", { key: managementKey, body: { temperature: 1 } });
  assert.ok(!("model" in plain.data.designated_version.config));
  await ask(inference, { model: "@preset/modelless" });
  assert.equal((await upstream()).body.model, "acme/of-the-team");
});

finish();
