// Keys and budgets of a workspace: what they may spend and what they have spent.

import assert from "node:assert/strict";
import { before } from "node:test";
import { administer, eventually, go, inferenceKey, look, makePreset, manage, managementKey, scenario, send, shows, site, status, unlock } from "./harness.mjs";

const button = (place, name) => place.getByRole("button", { name, exact: true });
const textbox = (place, name) => place.getByRole("textbox", { name, exact: true });
const rowOf = (page, name) => page.getByRole("table", { name: "Keys" }).getByRole("row").filter({ hasText: name });
const keysOf = (workspace) => manage("GET", `/keys?include_disabled=true&workspace_id=${workspace}`);
const keyOf = async (workspace, name) => (await keysOf(workspace)).find((key) => key.name === name);

// ask sends a chat request with a key and returns its status. It costs 0.002 dollars, or 4.25 of acme/dear.
async function ask(key, model = "acme/small") {
  const answer = await fetch(`${site}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  await answer.text();
  return answer.status;
}

// issue makes a key of a workspace, and returns its secret.
async function issue(name, more = {}, workspace = "team") {
  const { status: code, body } = await send("POST", "/keys", { name, workspace_id: workspace, ...more });
  assert.equal(code, 201, JSON.stringify(body));
  return body.key;
}

// secretIn reads the secret that a dialog shows.
const secretIn = async (dialog) => (await dialog.getByRole("region", { name: "Secret" }).innerText()).trim();

// copyFrom presses a button, and returns what that copies.
async function copyFrom(page, place, name) {
  const text = page.evaluate(() => new Promise((resolve) => document.addEventListener("copy", (event) => resolve(event.clipboardData.getData("text/plain")), { once: true })));
  await button(place, name).click();
  return text;
}

// answering answers the questions of a page, and returns what was asked.
function answering(page, answer) {
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.message());
    return answer.yes ? dialog.accept() : dialog.dismiss();
  });
  return asked;
}

before(async () => {
  for (const slug of ["team", "others", "budgets", "support"]) {
    await manage("POST", "/workspaces", { name: `Team ${slug}`, slug });
  }
  await makePreset("summary", { workspace: "team" });
});

scenario("a key is issued, and its secret is shown once", { key: managementKey, fresh: true }, async ({ page }) => {
  const answer = { yes: false };
  const asked = answering(page, answer);
  await go(page, "/w/others/keys");
  await shows(page, "No keys yet");
  await page.keyboard.press("n");
  const form = page.getByRole("dialog", { name: "New key" });
  await textbox(form, "Name").fill("ci-agent");
  await textbox(form, "Limit in US dollars").fill("ten");
  await form.getByText("Limits of requests and tokens").click();
  await textbox(form, "Requests a minute").fill("60");
  await button(form, "Issue key").click();
  await shows(form, /Error.*must be/);
  assert.equal(await textbox(form, "Limit in US dollars").getAttribute("aria-invalid"), "true");
  assert.deepEqual(await keysOf("others"), [], "nothing is issued yet");

  await textbox(form, "Limit in US dollars").fill("$10");
  await form.getByRole("combobox", { name: "Resets" }).selectOption("each day");
  await form.getByLabel("Expires after").fill("2099-12-31");
  await form.getByText("Presets and models that it reaches").click();
  await textbox(form, "Models").fill("acme/*\nopenai/*");
  await button(form, "Issue key").click();
  const shown = page.getByRole("dialog", { name: "Secret" });
  const secret = await secretIn(shown);
  assert.match(secret, /^caddypresets_inf_[0-9A-Za-z]{49}$/);

  await button(shown, "Close").click();
  assert.match(asked.at(-1), /not copied/, "nobody loses a secret by mistake");
  assert.equal(await copyFrom(page, shown, "Copy secret"), secret);
  await shows(shown, "Copied");
  await button(shown, "Close").click();
  await shown.waitFor({ state: "detached" });
  assert.equal(asked.length, 1);

  const { limit, limit_reset: reset, limits, models, expires_at: expires, label } = await keyOf("others", "ci-agent");
  assert.deepEqual({ limit, reset, limits, models, expires }, { limit: 10, reset: "daily", limits: { requests_per_minute: 60 }, models: ["acme/*", "openai/*"], expires: "2099-12-31T23:59:59Z" });
  assert.equal(await ask(secret), 200);
  const row = rowOf(page, "ci-agent");
  await shows(row, label.replace("caddypresets_inf_", ""));
  assert.ok(!(await page.evaluate(() => document.documentElement.outerHTML + JSON.stringify({ ...sessionStorage }))).includes(secret), "the page forgets the secret");
  await page.reload();
  await shows(row, /of \$10 a day/);
  await shows(row, "60 requests a minute");
  await shows(row, "acme/*, openai/*");
});

scenario("a list shows what keys may spend, and what they have spent", { key: managementKey }, async ({ page }) => {
  const half = await issue("half", { limit: 0.004, limit_reset: "monthly" });
  const spent = await issue("spender", { limit: 0.001, limit_reset: "monthly" });
  await issue("reader", { presets: ["summary"], preset_required: true, expires_at: "2099-01-01T00:00:00Z" });
  assert.equal(await ask(half), 200);
  await ask(spent);
  await go(page, "/w/team/keys");
  const meter = (name) => rowOf(page, name).getByRole("meter");
  await eventually(async () => assert.equal(await meter("half").getAttribute("aria-valuetext"), "50 %"));
  await eventually(async () => assert.equal(await meter("spender").getAttribute("aria-valuetext"), "200 %"));
  await shows(rowOf(page, "half"), "$0.002 of $0.004 a month");
  await shows(rowOf(page, "spender"), "Used up. Requests get 403.");
  await shows(page.getByRole("main"), /used up/);
  await shows(rowOf(page, "reader"), "must name a preset");
  await shows(rowOf(page, "reader"), "no limit of cost");
  assert.equal(await ask(spent), 403);
  await look(page, "keys");
});

scenario("a limit that will not last is told in words", { key: managementKey, fresh: true }, async ({ page }) => {
  assert.equal(await ask(await issue("too fast", { limit: 0.004, limit_reset: "monthly" })), 200);
  await page.clock.setFixedTime(new Date("2026-11-11T00:00:00Z"));
  await go(page, "/w/team/keys");
  await shows(rowOf(page, "too fast"), "At this pace used up in 1 wk.");
  await page.clock.setFixedTime(new Date("2026-11-20T00:00:00Z"));
  await page.reload();
  await unlock(page, managementKey); // nobody used the page for nine days
  await shows(rowOf(page, "too fast"), "$0.002 of $0.004 a month");
  assert.equal(await rowOf(page, "too fast").getByText(/At this pace/).count(), 0);
});

scenario("a key is changed, disabled and enabled, and each can be taken back", { key: managementKey }, async ({ page }) => {
  const secret = await issue("ann", { limit: 5, limit_reset: "weekly", limits: { concurrent: 2 } });
  await go(page, "/w/team/keys");
  const row = rowOf(page, "ann");
  await button(row, "ann").click();
  const form = page.getByRole("dialog", { name: "Change key" });
  assert.equal(await textbox(form, "At once").inputValue(), "2");
  await textbox(form, "Limit in US dollars").fill("7.5");
  await button(form, "Save").click();
  await status(page, "ann is changed");
  await shows(row, "$7.50 a week");
  let { limit, limits, limit_reset: reset } = await keyOf("team", "ann");
  assert.deepEqual({ limit, limits, reset }, { limit: 7.5, limits: { concurrent: 2 }, reset: "weekly" });
  await button(page, "Undo").click();
  await status(page, "ann is as before");
  ({ limit, limits, limit_reset: reset } = await keyOf("team", "ann"));
  assert.deepEqual({ limit, limits, reset }, { limit: 5, limits: { concurrent: 2 }, reset: "weekly" });

  assert.equal(await ask(secret), 200);
  await button(row, "Disable ann").click();
  await status(page, "ann is disabled");
  await shows(row, /^disabled$/);
  assert.equal(await ask(secret), 401);
  await button(page, "Undo").click();
  await status(page, "ann is enabled");
  await button(row, "Disable ann").waitFor();
  assert.equal(await ask(secret), 200);
});

scenario("a key is rotated, and its former secret works for a while", { key: managementKey }, async ({ page }) => {
  const first = await issue("rotating", { limit: 3 });
  const rotate = async (grace) => {
    await button(rowOf(page, "rotating"), "Rotate rotating").click();
    const form = page.getByRole("dialog", { name: "Rotate" });
    if (grace) {
      await form.getByRole("combobox", { name: "The present secret still works" }).selectOption(grace);
    }
    await button(form, "Rotate").click();
    const shown = page.getByRole("dialog", { name: "Secret" });
    const secret = await secretIn(shown);
    await button(shown, "Copy secret").click();
    await look(page, grace ? "secret" : "secret-with-grace");
    await button(shown, "Close").click();
    return secret;
  };
  await go(page, "/w/team/keys");
  const second = await rotate("");
  assert.notEqual(second, first);
  await shows(rowOf(page, "rotating"), /The former secret ends in/);
  assert.deepEqual([await ask(first), await ask(second)], [200, 200]);
  const third = await rotate("not at all");
  assert.deepEqual([await ask(first), await ask(second), await ask(third)], [401, 401, 200]);
  assert.equal((await keyOf("team", "rotating")).limit, 3);
});

scenario("a key is deleted after a question", { key: managementKey }, async ({ page }) => {
  const secret = await issue("old laptop");
  await go(page, "/w/team/keys");
  const remove = button(rowOf(page, "old laptop"), "Delete old laptop");
  await remove.click();
  const question = page.getByRole("dialog", { name: "Delete" });
  await shows(question, /for good/);
  await page.keyboard.press("Escape");
  await question.waitFor({ state: "detached" });
  assert.equal(await ask(secret), 200, "Escape deletes nothing");
  await remove.click();
  await button(question, "Delete").click();
  await status(page, "old laptop is deleted");
  await eventually(async () => assert.equal(await rowOf(page, "old laptop").count(), 0));
  assert.equal(await ask(secret), 401);
});

scenario("an answer with a secret that is lost does not ask for another key", { key: managementKey }, async ({ page }) => {
  await go(page, "/w/team/keys");
  await page.route("**/v1/keys", async (route) => {
    await route.fetch();
    await route.abort();
  });
  await button(page, "New key").click();
  const form = page.getByRole("dialog", { name: "New key" });
  await textbox(form, "Name").fill("lost answer");
  await button(form, "Issue key").click();
  await shows(form, /look at the list before you try again/);
  await shows(page, "lost answer");
  await button(form, "Cancel").click({ noWaitAfter: true });
});

scenario("more keys than a page has are on the next one", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Many", slug: "many" });
  for (let n = 1; n <= 101; n++) {
    await send("POST", "/keys", { name: `key ${n}`, workspace_id: "many" });
  }
  await go(page, "/w/many/keys");
  await shows(page, "1–100 of 101");
  await shows(page, "101 keys");
  assert.equal(await rowOf(page, "key 101").count(), 0);
  await button(page, "Next").click();
  await shows(page, "101–101 of 101");
  await shows(rowOf(page, "key 101"), "every preset and model");
});

scenario("a key of one workspace sees the keys of that alone", {}, async ({ page }) => {
  await issue("of team");
  await send("POST", "/keys", { name: "of others", workspace_id: "others" });
  const { key } = await administer("POST", "keys", { kind: "management", workspace: "team", only_workspace: true, may: ["issue-keys"] });
  await go(page, "");
  await unlock(page, key);
  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await shows(page.getByRole("table", { name: "Keys" }), "of team");
  assert.equal(await rowOf(page, "of others").count(), 0);
  await page.getByRole("link", { name: "Budgets", exact: true }).click();
  await shows(page.getByRole("main"), /cannot change them/);
  await go(page, "/w/others/keys");
  await shows(page.getByRole("main"), /Error/);
});

scenario("who may not issue keys sees none, and a developer sees the own one", {}, async ({ page }) => {
  const { key } = await administer("POST", "keys", { kind: "management" });
  await go(page, "/w/team/keys");
  await unlock(page, key);
  await shows(page.getByRole("main"), /takes a management key with the right issue-keys/);
  assert.equal(await page.getByRole("link", { name: "Keys", exact: true }).count(), 0);
  await button(page, "Lock").click();

  const own = await issue("developer", { limit: 0.008, limit_reset: "monthly" });
  assert.equal(await ask(own), 200);
  await unlock(page, own);
  await page.getByRole("link", { name: "Key", exact: true }).click();
  await shows(page.getByRole("main"), "$0.002 of $0.008 a month");
  await eventually(async () => assert.equal(await page.getByRole("meter").getAttribute("aria-valuetext"), "25 %"));
  await look(page, "own-key");
});

scenario("a budget is set, changed and removed, and each can be taken back", { key: managementKey }, async ({ page }) => {
  const { body } = await send("POST", "/keys", { name: "spender", workspace_id: "budgets" });
  assert.equal(await ask(body.key), 200);
  const budgets = async () => Object.fromEntries((await manage("GET", "/workspaces/budgets/budgets")).map(({ reset_interval: interval, limit_usd: usd }) => [interval, usd]));
  await go(page, "/w/budgets/keys");
  await page.getByRole("link", { name: "Budgets" }).click();
  const row = (name) => page.getByRole("table", { name: "Budgets" }).getByRole("row").filter({ hasText: name });
  const dialog = page.getByRole("dialog", { name: "Set budget" });
  const set = async (press, usd) => {
    await button(page, press).click();
    await textbox(dialog, "US dollars").fill(usd);
    await button(dialog, "Save").click();
  };
  await set("Set monthly", "0.004");
  await status(page, "The budget is set");
  assert.deepEqual(await budgets(), { monthly: 0.004 });
  await shows(row("Monthly"), "$0.002 of $0.004 a month");
  assert.equal(await row("Monthly").getByRole("meter").getAttribute("aria-valuetext"), "50 %");
  await look(page, "budgets");

  await set("Set daily", "1");
  await shows(dialog, /Error.*less than the monthly budget/);
  await button(dialog, "Cancel").waitFor();
  await textbox(dialog, "US dollars").fill("0.002");
  await button(dialog, "Save").click();
  await shows(row("Daily"), "Used up. Requests get 403.");
  assert.equal(await ask(body.key), 403);
  await button(page, "Undo").click();
  await status(page, "The budget is as before");
  assert.equal(await ask(body.key), 200);

  await button(page, "Remove monthly").click();
  await status(page, "The budget is removed");
  assert.deepEqual(await budgets(), {});
  await button(page, "Undo").click();
  await status(page, "The budget is as before");
  assert.deepEqual(await budgets(), { monthly: 0.004 });
});

scenario("an inference key sees no budgets", { key: inferenceKey, at: "/w/default/budgets" }, async ({ page }) => {
  await shows(page.getByRole("main"), /Only a management key sees the budgets/);
});

scenario("a key of one workspace sees its budgets, and changes none", {}, async ({ page }) => {
  const { key } = await administer("POST", "keys", { kind: "management", workspace: "budgets", only_workspace: true });
  await go(page, "");
  await unlock(page, key);
  await page.getByRole("link", { name: "Budgets", exact: true }).click();
  await shows(page.getByRole("main"), "$0.004 of $0.004 a month");
  await shows(page.getByRole("main"), /cannot change them/);
  assert.equal(await page.getByRole("main").getByRole("button").count(), 0);
  await look(page, "budgets-read-only");
});

scenario("usage by key has the names of keys, and what limits refused", { key: managementKey, at: "/w/team/usage?by=key" }, async ({ page }) => {
  const of = (name) => page.getByRole("table", { name: "Totals" }).getByRole("row").filter({ hasText: name });
  await shows(of("spender"), "1 refused");
  await shows(page.getByRole("main"), "1 more refused by limits");
  await page.getByText("More", { exact: true }).click();
  await page.getByRole("heading", { name: "Refused by limits" }).waitFor();
  assert.equal(await of("half").getByText("refused").count(), 0);
  await look(page, "usage-by-key");
});

scenario("a team sees what each of its keys may spend, and what all together", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/presets/triage/chat/completions?workspace_id=support", { model: "acme/dear", messages: [{ role: "system", content: "Sort tickets." }] });
  const keys = {
    "Ann Berger": [5, { limit: 50, limit_reset: "monthly", limits: { requests_per_minute: 60 } }],
    "Jonas Weidemann": [4, { limit: 20, limit_reset: "weekly" }],
    "triage-agent": [1, { limit: 30, limit_reset: "daily", presets: ["triage", "summary"], preset_required: true, limits: { requests_per_minute: 120, concurrent: 8 }, expires_at: new Date(Date.now() + 100 * 86_400_000).toISOString() }],
    "nightly-batch": [3, { limit: 12.75, models: ["acme/*", "openai/gpt-5-mini", "openai/gpt-5-nano", "mistral/*"] }],
    ci: [0, { limits: { requests_per_day: 1000, tokens_per_day: 2_000_000 } }],
    webshop: [18, { limit: 1200, limit_reset: "monthly" }],
  };
  for (const [name, [requests, limits]] of Object.entries(keys)) {
    const secret = await issue(name, limits, "support");
    for (let n = 0; n < requests; n++) {
      assert.equal(await ask(secret, limits.presets ? "@preset/triage" : "acme/dear"), 200);
    }
  }
  for (const [interval, usd] of [["daily", 150], ["monthly", 1500], ["lifetime", 20_000]]) {
    await manage("PUT", `/workspaces/support/budgets/${interval}`, { limit_usd: usd });
  }
  await manage("PATCH", `/keys/${(await keyOf("support", "ci")).hash}`, { disabled: true });
  await go(page, "/w/support/keys");
  await shows(page, "6 keys · 1 disabled · 1 used up");
  await shows(rowOf(page, "Ann Berger"), "$21.25 of $50 a month");
  await look(page, "team-keys");
  await go(page, "/w/support/budgets");
  await shows(page.getByRole("main"), "$131.75 of $150 a day");
  await look(page, "team-budgets");
});
