// Runs the official OpenRouter client, which validates answers, through the whole life of
// presets and versions. The client lacks some operations. Their requests are sent
// directly, and their effect is read through the client. Prints one line per check; exits
// with 1 on a failure.
//
// sdk_test.go starts the servers and sets the environment.

import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import * as models from "@openrouter/sdk/models";
import * as errors from "@openrouter/sdk/models/errors";
import { check, client, count, failure, finish, kept, must, raw, rejects, sameConfig, tag, upstream, utc, uuid } from "./harness.mjs";
import { fullChatRequest, fullMessagesRequest, fullRequest } from "./full-request.mjs";

const managementKey = process.env.PRESETS_MANAGEMENT_KEY;
const inferenceKey = process.env.PRESETS_INFERENCE_KEY;

const management = client(managementKey);
const inference = client(inferenceKey);
const stranger = client("sk-nobody-knows-this-one");
const nobody = client(undefined);

const { presets } = management.sdk;
const userText = "Hello";
const userMessage = { role: "user", content: userText };

// The three ways to make a version.
const skins = {
  createPresetsResponses: {
    kept: kept.responses,
    make: (who, slug, body, options) => who.sdk.presets.createPresetsResponses({ slug, responsesRequest: body }, options),
    minimal: {},
  },
  createPresetsChatCompletions: {
    kept: kept.chat,
    make: (who, slug, body, options) => who.sdk.presets.createPresetsChatCompletions({ slug, chatRequest: body }, options),
    minimal: { messages: [userMessage] },
  },
  createPresetsMessages: {
    kept: kept.messages,
    make: (who, slug, body, options) => who.sdk.presets.createPresetsMessages({ slug, messagesRequest: body }, options),
    minimal: { model: "acme/small", messages: null },
  },
};
const { createPresetsResponses: responses, createPresetsChatCompletions: chat, createPresetsMessages: messages } = skins;

// The requests with every field must be complete.

await check("the full requests have every field that the client knows", () => {
  for (const [schema, request, without] of [
    [models.ResponsesRequest$outboundSchema, fullRequest, ["previousResponseId", "store"]],
    [models.ChatRequest$outboundSchema, fullChatRequest, []],
    [models.MessagesRequest$outboundSchema, fullMessagesRequest, ["models"]],
  ]) {
    assert.deepEqual(Object.keys(schema.in.shape).filter((name) => !(name in request)), without);
  }
});

// Versions from each API

const analyst = []; // its versions, in order

await check("presets.createPresetsChatCompletions makes version 1 from a full request", async () => {
  const { data } = await chat.make(management, "analyst", fullChatRequest);
  assert.equal(management.seen.status, 200);
  assert.match(management.seen.headers.get("etag"), tag);
  sameConfig(management.seen, kept.chat);
  const { designatedVersion: version } = data;
  assert.match(data.id, uuid);
  assert.equal(data.slug, "analyst");
  assert.equal(data.status, "active");
  assert.equal(version.version, 1);
  assert.equal(version.systemPrompt, "You are a careful analyst.\n\nAnswer in “German” \u{1F600}.\n\nBe brief.");
  assert.equal(version.config.tools.length, fullChatRequest.tools.length);
  for (const name of ["messages", "stream", "stream_options", "prediction", "metadata", "user", "session_id", "trace", "debug", "prompt_cache_key"]) {
    assert.ok(!(name in version.config), `${name} is stored`);
  }
  analyst.push(version);
});

await check("presets.createPresetsMessages makes version 2 from a full request", async () => {
  const { data } = await messages.make(management, "analyst", fullMessagesRequest);
  sameConfig(management.seen, kept.messages);
  const { designatedVersion: version } = data;
  assert.equal(version.version, 2);
  assert.equal(version.presetId, analyst[0].presetId);
  assert.equal(version.systemPrompt, "You are a careful analyst.\n\nAnswer in “German” \u{1F600}.");
  assert.equal(version.config.tools.length, fullMessagesRequest.tools.length);
  for (const name of ["messages", "system", "stream", "metadata", "user", "session_id", "trace", "safeguards"]) {
    assert.ok(!(name in version.config), `${name} is stored`);
  }
  analyst.push(version);
});

