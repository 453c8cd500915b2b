// Uses templates, policies, protection and limited keys with the official OpenRouter
// client, which validates answers and does not know these. Prints one line per check; exits
// with 1 on a failure.
//
// sdk_test.go starts the servers, issues the keys and sets the environment.

import assert from "node:assert/strict";
import * as errors from "@openrouter/sdk/models/errors";
import { check, client, count, failure, finish, must, raw, rejects, upstream } from "./harness.mjs";

const managementKey = process.env.PRESETS_MANAGEMENT_KEY; // has all rights
const management = client(managementKey);
const inference = client(process.env.PRESETS_INFERENCE_KEY);
const plainManager = client(process.env.PRESETS_PLAIN_KEY); // without rights
const keeper = client(process.env.PRESETS_KEEPER_KEY); // with the right protected-labels
const limited = client(process.env.PRESETS_LIMITED_KEY); // tour-guide and later alone, models acme/*
const onlyTeam = client(process.env.PRESETS_TEAM_KEY); // manages the workspace team alone

const template = client(managementKey, { query: { template: "true" } });
const manage = (method, path, body) => must(method, path, { key: managementKey, body });

const policy = { lock: ["tools"], bounds: { temperature: { max: 1 } }, models: ["acme/*"], violation: "override" };
const request = {
  model: "acme/large", temperature: 0.2, instructions: "You know {{city}}.",
  input: [{ role: "user", content: "Name three sights in {{city}}." }],
};
const made = []; // the versions of tour-guide

await check("presets.create… with template=true, from each API", async () => {
  const { presets } = template.sdk;
  const messages = [{ role: "user", content: "Name three sights in {{city}}." }];
  for (const { data } of [
    await presets.createPresetsChatCompletions({ slug: "tour-guide", chatRequest: { model: "acme/small", messages: [{ role: "system", content: "You know {{city}}." }, ...messages] } }),
    await presets.createPresetsMessages({ slug: "tour-guide", messagesRequest: { model: "acme/small", maxTokens: 10, system: "You know {{city}}.", messages } }),
    await presets.createPresetsResponses({ slug: "tour-guide", responsesRequest: request }),
  ]) {
    assert.equal(data.designatedVersion.systemPrompt, "You know {{city}}.");
    made.push(data.designatedVersion);
  }
  assert.deepEqual(JSON.parse(template.seen.received).data.designated_version.template, { variables: ["city"], messages: request.input });
  await management.sdk.presets.createPresetsResponses({ slug: "secret", responsesRequest: { model: "acme/large" } });
});

await check("a policy and protection are set", async () => {
  const { data } = await manage("PATCH", "/presets/tour-guide", { policy, protected: true });
  assert.deepEqual([data.policy, data.protected], [policy, true]);
  await manage("PUT", "/presets/tour-guide/labels/production", { version: 2, protected: true });
});

// Reading

const readers = { management, inference, "a manager without rights": plainManager, "a limited key": limited };

for (const [name, who] of Object.entries(readers)) {
  await check(`presets.get, list, getVersion and listVersions with ${name}`, async () => {
    const { data } = await who.sdk.presets.get({ slug: "tour-guide" });
    const { data: raw } = JSON.parse(who.seen.received);
    assert.deepEqual([raw.policy, raw.protected], [policy, true]);
    assert.deepEqual(data.designatedVersion, made[2]);

    const { result } = await who.sdk.presets.list();
    const slugs = who === limited ? ["tour-guide"] : ["secret", "tour-guide"];
    assert.deepEqual(result.data.map(({ slug }) => slug).sort(), slugs);
    assert.equal(result.totalCount, slugs.length);

    const { result: versions } = await who.sdk.presets.listVersions({ slug: "tour-guide" });
    assert.deepEqual(versions.data, made);
    for (const version of made) {
      assert.deepEqual((await who.sdk.presets.getVersion({ slug: "tour-guide", version: String(version.version) })).data, version);
    }
  });
}

// Keys that may do less

await check("what a limited key does not reach does not exist: NotFoundResponseError", async () => {
  const answers = [];
  for (const slug of ["secret", "nobody"]) {
    await rejects(() => limited.sdk.presets.get({ slug }), errors.NotFoundResponseError, 404, /^Preset not found$/);
    answers.push(JSON.parse(limited.seen.received).error);
    await rejects(() => limited.sdk.presets.listVersions({ slug }), errors.NotFoundResponseError, 404, /^Preset not found$/);
    await rejects(() => limited.sdk.presets.getVersion({ slug, version: "1" }), errors.NotFoundResponseError, 404, /not found/);
  }
  assert.deepEqual(answers[0], answers[1]);
});

await check("models.list of a limited key has its presets alone", async () => {
  const { result } = await limited.sdk.models.list();
  assert.deepEqual(result.data.map(({ id }) => id), ["@preset/tour-guide"]);
  const { result: all } = await inference.sdk.models.list();
  assert.deepEqual(all.data.map(({ id }) => id), ["acme/large", "acme/small", "@preset/secret", "@preset/tour-guide"]);
});

