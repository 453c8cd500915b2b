// Runs the official OpenRouter client, which validates answers, through the life of keys. Prints
// one line per check; exits with 1 on a failure.
//
// sdk_test.go starts the servers, makes the workspace team with a key that issues keys there
// alone, and sets the environment.

import assert from "node:assert/strict";
import * as errors from "@openrouter/sdk/models/errors";
import { check, client, finish, must, raw, rejects, utc, uuid, within } from "./harness.mjs";

const managementKey = process.env.PRESETS_MANAGEMENT_KEY;
const teamKey = process.env.PRESETS_TEAM_KEY;

const management = client(managementKey);
const team = client(teamKey);
const inference = client(process.env.PRESETS_INFERENCE_KEY);
const stranger = client("sk-nobody-knows-this-one");
const { apiKeys, workspaces } = management.sdk;

const { data: home } = await workspaces.get({ id: "default" });
const { data: teams } = await workspaces.get({ id: "team" });
const ask = (key) => client(key).sdk.chat.send({ chatRequest: { model: "acme/large", messages: [{ role: "user", content: "Hello" }] } });
const unused = {
  usage: 0, usageDaily: 0, usageWeekly: 0, usageMonthly: 0, byokUsage: 0, byokUsageDaily: 0, byokUsageWeekly: 0, byokUsageMonthly: 0,
};

// counted returns a key once its first request counts, which is when the answer has ended.
async function counted(hash) {
  for (;;) {
    const { data } = await apiKeys.get({ hash });
    if (data.usage > 0) {
      return data;
    }
  }
}

let made;

await check("apiKeys.create with the name alone", async () => {
  const { data, key } = await apiKeys.create({ requestBody: { name: "Plain" } });
  assert.equal(management.seen.status, 201);
  assert.match(key, /^caddypresets_inf_[0-9A-Za-z]{49}$/);
  assert.match(data.hash, /^[0-9a-f]{64}$/);
  assert.match(data.createdAt, utc);
  assert.equal(data.label, `${key.slice(0, 20)}...${key.slice(-4)}`);
  const { hash, label, createdAt, ...rest } = data;
  assert.deepEqual(rest, {
    ...unused, name: "Plain", disabled: false, limit: null, limitRemaining: null, limitReset: null, includeByokInLimit: false, updatedAt: null,
    expiresAt: null, creatorUserId: null, externalUser: null, workspaceId: home.id,
  });
  await ask(key);
});

await check("apiKeys.create with all fields", async () => {
  const expiresAt = new Date(Date.now() + 86_400_000);
  const body = { name: "Zespół Łódź", limit: 50.5, limitReset: "monthly", includeByokInLimit: true, expiresAt, creatorUserId: "ann", workspaceId: teams.id };
  made = await apiKeys.create({ requestBody: body });
  for (const [name, value] of Object.entries(body)) {
    assert.deepEqual(made.data[name], value, name);
  }
  assert.equal(made.data.limitRemaining, 50.5);
  await ask(made.key);
  const data = await within(counted(made.data.hash), "the cost of a request counts");
  const { usage } = data;
  const limitRemaining = Math.round((50.5 - usage) * 1e9) / 1e9;
  assert.deepEqual(data, { ...made.data, usage, usageDaily: usage, usageWeekly: usage, usageMonthly: usage, limitRemaining });
  made.data = data;
});

await check("apiKeys.create with an external user, which is told to be ignored", async () => {
  const { data } = await apiKeys.create({ requestBody: { name: "External", external: { user: "u" } } });
  assert.equal(management.seen.headers.get("x-preset-ignored"), "external");
  await apiKeys.delete({ hash: data.hash });
});

