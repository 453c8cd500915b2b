// Workspaces: list, create, change defaults, delete, and their history.

import assert from "node:assert/strict";
import { administer, eventually, go, look, makePreset, manage, managementKey, scenario, send, shows, status, unlock } from "./harness.mjs";

const workspace = async (slug) => (await send("GET", `/workspaces/${slug}`)).body?.data;

scenario("a workspace is created, changed and deleted", { key: managementKey }, async ({ page }) => {
  await go(page, "/workspaces");
  const table = page.getByRole("table", { name: "Workspaces" });
  await shows(table, "default");

  await page.getByRole("button", { name: "New workspace" }).click();
  let dialog = page.getByRole("dialog", { name: "New workspace" });
  await dialog.getByRole("textbox", { name: "Name" }).fill("Team C");
  await dialog.getByRole("textbox", { name: "Slug" }).fill("Not A Slug");
  await dialog.getByRole("button", { name: /Create|Save|New workspace/ }).click();
  await shows(dialog, /Error/);
  await dialog.getByRole("textbox", { name: "Slug" }).fill("team-c");
  await dialog.getByRole("button", { name: /Create|Save|New workspace/ }).click();
  await status(page, /team-c|Team C/i);
  assert.equal((await workspace("team-c")).name, "Team C");

  const row = table.getByRole("row").filter({ hasText: "team-c" });
  await row.getByRole("button", { name: /^(Edit|Change)/ }).click();
  dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: /text model/i }).fill("acme/default");
  await dialog.getByRole("textbox", { name: /image model/i }).fill("acme/draw");
  await dialog.getByRole("button", { name: /Save|Change/ }).click();
  await eventually(async () => assert.equal((await workspace("team-c")).default_text_model, "acme/default"));
  assert.equal((await workspace("team-c")).default_image_model, "acme/draw");

  await makePreset("in-c", { workspace: "team-c" });
  await row.getByRole("button", { name: /^Delete/ }).click();
  dialog = page.getByRole("dialog", { name: "Delete" });
  const confirm = dialog.getByRole("button", { name: "Delete" });
  const typed = dialog.getByRole("textbox");
  await typed.fill("team-b");
  if (await confirm.isEnabled()) {
    await confirm.click();
    await shows(dialog, /Error/);
  }
  assert.ok(await workspace("team-c"), "the wrong slug deletes nothing");
  await typed.fill("team-c");
  await confirm.click();
  await status(page, /deleted/);
  assert.equal(await workspace("team-c"), undefined);
  await eventually(async () => assert.equal(await row.count(), 0));
});

scenario("a workspace's history has that of its presets", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Team D", slug: "team-d" });
  await makePreset("in-d", { workspace: "team-d" });
  await go(page, "/w/team-d/history");
  const table = page.getByRole("table").first();
  await shows(table, "in-d");
  await shows(table, "Step 2 of in-d");
  await shows(table, "user_e2e");
  await eventually(async () => assert.ok(await table.getByRole("row").count() >= 5));
});

scenario("a change of a workspace keeps the lines of its description", { key: managementKey }, async ({ page }) => {
  const description = "The first line.\nThe second one.";
  await manage("POST", "/workspaces", { name: "Team E", slug: "team-e", description });
  await go(page, "/workspaces");
  await page.getByRole("button", { name: "Change team-e" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: /text model/i }).fill("acme/other");
  await dialog.getByRole("button", { name: "Save" }).click();
  await eventually(async () => assert.equal((await workspace("team-e")).default_text_model, "acme/other"));
  assert.equal((await workspace("team-e")).description, description);
});

scenario("a key of one workspace begins there", {}, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Team F", slug: "team-f" });
  await makePreset("in-f", { workspace: "team-f" });
  const { key } = await administer("POST", "keys", { kind: "management", workspace: "team-f", only_workspace: true });
  await go(page, "");
  await unlock(page, key);
  await shows(page.getByRole("table", { name: "Presets" }), "in-f");
});

scenario("the list to switch between workspaces is complete, even if it changes while it is read", { key: managementKey }, async ({ page }) => {
  const create = (n) => manage("POST", "/workspaces", { name: `Team ${n}`, slug: `many-${n}` });
  await Promise.all(Array.from({ length: 120 }, (_, n) => create(n)));
  const change = async () => {
    for (const n of [0, 1, 2]) {
      await manage("DELETE", `/workspaces/many-${n}`);
      await create(200 + n);
    }
  };
  let changed;
  await page.route((url) => url.pathname === "/v1/workspaces" && Number(url.searchParams.get("offset")) > 0, async (route) => {
    await (changed ??= change());
    await route.continue();
  });
  await page.reload();
  const options = page.getByRole("combobox", { name: "Workspace" }).locator("option");
  await eventually(async () => assert.ok(await options.count() > 100));
  const all = [...await manage("GET", "/workspaces?limit=100"), ...await manage("GET", "/workspaces?limit=100&offset=100")];
  assert.deepEqual(await options.allInnerTexts(), all.map(({ slug }) => slug));
  assert.ok(changed);
});

scenario("a server without an API of keys has no keys to show", { key: managementKey }, async ({ page }) => {
  await page.getByRole("link", { name: "Budgets" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Keys", exact: true }).count(), 0);
  await go(page, "/w/default/keys");
  await shows(page.getByRole("main"), /key_api/);
  await go(page, "/w/default/budgets");
  await shows(page.getByRole("main"), /cannot be held, because usage is not measured/);
});

scenario("the state of the server is told, to keys of all workspaces alone", { key: managementKey }, async ({ page }) => {
  await go(page, "");
  await page.getByRole("link", { name: "State", exact: true }).click();
  await shows(page.getByRole("table", { name: "Stores" }), "takes changes");
  await shows(page.getByRole("main"), /has no backup since this process began/);
  await shows(page.getByRole("main"), "No webhook is set.");
  await look(page, "state");
  await page.route("**/v1/presets/-/state", async (route) => {
    const response = await route.fetch(), answer = await response.json();
    Object.assign(answer.data.stores[0], { writable: false, error: "no space left" });
    answer.data.webhooks = [{ host: "hooks.test", waiting: 3, last_delivery: null, last_failure: new Date().toISOString() }];
    await route.fulfill({ response, json: answer });
  });
  await page.reload();
  for (const text of ["takes no changes.", "no space left", "The webhook hooks.test does not take what is sent."]) {
    await shows(page.getByRole("main"), text);
  }
  await shows(page.getByRole("table", { name: "Webhooks" }), "hooks.test");
});