await check("a key for one workspace sees no other", async () => {
  const { result } = await onlyTeam.sdk.workspaces.list();
  assert.deepEqual(result.data.map(({ slug }) => slug), ["team"]);
  const { data } = await onlyTeam.sdk.workspaces.get({ id: "team" });
  assert.equal(data.slug, "team");
  await rejects(() => onlyTeam.sdk.workspaces.get({ id: "default" }), errors.NotFoundResponseError, 404, /workspace not found/i);
  await rejects(() => onlyTeam.sdk.workspaces.create({ createWorkspaceRequest: { name: "New", slug: "new" } }), errors.ForbiddenResponseError, 403, /./);
  await rejects(() => onlyTeam.sdk.workspaces.delete({ id: "team" }), errors.ForbiddenResponseError, 403, /./);
});

await check("a key for one workspace makes presets in it", async () => {
  const there = client(process.env.PRESETS_TEAM_KEY, { query: { workspace_id: "team" } });
  const { data } = await there.sdk.presets.createPresetsResponses({ slug: "own", responsesRequest: { model: "acme/small" } });
  assert.equal(data.designatedVersion.version, 1);
  const { result } = await there.sdk.presets.list();
  assert.deepEqual(result.data.map(({ slug }) => slug), ["own"]);
});

// Protection

await check("a new version of a protected preset without the right: ForbiddenResponseError", async () => {
  for (const create of [
    (body) => plainManager.sdk.presets.createPresetsResponses({ slug: "tour-guide", responsesRequest: body }),
    (body) => plainManager.sdk.presets.createPresetsChatCompletions({ slug: "tour-guide", chatRequest: { messages: [{ role: "user", content: "x" }], ...body } }),
    (body) => plainManager.sdk.presets.createPresetsMessages({ slug: "tour-guide", messagesRequest: { maxTokens: 10, messages: [], ...body } }),
  ]) {
    await rejects(() => create({ model: "acme/small" }), errors.ForbiddenResponseError, 403, /protected-labels/);
  }
  const { status, json } = await raw("PUT", "/presets/tour-guide/labels/production", { key: process.env.PRESETS_PLAIN_KEY, body: { version: 1 } });
  assert.equal(status, 403);
  assert.match(json.error.message, /protected-labels/);
});

await check("a draft without the right, and its designation with it", async () => {
  const drafts = client(process.env.PRESETS_PLAIN_KEY, { query: { template: "true", designate: "false" } });
  const { data } = await drafts.sdk.presets.createPresetsResponses({ slug: "tour-guide", responsesRequest: { ...request, temperature: 0.3 } });
  assert.equal(data.designatedVersion.version, 3);
  const { status } = await raw("POST", "/presets/tour-guide/designate", { key: process.env.PRESETS_KEEPER_KEY, body: { version: 4 } });
  assert.equal(status, 200);
  assert.equal((await keeper.sdk.presets.get({ slug: "tour-guide" })).data.designatedVersion.version, 4);
});

// Inference

const prompt = { id: "tour-guide", variables: { city: "Rome" } };

await check("responses.send with a prompt, whose settings a policy bounds", async () => {
  for (const who of [inference, limited]) {
    await who.sdk.responses.send({ responsesRequest: { prompt, model: "acme/small", temperature: 1.5 } });
    const { body } = await upstream();
    assert.equal(body.instructions, "You know Rome.");
    assert.deepEqual(body.input, [{ role: "user", content: "Name three sights in Rome." }]);
    assert.deepEqual([body.model, body.temperature, body.prompt], ["acme/small", 1, undefined]);
    assert.equal(who.seen.headers.get("x-preset"), "tour-guide@4");
    assert.equal(who.seen.headers.get("x-preset-enforced"), "temperature");
  }
});

await check("chat.send with a prompt as an extra field", async () => {
  const who = client(process.env.PRESETS_LIMITED_KEY, { fields: { prompt } });
  await who.sdk.chat.send({ chatRequest: { messages: [{ role: "user", content: "Hello" }] } });
  assert.deepEqual((await upstream()).body.messages, [
    { role: "system", content: "You know Rome." },
    { role: "user", content: "Name three sights in Rome." },
    { role: "user", content: "Hello" },
  ]);
});

const before = await count();

for (const [name, chatRequest, type, status, message] of [
  ["without a value", { model: "@preset/tour-guide" }, errors.BadRequestResponseError, 400, /lacks variables of the template: city/],
  ["with a preset out of reach", { model: "@preset/secret" }, errors.NotFoundResponseError, 404, /^Preset not found: @preset\/secret$/],
  ["without a preset", { model: "acme/large" }, errors.BadRequestResponseError, 400, /preset/],
  ["with a model out of reach", { model: "other/large@preset/tour-guide" }, errors.ForbiddenResponseError, 403, /\/model/],
]) {
  await check(`chat.send of a limited key ${name}: ${type.name}`, () =>
    rejects(() => limited.sdk.chat.send({ chatRequest: { messages: [{ role: "user", content: "Hello" }], ...chatRequest } }), type, status, message));
}

await check("chat.send that a policy refuses: ForbiddenResponseError", async () => {
  await manage("PATCH", "/presets/tour-guide", { policy: { ...policy, violation: "refuse" } });
  const who = client(process.env.PRESETS_INFERENCE_KEY, { fields: { prompt } });
  const err = await failure(() => who.sdk.chat.send({ chatRequest: { messages: [{ role: "user", content: "Hello" }], temperature: 1.5 } }));
  assert.ok(err instanceof errors.ForbiddenResponseError, `got ${err.name}: ${err.body ?? err.message}`);
  assert.match(err.error.message, /\/temperature/);
});

await check("nothing of the refused requests reached the service", async () => {
  assert.equal(await count(), before);
});

finish();