await check("apiKeys.create with a broken rule: BadRequestResponseError with its place", async () => {
  for (const [requestBody, path] of [
    [{ name: "" }, "/name"],
    [{ name: "n", limit: -1 }, "/limit"],
    [{ name: "n", limitReset: "hourly" }, "/limit_reset"],
    [{ name: "n", expiresAt: new Date(0) }, "/expires_at"],
  ]) {
    const err = await rejects(() => apiKeys.create({ requestBody }), errors.BadRequestResponseError, 400, /^Invalid request parameters: \//);
    assert.equal(err.error.metadata.issues[0].path, path);
  }
});

await check("apiKeys.get and getCurrentKeyMetadata", async () => {
  assert.deepEqual((await apiKeys.get({ hash: made.data.hash })).data, made.data);
  const { data } = await client(made.key).sdk.apiKeys.getCurrentKeyMetadata();
  assert.equal(data.label, made.data.label);
  assert.equal(data.limit, 50.5);
  assert.equal(data.limitReset, "monthly");
  assert.equal(data.workspaceId, teams.id);
  assert.deepEqual(data.expiresAt, made.data.expiresAt);
  assert.ok(!data.isManagementKey && !data.isFreeTier);
  assert.equal(data.rateLimit.requests, -1);
  const own = (await management.sdk.apiKeys.getCurrentKeyMetadata()).data;
  assert.ok(own.isManagementKey && own.isProvisioningKey);
});

await check("apiKeys.list pages, by workspace and with disabled keys", async () => {
  const { data: inTeam } = await apiKeys.list({ workspaceId: teams.id });
  assert.deepEqual(inTeam, [made.data]);
  const { data: inHome } = await apiKeys.list();
  assert.deepEqual(inHome.map(({ name }) => name), ["Plain"]);
  assert.deepEqual((await apiKeys.list({ offset: 1 })).data, []);
  const hashes = [];
  for (let i = 0; i < 101; i++) {
    hashes.push((await team.sdk.apiKeys.create({ requestBody: { name: `Key ${i}` } })).data.hash);
  }
  const { data: first } = await team.sdk.apiKeys.list();
  const { data: second } = await team.sdk.apiKeys.list({ offset: 100 });
  assert.deepEqual([...first, ...second].map(({ hash }) => hash), [made.data.hash, ...hashes]);
  await apiKeys.update({ hash: hashes[0], requestBody: { disabled: true } });
  assert.equal((await apiKeys.list({ workspaceId: teams.id, offset: 100 })).data.length, 1);
  assert.equal((await apiKeys.list({ workspaceId: teams.id, offset: 100, includeDisabled: true })).data.length, 2);
});

await check("apiKeys.update changes what it names, with the next request", async () => {
  const { data } = await apiKeys.update({ hash: made.data.hash, requestBody: { name: "New", limit: null, limitReset: null, includeByokInLimit: false } });
  assert.match(data.updatedAt, utc);
  assert.deepEqual(data, { ...made.data, name: "New", limit: null, limitRemaining: null, limitReset: null, includeByokInLimit: false, updatedAt: data.updatedAt });
  await apiKeys.update({ hash: data.hash, requestBody: { disabled: true } });
  await rejects(() => ask(made.key), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
  await apiKeys.update({ hash: data.hash, requestBody: { disabled: false } });
  await ask(made.key);
  await rejects(() => apiKeys.update({ hash: data.hash, requestBody: { limit: -1 } }), errors.BadRequestResponseError, 400, /\/limit/);
});

await check("limits beyond OpenRouter, by the client's users", async () => {
  const more = client(managementKey, { fields: { limits: { requests_per_minute: 60 }, models: ["acme/*"], preset_required: false } });
  const { data, key } = await more.sdk.apiKeys.create({ requestBody: { name: "Limited" } });
  const shown = (await must("GET", `/keys/${data.hash}`, { key: managementKey })).data;
  assert.deepEqual(shown.limits, { requests_per_minute: 60 });
  assert.deepEqual(shown.models, ["acme/*"]);
  assert.match(shown.id, uuid);
  await ask(key);
});

await check("a key of one workspace sees no other key", async () => {
  const { data: others } = await apiKeys.list();
  assert.equal((await team.sdk.apiKeys.get({ hash: made.data.hash })).data.name, "New");
  for (const hash of [others[0].hash, "0".repeat(64)]) {
    await rejects(() => team.sdk.apiKeys.get({ hash }), errors.NotFoundResponseError, 404, /^Key not found$/);
    await rejects(() => team.sdk.apiKeys.update({ hash, requestBody: { disabled: true } }), errors.NotFoundResponseError, 404, /^Key not found$/);
    await rejects(() => team.sdk.apiKeys.delete({ hash }), errors.NotFoundResponseError, 404, /^Key not found$/);
  }
  await rejects(() => team.sdk.apiKeys.create({ requestBody: { name: "n", workspaceId: home.id } }), errors.OpenRouterDefaultError, 404, /^Workspace not found$/);
});

await check("the wrong key: UnauthorizedResponseError and ForbiddenResponseError", async () => {
  await rejects(() => stranger.sdk.apiKeys.list(), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
  await rejects(() => stranger.sdk.apiKeys.getCurrentKeyMetadata(), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
  await rejects(() => inference.sdk.apiKeys.create({ requestBody: { name: "n" } }), errors.ForbiddenResponseError, 403, /^Only management keys can perform this operation$/);
  const plain = client(process.env.PRESETS_PLAIN_KEY);
  await rejects(() => plain.sdk.apiKeys.create({ requestBody: { name: "n" } }), errors.ForbiddenResponseError, 403, /issue-keys/);
});

await check("a rotated key is the same key", async () => {
  const { status, json } = await raw("POST", `/keys/${made.data.hash}/rotate`, { key: teamKey, body: { grace: "1h" } });
  assert.equal(status, 200, JSON.stringify(json));
  await ask(made.key);
  await ask(json.key);
  assert.equal((await apiKeys.get({ hash: made.data.hash })).data.hash, json.data.hash);
  made = json;
});

await check("apiKeys.delete ends a key for good", async () => {
  assert.deepEqual(await apiKeys.delete({ hash: made.data.hash }), { deleted: true });
  await rejects(() => ask(made.key), errors.UnauthorizedResponseError, 401, /^Invalid credentials$/);
  await rejects(() => apiKeys.get({ hash: made.data.hash }), errors.NotFoundResponseError, 404, /^Key not found$/);
  await rejects(() => apiKeys.delete({ hash: made.data.hash }), errors.NotFoundResponseError, 404, /^Key not found$/);
  await rejects(() => apiKeys.update({ hash: made.data.hash, requestBody: { disabled: false } }), errors.NotFoundResponseError, 404, /^Key not found$/);
});

// Budgets

const set = (who, interval, limitUsd, more) =>
  who.sdk.workspaces.setBudget({ workspaceRef: teams.id, interval, upsertWorkspaceBudgetRequest: { limitUsd, ...more } });

await check("workspaces.setBudget sets and changes a budget", async () => {
  const { data, includeByokInBudgets } = await set(management, "monthly", 100.5);
  assert.match(data.id, uuid);
  assert.match(data.createdAt, utc);
  assert.deepEqual(data, { ...data, workspaceId: teams.id, limitUsd: 100.5, resetInterval: "monthly", updatedAt: data.createdAt });
  assert.equal(includeByokInBudgets, false);
  const changed = await set(team, "monthly", 90, { includeByokInBudgets: true });
  assert.equal(changed.data.id, data.id);
  assert.equal(changed.data.limitUsd, 90);
  assert.equal(changed.includeByokInBudgets, true);
});

await check("workspaces.listBudgets, getBudget and deleteBudget", async () => {
  const { data: lifetime } = await set(management, "lifetime", 1000);
  assert.equal(lifetime.resetInterval, null);
  const { data, includeByokInBudgets } = await workspaces.listBudgets({ workspaceRef: "team" });
  assert.deepEqual(data.map(({ resetInterval, limitUsd }) => [resetInterval, limitUsd]), [["monthly", 90], [null, 1000]]);
  assert.equal(includeByokInBudgets, true);
  assert.deepEqual((await workspaces.getBudget({ workspaceRef: "team", interval: "lifetime" })).data, lifetime);
  for (let again = 0; again < 2; again++) {
    assert.deepEqual(await workspaces.deleteBudget({ workspaceRef: "team", interval: "lifetime" }), { deleted: true });
  }
  await rejects(() => workspaces.getBudget({ workspaceRef: "team", interval: "lifetime" }), errors.NotFoundResponseError, 404, /^Budget not found$/);
});

await check("a budget of a shorter interval is less: BadRequestResponseError", async () => {
  await rejects(() => set(management, "daily", 90), errors.BadRequestResponseError, 400, /must be less than the monthly budget of \$90/);
  await rejects(() => set(management, "daily", 0), errors.BadRequestResponseError, 400, /limit_usd/);
});

await check("a spent budget refuses requests: ForbiddenResponseError", async () => {
  const { key } = await apiKeys.create({ requestBody: { name: "Spent", workspaceId: teams.id, limit: 0, limitReset: "weekly" } });
  const err = await rejects(() => ask(key), errors.ForbiddenResponseError, 403, /^Key limit exceeded \(weekly limit\)$/);
  assert.equal(JSON.parse(err.body).error.metadata.limit_source, "openrouter_key_limit");
});

finish();