await check("presets.createPresetsMessages with models instead of fallbacks", async () => {
  const { fallbacks, ...others } = fullMessagesRequest;
  await messages.make(management, "with-models", { ...others, models: fallbacks.map(({ model }) => model) });
  sameConfig(management.seen, kept.messages);
});

await check("presets.createPresetsResponses makes version 3 from a full request", async () => {
  const { data } = await responses.make(management, "analyst", fullRequest);
  sameConfig(management.seen, kept.responses);
  analyst.push(data.designatedVersion);
});

await check("system prompts: none, empty, and what is no part of them", async () => {
  for (const [skin, body, want] of [
    [chat, { messages: [userMessage] }, null],
    [chat, { messages: [] }, null],
    [chat, { messages: [userMessage, { role: "system", content: "Late" }] }, null],
    [chat, { messages: [{ role: "developer", content: "One" }, { role: "system", content: "Two" }, userMessage] }, "One\n\nTwo"],
    [messages, { model: "acme/small", messages: [{ role: "system", content: "Ignored" }] }, null],
    [messages, { model: "acme/small", messages: [], system: "" }, ""],
    [messages, { model: "acme/small", messages: [], system: "Plain" }, "Plain"],
    [responses, {}, null],
    [responses, { instructions: "" }, ""],
  ]) {
    const { data } = await skin.make(management, "prompts", body);
    assert.equal(data.designatedVersion.systemPrompt, want, JSON.stringify(body));
    assert.equal((await presets.get({ slug: "prompts" })).data.designatedVersion.systemPrompt, want);
  }
});

await check("nothing to keep: config {}", async () => {
  const { data } = await chat.make(management, "empty", { messages: [userMessage] });
  assert.deepEqual(data.designatedVersion.config, {});
});

// Reading

await check("presets.get is what presets.create… answered, with either key", async () => {
  const { data: made } = await responses.make(management, "read", { model: "acme/small" });
  for (const who of [management, inference]) {
    assert.deepEqual((await who.sdk.presets.get({ slug: "read" })).data, made);
    assert.match(who.seen.headers.get("etag"), tag);
  }
});

await check("presets.getVersion has each version as it was made", async () => {
  for (const who of [management, inference]) {
    for (const want of analyst) {
      assert.deepEqual((await who.sdk.presets.getVersion({ slug: "analyst", version: String(want.version) })).data, want);
      assert.match(who.seen.headers.get("etag"), tag);
    }
  }
});

await check("presets.listVersions pages through all, the first first", async () => {
  for (const limit of [1, 2, 3, 4, undefined]) {
    const pages = [];
    for await (const { result } of await inference.sdk.presets.listVersions({ slug: "analyst", limit })) {
      assert.equal(result.totalCount, 3);
      pages.push(result.data);
    }
    assert.deepEqual(pages.flat(), analyst);
    assert.ok(pages.every((page) => page.length <= (limit ?? 50)));
  }
});

await check("presets.listVersions from an offset, by page.next()", async () => {
  const first = await presets.listVersions({ slug: "analyst", offset: 1, limit: 1 });
  assert.deepEqual(first.result.data, [analyst[1]]);
  const second = await first.next();
  assert.deepEqual(second.result.data, [analyst[2]]);
  const end = await second.next();
  assert.deepEqual(end.result.data, []);
  assert.equal(end.result.totalCount, 3);
  assert.equal(end.next(), null);
});

await check("presets.list pages through all, the one that changed last first", async () => {
  const elsewhere = client(managementKey, { query: { workspace_id: "many" } });
  await management.sdk.workspaces.create({ createWorkspaceRequest: { name: "Many", slug: "many" } });
  const slugs = Array.from({ length: 53 }, (_, i) => `preset-${i}`);
  for (const slug of slugs) {
    await responses.make(elsewhere, slug, { model: "acme/small" });
  }
  await messages.make(elsewhere, "preset-7", { model: "acme/large", messages: [] });
  const want = ["preset-7", ...slugs.toReversed().filter((slug) => slug !== "preset-7")];
  for (const limit of [undefined, 10, 53, 100]) {
    const listed = [];
    for await (const { result } of await elsewhere.sdk.presets.list({ limit })) {
      assert.equal(result.totalCount, want.length);
      listed.push(...result.data);
    }
    assert.deepEqual(listed.map(({ slug }) => slug), want);
    for (const preset of listed) {
      assert.match(preset.id, uuid);
      assert.match(preset.updatedAt, utc);
      assert.ok(!("designatedVersion" in preset));
    }
  }
  const { result } = await elsewhere.sdk.presets.list({ offset: 52 });
  assert.deepEqual(result.data.map(({ slug }) => slug), ["preset-0"]);
  const { designatedVersion, ...row } = (await elsewhere.sdk.presets.get({ slug: "preset-0" })).data;
  assert.deepEqual(result.data[0], row);
});

await check("presets of another workspace do not show", async () => {
  await rejects(() => presets.get({ slug: "preset-7" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  const { result } = await inference.sdk.presets.list({ limit: 100 });
  assert.ok(result.data.every(({ slug }) => !slug.startsWith("preset-")));
  assert.equal(result.totalCount, result.data.length);
});

// Errors

const reads = {
  "presets.list": (who) => who.sdk.presets.list(),
  "presets.get": (who) => who.sdk.presets.get({ slug: "analyst" }),
  "presets.listVersions": (who) => who.sdk.presets.listVersions({ slug: "analyst" }),
  "presets.getVersion": (who) => who.sdk.presets.getVersion({ slug: "analyst", version: "1" }),
};

for (const [name, call] of Object.entries(reads)) {
  await check(`${name} with an unknown key and without one: UnauthorizedResponseError`, async () => {
    await rejects(() => call(stranger), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
    await rejects(() => call(nobody), errors.UnauthorizedResponseError, 401, /^Missing Authentication header$/);
  });
}

await check("presets.get, listVersions and getVersion of what is not there: NotFoundResponseError", async () => {
  await rejects(() => presets.get({ slug: "nobody" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  await rejects(() => presets.get({ slug: analyst[0].presetId }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  await rejects(() => presets.listVersions({ slug: "nobody" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  await rejects(() => presets.getVersion({ slug: "nobody", version: "1" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  await rejects(() => presets.getVersion({ slug: "analyst", version: "4" }), errors.NotFoundResponseError, 404, /^Preset version not found/);
});

await check("presets.getVersion of what is no number: BadRequestResponseError", async () => {
  for (const version of ["0", "-1", "1.0", "01", "one", analyst[0].id]) {
    await rejects(() => presets.getVersion({ slug: "analyst", version }), errors.BadRequestResponseError, 400, /^Version must be a positive integer/);
  }
});

await check("presets.list and listVersions with a bad page: BadRequestResponseError", async () => {
  for (const [page, name] of [[{ limit: 0 }, "limit"], [{ limit: 101 }, "limit"], [{ offset: -1 }, "offset"]]) {
    await rejects(() => presets.list(page), errors.BadRequestResponseError, 400, new RegExp(name));
    await rejects(() => presets.listVersions({ slug: "analyst", ...page }), errors.BadRequestResponseError, 400, new RegExp(name));
  }
});

const broken = {
  createPresetsChatCompletions: [
    [{ messages: [userMessage], stop: ["1", "2", "3", "4", "5"] }, "/stop"],
    [{ messages: [userMessage], sessionId: "s".repeat(257) }, "/session_id"],
    [{ messages: [userMessage], model: "@preset/analyst" }, "/model"],
    [{ messages: [userMessage], models: ["acme/large", "acme/small@preset/analyst"] }, "/models/1"],
    [{ messages: [userMessage], reasoning: { effort: "high" }, reasoningEffort: "low" }, "/reasoning_effort"],
    [{ messages: [userMessage], tools: [{ type: "function", function: { name: "n".repeat(65) } }] }, "/tools/0/function/name"],
    [{ messages: [userMessage], tools: [{ type: "openrouter:subagent", parameters: { inheritFunctions: true } }] }, "/tools/0/parameters/inherit_functions"],
  ],
  createPresetsMessages: [
    [{ model: "@preset/analyst", messages: [] }, "/model"],
    [{ model: "acme/large", messages: [], user: "u".repeat(257) }, "/user"],
    [{ model: "acme/large", messages: [], fallbacks: ["1", "2", "3", "4"].map((model) => ({ model })) }, "/fallbacks"],
    [{ model: "acme/large", messages: [], fallbacks: [{ model: "acme/small" }], models: ["acme/small"] }, ""], // of both
    [{ model: "acme/large", messages: [], fallbacks: [{ model: "@preset/analyst" }] }, "/fallbacks/0/model"],
  ],
};

for (const [name, bodies] of Object.entries(broken)) {
  await check(`presets.${name} with a broken rule: BadRequestResponseError with its place`, async () => {
    for (const [body, path] of bodies) {
      const err = await rejects(() => skins[name].make(management, "analyst", body), errors.BadRequestResponseError, 400, /^Invalid request parameters: /);
      assert.ok(err.error.metadata.issues.some((issue) => issue.path === path), `${path} is not in ${JSON.stringify(err.error.metadata.issues)}`);
    }
  });
}

for (const [name, { make, minimal }] of Object.entries(skins)) {
  await check(`presets.${name} with the wrong key: ForbiddenResponseError and UnauthorizedResponseError`, async () => {
    await rejects(() => make(inference, "analyst", minimal), errors.ForbiddenResponseError, 403, /^Only management keys can perform this operation$/);
    await rejects(() => make(stranger, "analyst", minimal), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
    await rejects(() => make(nobody, "analyst", minimal), errors.UnauthorizedResponseError, 401, /^Missing Authentication header$/);
  });

  await check(`presets.${name} with a bad slug: BadRequestResponseError`, async () => {
    for (const slug of ["-analyst", "a/b", "ą", "a".repeat(129)]) {
      await rejects(() => make(management, slug, minimal), errors.BadRequestResponseError, 400, /slug/);
    }
  });

  await check(`presets.${name} in an unknown workspace: NotFoundResponseError`, () =>
    rejects(() => make(client(managementKey, { query: { workspace_id: "nowhere" } }), "analyst", minimal), errors.NotFoundResponseError, 404, /workspace not found/i));
}

await check("none of the refused requests made a version", async () => {
  assert.equal((await presets.listVersions({ slug: "analyst" })).result.totalCount, 3);
});

// Retired presets. The client has no operation for that yet.

const manage = (method, path, body, headers) => must(method, path, { key: managementKey, body, headers });

await check("an archived preset is gone for the client, its slug taken: ConflictResponseError", async () => {
  const { data: made } = await responses.make(management, "retired", { model: "acme/small", instructions: "Be brief." });
  const { totalCount } = (await presets.list()).result;
  for (let i = 0; i < 2; i++) { // the second time, too
    assert.deepEqual(await manage("DELETE", "/presets/retired"), { deleted: true });
  }
  await rejects(() => presets.get({ slug: "retired" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  await rejects(() => presets.listVersions({ slug: "retired" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  await rejects(() => presets.getVersion({ slug: "retired", version: "1" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
  const { result } = await presets.list({ limit: 100 });
  assert.equal(result.totalCount, totalCount - 1);
  assert.ok(!result.data.some(({ slug }) => slug === "retired"));
  for (const { make, minimal } of Object.values(skins)) {
    await rejects(() => make(management, "retired", minimal), errors.ConflictResponseError, 409, /^Preset is archived: restore it first$/);
  }
  const archived = (await must("GET", "/presets?status=archived", { key: inferenceKey })).data;
  assert.equal(archived.find(({ slug }) => slug === "retired")?.status, "archived");
  const err = await failure(() => inference.sdk.chat.send({ chatRequest: { model: "@preset/retired", messages: [userMessage] } }));
  assert.ok(err instanceof errors.NotFoundResponseError, `got ${err}`);

  for (let i = 0; i < 2; i++) {
    const restored = (await manage("POST", "/presets/retired/restore")).data;
    assert.equal(restored.status, "active");
    assert.equal(restored.designated_version.id, made.designatedVersionId);
  }
  const { data } = await presets.get({ slug: "retired" });
  assert.match(data.statusUpdatedAt, utc);
  assert.deepEqual({ ...data, statusUpdatedAt: null, updatedAt: made.updatedAt }, made);
  assert.equal((await presets.list()).result.totalCount, totalCount);
});

await check("a disabled preset shows as such and is locked: ConflictResponseError", async () => {
  await responses.make(management, "resting", { model: "acme/small" });
  await manage("PATCH", "/presets/resting", { status: "disabled", name: "Ruht \u{1F600}", description: "For a while" });
  const { data } = await inference.sdk.presets.get({ slug: "resting" });
  assert.equal(data.status, "disabled");
  assert.equal(data.name, "Ruht \u{1F600}");
  assert.equal(data.description, "For a while");
  const { result } = await presets.list();
  assert.equal(result.data[0].slug, "resting");
  assert.equal(result.data[0].status, "disabled");
  for (const { make, minimal } of Object.values(skins)) {
    await rejects(() => make(management, "resting", minimal), errors.ConflictResponseError, 409, /^Preset is disabled: set its status to active first$/);
  }
  const err = await failure(() => inference.sdk.chat.send({ chatRequest: { model: "@preset/resting", messages: [userMessage] } }));
  assert.ok(err instanceof errors.NotFoundResponseError, `got ${err}`);
  assert.equal((await raw("DELETE", "/presets/resting", { key: managementKey })).status, 409);
  assert.equal((await raw("POST", "/presets/resting/restore", { key: managementKey })).status, 409);
  await manage("PATCH", "/presets/resting", { status: "active", description: null });
  const { data: active } = await presets.get({ slug: "resting" });
  assert.equal(active.status, "active");
  assert.equal(active.description, null);
});

// Designation, labels, differences

const send = async (who, more, options) => {
  await who.sdk.chat.send({ chatRequest: { messages: [userMessage], ...more } }, options);
  return who.seen.headers.get("x-preset");
};

await check("a rolled-back preset shows and serves the earlier version, and the next one counts on", async () => {
  for (const temperature of [0.1, 0.2, 0.3]) {
    await chat.make(management, "writer", { model: "acme/small", temperature, messages: [{ role: "system", content: `Version at ${temperature}` }] });
  }
  await manage("POST", "/presets/writer/designate", { version: 1 });
  const { data } = await presets.get({ slug: "writer" });
  assert.equal(data.designatedVersion.version, 1);
  assert.equal(data.designatedVersionId, data.designatedVersion.id);
  assert.equal((await presets.listVersions({ slug: "writer" })).result.totalCount, 3);
  assert.equal(await send(inference, { model: "@preset/writer" }), "writer@1");
  assert.equal((await upstream()).body.temperature, 0.1);
  await chat.make(management, "writer", { model: "acme/small", temperature: 0.4, messages: [] });
  assert.equal(await send(inference, { model: "@preset/writer" }), "writer@4");
});

await check("chat.send and responses.send with a label", async () => {
  await manage("PUT", "/presets/writer/labels/staging", { version: 2 });
  for (const more of [{ model: "@preset/writer@staging" }, { model: "acme/other@preset/writer@staging" }]) {
    assert.equal(await send(inference, more), "writer@2");
    assert.equal((await upstream()).body.temperature, 0.2);
    assert.deepEqual((await upstream()).body.messages[0], { role: "system", content: "Version at 0.2" });
    await inference.sdk.responses.send({ responsesRequest: { input: userText, ...more } });
    assert.equal(inference.seen.headers.get("x-preset"), "writer@2");
    assert.equal((await upstream()).body.instructions, "Version at 0.2");
  }
  assert.equal(await send(client(inferenceKey, { fields: { preset: "writer@staging" } }), {}), "writer@2");
  await manage("PUT", "/presets/writer/labels/staging", { version: 3 });
  assert.equal(await send(inference, { model: "@preset/writer@staging" }), "writer@3"); // at once
  await manage("POST", "/presets/writer/designate", { label: "staging" });
  assert.equal((await presets.get({ slug: "writer" })).data.designatedVersion.version, 3);
  for (const label of ["nobody", "latest"]) {
    const err = await failure(() => send(inference, { model: `@preset/writer@${label}` }));
    assert.ok(err instanceof errors.NotFoundResponseError, `got ${err}`);
    assert.match(err.error.message, new RegExp(`@preset/writer@${label}`));
  }
});

await check("a label tells what it stands for, and its history", async () => {
  const { data } = await manage("GET", "/presets/writer");
  assert.deepEqual(data.labels, { staging: { version: 3 } });
  const label = (await manage("GET", "/presets/writer/labels/staging")).data;
  assert.equal(label.version, 3);
  assert.deepEqual(label.history.map(({ from, to }) => [from, to]), [[{ version: 2 }, { version: 3 }], [null, { version: 2 }]]);
  assert.ok(label.history.every(({ user_id: by, time }) => by === "user_e2e" && utc.test(time)));
});

await check("a split stays with the session, in the body or the header, and takes both versions", async () => {
  await manage("PUT", "/presets/writer/labels/split", { split: [{ version: 1, weight: 1 }, { version: 2, weight: 1 }] });
  const served = new Set();
  for (let i = 0; i < 32; i++) {
    const id = `session ${i}`;
    const first = await send(inference, { model: "@preset/writer@split", sessionId: id });
    served.add(first);
    assert.equal(await send(inference, { model: "@preset/writer@split" }, { headers: { "X-Session-Id": id } }), first);
    await inference.sdk.responses.send({ responsesRequest: { input: userText, model: "acme/other@preset/writer@split", sessionId: id } });
    assert.equal(inference.seen.headers.get("x-preset"), first);
  }
  assert.deepEqual([...served].sort(), ["writer@1", "writer@2"]);
  const byKey = await send(inference, { model: "@preset/writer@split" });
  for (let i = 0; i < 8; i++) {
    assert.equal(await send(inference, { model: "@preset/writer@split" }), byKey);
  }
  await manage("PUT", "/presets/writer/labels/split", { split: [{ version: 1, weight: 0 }, { version: 2, weight: 1 }] });
  for (let i = 0; i < 8; i++) {
    assert.equal(await send(inference, { model: "@preset/writer@split", sessionId: `session ${i}` }), "writer@2");
  }
});

await check("a removed label resolves no more", async () => {
  assert.deepEqual(await manage("DELETE", "/presets/writer/labels/split"), { deleted: true });
  const { version, history } = (await manage("GET", "/presets/writer/labels/split")).data;
  assert.equal(version, null);
  assert.equal(history[0].to, null);
  const err = await failure(() => send(inference, { model: "@preset/writer@split" }));
  assert.ok(err instanceof errors.NotFoundResponseError, `got ${err}`);
});

await check("the difference of two versions that the client made", async () => {
  const { data } = await must("GET", "/presets/writer/diff?from=1&to=staging", { key: inferenceKey });
  assert.equal(data.from, 1);
  assert.equal(data.to, 3);
  assert.deepEqual(data.config, [{ op: "replace", path: "/temperature", value: 0.3, old: 0.1 }]);
  assert.match(data.system_prompt, /^-Version at 0\.1$/m);
  assert.match(data.system_prompt, /^\+Version at 0\.3$/m);
});

// Conditional requests, by the client's own headers

const withHeaders = (headers) => ({ headers });

await check("presets.create… with If-Match: the first wins, the second gets 412, which the client has no type for", async () => {
  for (const [name, { make, minimal }] of Object.entries(skins)) {
    const slug = `matched-${name}`;
    await make(management, slug, minimal);
    const known = management.seen.headers.get("etag");
    const { data } = await make(management, slug, minimal, withHeaders({ "If-Match": known }));
    assert.equal(data.designatedVersion.version, 2);
    await rejects(() => make(management, slug, minimal, withHeaders({ "If-Match": known })), errors.OpenRouterDefaultError, 412, /^Precondition failed/);
    assert.equal((await presets.get({ slug })).data.designatedVersion.version, 2);
    await presets.get({ slug });
    await make(management, slug, minimal, withHeaders({ "If-Match": `"${"0".repeat(32)}", ${management.seen.headers.get("etag")}` }));
    await make(management, slug, minimal, withHeaders({ "If-Match": "*" }));
  }
});

await check("presets.create… with If-None-Match: * creates only", async () => {
  for (const [name, { make, minimal }] of Object.entries(skins)) {
    const slug = `created-${name}`;
    const only = withHeaders({ "If-None-Match": "*" });
    assert.equal((await make(management, slug, minimal, only)).data.designatedVersion.version, 1);
    await rejects(() => make(management, slug, minimal, only), errors.OpenRouterDefaultError, 412, /^Precondition failed/);
    await rejects(() => make(management, `${slug}-not`, minimal, withHeaders({ "If-Match": "*" })), errors.OpenRouterDefaultError, 412, /^Precondition failed/);
  }
});

await check("16 at once with If-Match: one version", async () => {
  await responses.make(management, "raced", {});
  const known = management.seen.headers.get("etag");
  const outcomes = await Promise.allSettled(Array.from({ length: 16 }, (_, i) =>
    responses.make(client(managementKey), "raced", { topK: i }, withHeaders({ "If-Match": known }))));
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
  assert.ok(outcomes.every(({ reason }) => !reason || reason.statusCode === 412));
  assert.equal((await presets.listVersions({ slug: "raced" })).result.totalCount, 2);
});

await check("presets.get, getVersion and the lists with If-None-Match: 304, which the client has no type for", async () => {
  for (const read of [
    (options) => inference.sdk.presets.get({ slug: "analyst" }, options),
    (options) => inference.sdk.presets.getVersion({ slug: "analyst", version: "1" }, options),
    (options) => inference.sdk.presets.listVersions({ slug: "analyst" }, options),
    (options) => inference.sdk.presets.list(undefined, options),
  ]) {
    await read();
    const known = inference.seen.headers.get("etag");
    assert.match(known, tag);
    const err = await failure(() => read(withHeaders({ "If-None-Match": known })));
    assert.ok(err instanceof errors.OpenRouterDefaultError, `got ${err}`);
    assert.equal(err.statusCode, 304);
    assert.equal(err.body, "");
    assert.equal(err.headers.get("etag"), known);
    await read(withHeaders({ "If-None-Match": `"${"0".repeat(32)}"` }));
    assert.equal(inference.seen.headers.get("etag"), known);
  }
});

await check("the tag of a preset changes with all that the client sees of it", async () => {
  await responses.make(management, "tagged", {});
  const tags = new Set([management.seen.headers.get("etag")]);
  const changes = [
    () => responses.make(management, "tagged", {}),
    () => manage("POST", "/presets/tagged/designate", { version: 1 }),
    () => manage("PATCH", "/presets/tagged", { name: "Other" }),
    () => manage("PUT", "/presets/tagged/labels/a", { version: 1 }),
    () => manage("PATCH", "/presets/tagged", { status: "disabled" }),
  ];
  for (const change of changes) {
    await change();
    await presets.get({ slug: "tagged" });
    tags.add(management.seen.headers.get("etag"));
  }
  assert.equal(tags.size, 1 + changes.length);
});

// Repeated requests

await check("presets.create… with an Idempotency-Key: once, and the same answer again", async () => {
  for (const [name, { make, minimal }] of Object.entries(skins)) {
    const slug = `repeated-${name}`;
    const once = withHeaders({ "Idempotency-Key": `${slug} 1` });
    const { data: first } = await make(management, slug, minimal, once);
    const bytes = management.seen.received;
    await make(management, slug, minimal, withHeaders({ "Idempotency-Key": `${slug} 2` }));
    const { data: again } = await make(management, slug, minimal, once);
    assert.deepEqual(again, first);
    assert.deepEqual(management.seen.received, bytes);
    assert.equal((await presets.listVersions({ slug })).result.totalCount, 2);
  }
});

await check("the same Idempotency-Key for another request: 422, which the client has no type for here", async () => {
  const once = withHeaders({ "Idempotency-Key": "k".repeat(255) });
  await responses.make(management, "unprocessable", { topK: 1 }, once);
  for (const other of [
    () => responses.make(management, "unprocessable", { topK: 2 }, once),
    () => responses.make(management, "unprocessable-too", { topK: 1 }, once),
    () => chat.make(management, "unprocessable", { topK: 1, messages: [] }, once),
    () => responses.make(client(managementKey, { query: { workspace_id: "many" } }), "unprocessable", { topK: 1 }, once),
  ]) {
    await rejects(other, errors.OpenRouterDefaultError, 422, /Idempotency-Key/);
  }
  assert.equal((await presets.listVersions({ slug: "unprocessable" })).result.totalCount, 1);
  await rejects(() => presets.get({ slug: "unprocessable-too" }), errors.NotFoundResponseError, 404, /^Preset not found$/);
});

await check("an Idempotency-Key of 256 characters: BadRequestResponseError", () =>
  rejects(() => responses.make(management, "unprocessable", {}, withHeaders({ "Idempotency-Key": "k".repeat(256) })), errors.BadRequestResponseError, 400, /idempotency-key/));

await check("16 at once with one Idempotency-Key: one version and one answer", async () => {
  const once = withHeaders({ "Idempotency-Key": "16 at once" });
  const made = await Promise.all(Array.from({ length: 16 }, () => responses.make(client(managementKey), "hurried", { model: "acme/small" }, once)));
  for (const { data } of made) {
    assert.deepEqual(data, made[0].data);
  }
  assert.equal((await presets.listVersions({ slug: "hurried" })).result.totalCount, 1);
});

// lossy is a proxy between the client and the server. It drops the first connection on
// which the server answers. So the client does not know the outcome of its request.
async function lossy() {
  const server = new URL(process.env.PRESETS_BASE_URL);
  let lost = 0;
  const proxy = createServer((near) => {
    const far = connect(server.port, server.hostname);
    const drop = () => {
      near.destroy();
      far.destroy();
    };
    near.on("error", drop).on("close", drop);
    far.on("error", drop).on("close", drop);
    near.unref(); // an unused connection does not keep the process alive
    far.unref();
    near.pipe(far);
    far.on("data", (answer) => {
      if (lost === 0) {
        lost++;
        return drop();
      }
      near.write(answer);
    });
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return { baseURL: `http://127.0.0.1:${proxy.address().port}${server.pathname}`, lost: () => lost, close: () => proxy.close() };
}

const retryConfig = {
  strategy: "backoff",
  backoff: { initialInterval: 50, maxInterval: 1000, exponent: 1.5, maxElapsedTime: 20_000 },
  retryConnectionErrors: true,
};

await check("the client's own retry after a lost answer: one version with an Idempotency-Key, two without", async () => {
  for (const [slug, options, versions] of [["lost-once", withHeaders({ "Idempotency-Key": "lost" }), 1], ["lost-twice", undefined, 2]]) {
    const wire = await lossy();
    const { data } = await responses.make(client(managementKey, { baseURL: wire.baseURL, retryConfig }), slug, { model: "acme/small" }, options);
    wire.close();
    assert.equal(wire.lost(), 1);
    assert.equal(data.designatedVersion.version, versions);
    assert.equal((await presets.listVersions({ slug })).result.totalCount, versions);
  }
});

await check("what is not offered: 404 and 405 of ours", async () => {
  const before = await count();
  assert.equal((await raw("POST", "/presets", { key: managementKey, body: {} })).status, 405);
  assert.equal((await raw("PUT", "/presets/analyst", { key: managementKey, body: {} })).status, 405);
  assert.equal((await raw("POST", "/presets/analyst/completions", { key: managementKey, body: {} })).status, 404);
  assert.equal(await count(), before);
});

finish();
