// Unlock, the list of presets, and addresses.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { act, administer, at, browse, console_, eventually, go, inferenceKey, makePreset, manage, managementKey, openMenu, scenario, send, shows, status, unlock } from "./harness.mjs";

const rows = (page) => page.getByRole("table", { name: "Presets" }).locator("tbody").getByRole("row");
const slugs = async (page) => (await rows(page).locator(".slug").allInnerTexts()).map((text) => text.trim());

scenario("an empty store shows the first request, which works", {}, async ({ page }) => {
  await unlock(page, managementKey);
  await shows(page, /\/v1\/presets\/.+curl|curl .+\/v1\/presets\//);
  const text = await page.getByText(/^curl /).first().innerText();
  assert.ok(text.includes(new URL(console_).origin), text);
  await page.getByRole("button", { name: /^Copy/ }).first().click();
  await status(page, "Copied");

  // The request as someone pastes it into a shell.
  const url = /https?:\S+/.exec(text)[0];
  const body = /-d '([^']*)'/s.exec(text)[1];
  const answer = await fetch(url, { method: "POST", headers: { Authorization: `Bearer ${managementKey}`, "Content-Type": "application/json" }, body });
  const made = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(made));
  const { slug } = made.data;
  await eventually(async () => assert.deepEqual(await slugs(page), [slug])); // without a reload
  await manage("DELETE", `/presets/${slug}`);
});

scenario("a wrong key is told, and the right one unlocks", {}, async ({ page }) => {
  const key = page.getByRole("textbox", { name: "API key" });
  await shows(page, "caddy presets key create"); // where to get one
  await key.fill("a-key-that-nobody-knows");
  await page.getByRole("button", { name: "Unlock" }).click();
  await shows(page, /Error/);
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.tagName), "INPUT"));
  await unlock(page, managementKey);
  await page.getByRole("heading", { name: "Presets", exact: true }).waitFor();
  await eventually(async () => assert.equal(await key.count(), 0));
});

scenario("the key is in tabs alone, those give it to each other, and Lock forgets it in all", { fresh: true, key: managementKey }, async ({ page, context }) => {
  const stores = () => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));
  assert.ok((await stores()).includes(managementKey));
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage }) + document.cookie), "{}");
  assert.deepEqual(await context.cookies(), []);
  assert.ok(!(await page.content()).includes(managementKey));
  await page.reload();
  await page.getByRole("button", { name: "Lock", exact: true }).waitFor();
  const other = await context.newPage();
  await other.goto(console_);
  await other.getByRole("button", { name: "Lock", exact: true }).waitFor();
  await page.getByRole("button", { name: "Lock", exact: true }).click();
  await other.getByRole("textbox", { name: "API key" }).waitFor();
  await shows(other, "Another tab locked the console.");
  assert.ok(!await other.evaluate((key) => JSON.stringify({ ...sessionStorage, ...localStorage }).includes(key), managementKey));
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  assert.ok(!(await stores()).includes(managementKey));
  await eventually(async () => assert.equal(await page.getByRole("table", { name: "Presets" }).count(), 0));
  await page.goBack().catch(() => {});
  await eventually(async () => assert.equal(await page.getByRole("table", { name: "Presets" }).count(), 0));
});

scenario("the list shows what serves, and is searched, filtered and sorted", {}, async ({ page }) => {
  for (const slug of ["email-writer", "support-triage", "summary"]) {
    await makePreset(slug);
  }
  await manage("PATCH", "/presets/summary", { name: "Zürich Zusammenfassung", description: "for the meeting notes" });
  await manage("POST", "/presets/email-writer/designate", { version: 2 });
  await manage("PUT", "/presets/email-writer/labels/staging", { version: 3 });
  await manage("PATCH", "/presets/support-triage", { status: "disabled" });
  await unlock(page, managementKey);

  const row = page.getByRole("row").filter({ hasText: "email-writer" });
  for (const text of [/v2/, /staging/, "user_e2e"]) {
    await shows(row, text);
  }
  await shows(page.getByRole("row").filter({ hasText: "summary" }), "Zürich Zusammenfassung");

  const search = page.getByRole("searchbox", { name: "Search presets" });
  await page.locator("body").press("/");
  await eventually(async () => assert.ok(await search.evaluate((element) => element === document.activeElement), "/ focuses the search"));
  await page.keyboard.type("MEETING"); // in a description, in other letters
  await eventually(async () => assert.deepEqual(await slugs(page), ["summary"]));
  await search.fill("zürich");
  await eventually(async () => assert.deepEqual(await slugs(page), ["summary"]));
  await search.fill("nothing like this");
  await shows(page, /no preset/i);
  await search.fill("");
  await eventually(async () => assert.equal((await slugs(page)).length, 3));

  const filter = page.getByRole("combobox", { name: "Status" });
  await filter.selectOption({ label: "disabled" });
  await eventually(async () => assert.deepEqual(await slugs(page), ["support-triage"]));
  await filter.selectOption({ label: "archived" });
  await eventually(async () => assert.deepEqual(await slugs(page), ["email-copywriter"])); // of the first request
  await filter.selectOption({ label: "all" });
  await eventually(async () => assert.ok((await slugs(page)).length >= 3));
  await filter.selectOption({ label: "active" });
  await eventually(async () => assert.deepEqual((await slugs(page)).toSorted(), ["email-writer", "summary"]));

  await page.getByRole("combobox", { name: "Sort by" }).selectOption("slug");
  await eventually(async () => assert.deepEqual(await slugs(page), ["email-writer", "summary"]));
  await page.getByRole("button", { name: "Ascending" }).click();
  await eventually(async () => assert.deepEqual(await slugs(page), ["summary", "email-writer"]));
  await page.getByRole("button", { name: "Descending" }).waitFor();

  // The address has all of it, so that a copy of it shows the same.
  await search.fill("e");
  await eventually(() => assert.match(page.url(), /q=e/));
  const address = page.url();
  await page.reload();
  await eventually(async () => assert.deepEqual(await slugs(page), ["summary", "email-writer"]));
  assert.equal(page.url(), address);
  await eventually(async () => assert.equal(await search.inputValue(), "e"));
});

scenario("the list is filtered by labels and tags, and several presets are changed at once", { key: managementKey }, async ({ page }) => {
  for (const slug of ["several-a", "several-b", "several-c"]) {
    await makePreset(slug);
  }
  await manage("PUT", "/presets/several-c/labels/rare", { version: 1 });
  await go(page, "");
  await page.getByRole("searchbox", { name: "Search presets" }).fill("several");
  await eventually(async () => assert.equal((await slugs(page)).length, 3));
  for (const slug of ["several-a", "several-b"]) {
    await page.getByRole("checkbox", { name: `Choose ${slug}` }).check();
  }
  await shows(page.getByRole("status"), "2 chosen");
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  await page.getByRole("dialog", { name: "Tag" }).getByRole("textbox", { name: "Add" }).fill("mail, two words");
  await page.getByRole("dialog", { name: "Tag" }).getByRole("button", { name: "Save" }).click();
  await status(page, "2 presets are tagged.");
  assert.deepEqual((await manage("GET", "/presets/several-b")).tags, ["mail", "two words"]);
  await page.getByRole("button", { name: "#two words" }).first().click();
  await eventually(async () => assert.deepEqual((await slugs(page)).toSorted(), ["several-a", "several-b"]));
  assert.equal(await page.getByRole("searchbox", { name: "Search presets" }).inputValue(), 'several tag:"two words"');
  await page.getByRole("searchbox", { name: "Search presets" }).fill("label:rare");
  await eventually(async () => assert.deepEqual(await slugs(page), ["several-c"]));
  await page.getByRole("searchbox", { name: "Search presets" }).fill("several promise in:prompt");
  await eventually(async () => assert.equal((await slugs(page)).length, 0));
  await page.getByRole("searchbox", { name: "Search presets" }).fill("several");
  await eventually(async () => assert.equal((await slugs(page)).length, 3));
  for (const slug of ["several-a", "several-c"]) {
    await page.getByRole("checkbox", { name: `Choose ${slug}` }).check();
  }
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await page.getByRole("dialog", { name: "Archive" }).getByRole("button", { name: "Archive" }).click();
  await status(page, "2 presets are archived.");
  await eventually(async () => assert.deepEqual(await slugs(page), ["several-b"]));
  await page.getByRole("button", { name: "Undo" }).click();
  await eventually(async () => assert.equal((await slugs(page)).length, 3));
});

scenario("tags that a colleague sets meanwhile stay, also after Undo", { key: managementKey }, async ({ page }) => {
  await makePreset("raced");
  await go(page, "");
  await page.getByRole("searchbox", { name: "Search presets" }).fill("raced");
  await page.getByRole("checkbox", { name: "Choose raced" }).check();
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Tag" });
  await dialog.getByRole("textbox", { name: "Add" }).fill("mine");
  let reads = 0;
  await page.route("**/v1/presets/raced?*", async (route) => {
    if (route.request().method() !== "GET" || ++reads > 1) {
      return route.continue();
    }
    const response = await route.fetch();
    await manage("PATCH", "/presets/raced", { tags: ["theirs"] });
    return route.fulfill({ response });
  });
  await dialog.getByRole("button", { name: "Save" }).click();
  await shows(dialog.getByRole("alert"), /Error/);
  assert.deepEqual((await manage("GET", "/presets/raced")).tags, ["theirs"]);
  await dialog.getByRole("button", { name: "Save" }).click();
  await status(page, "raced is tagged.");
  assert.deepEqual((await manage("GET", "/presets/raced")).tags.toSorted(), ["mine", "theirs"]);
  await manage("PATCH", "/presets/raced", { tags: ["mine", "theirs", "later"] });
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, "raced is tagged as before.");
  assert.deepEqual((await manage("GET", "/presets/raced")).tags.toSorted(), ["later", "theirs"]);
});

scenario("Ctrl+K goes to presets, and does what the view offers", { key: managementKey }, async ({ page }) => {
  await makePreset("sought");
  await go(page, "");
  await page.getByRole("table", { name: "Presets" }).waitFor();
  await page.keyboard.press("Control+k");
  const dialog = page.getByRole("dialog", { name: "Go to" });
  await page.keyboard.type("sought");
  await dialog.getByRole("option", { name: /sought.*preset/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "sought" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("workb");
  await eventually(async () => assert.equal(await dialog.getByRole("option").count(), 1));
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Prompt" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
});

scenario("a preset is duplicated, with all of its live version", { key: managementKey }, async ({ page }) => {
  const body = { model: "acme/large", temperature: 0.4, messages: [{ role: "system", content: "For {{city}}." }, { role: "user", content: "In {{year}}" }] };
  await manage("POST", "/presets/twin/chat/completions?template=true", body);
  await manage("PATCH", "/presets/twin", { description: "The first." });
  await go(page, at("twin"));
  await act(page, "Duplicate");
  const dialog = page.getByRole("dialog", { name: "Duplicate" });
  await dialog.getByRole("textbox", { name: "Slug" }).fill("twin-2");
  await dialog.getByRole("button", { name: "Duplicate" }).click();
  await status(page, "twin-2 is a copy of twin v1.");
  const [first, second] = await Promise.all(["twin", "twin-2"].map((slug) => manage("GET", `/presets/${slug}/versions/1`)));
  assert.deepEqual([second.config, second.system_prompt, second.template, second.dialect], [first.config, first.system_prompt, first.template, first.dialect]);
  assert.equal((await manage("GET", "/presets/twin-2")).description, "The first.");
});

scenario("a filter offers what there is, and all are chosen at once", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Sorted", slug: "sorted" });
  for (const slug of ["sorted-1", "sorted-2"]) {
    await makePreset(slug, { workspace: "sorted" });
  }
  await manage("PATCH", "/presets/sorted-2?workspace_id=sorted", { tags: ["two words"] });
  await go(page, "/w/sorted");
  await page.getByRole("checkbox", { name: "Choose all" }).check();
  await shows(page, "2 chosen");
  await page.getByRole("checkbox", { name: "Choose all" }).uncheck();
  await eventually(async () => assert.equal(await page.getByText("chosen").count(), 0));
  await page.locator("summary", { hasText: "Filter" }).click();
  await page.getByRole("button", { name: "tag two words" }).click();
  await eventually(async () => assert.deepEqual(await slugs(page), ["sorted-2"]));
  assert.equal(await page.getByRole("searchbox", { name: "Search presets" }).inputValue(), 'tag:"two words"');
});

scenario("limits of a preset are set, shown and undone", { key: managementKey }, async ({ page }) => {
  await makePreset("bounded");
  await go(page, at("bounded"));
  await act(page, "Limits");
  const dialog = page.getByRole("dialog", { name: "Limits" });
  await dialog.getByRole("textbox", { name: "Requests a minute" }).fill("many");
  await dialog.getByRole("button", { name: "Save" }).click();
  await shows(dialog, /Error: /);
  await dialog.getByRole("textbox", { name: "Requests a minute" }).fill("60");
  await dialog.getByRole("textbox", { name: "US dollars a day" }).fill("2.5");
  await dialog.getByRole("button", { name: "Save" }).click();
  await status(page, "The limits are saved.");
  assert.deepEqual((await manage("GET", "/presets/bounded")).limits, { requests_per_minute: 60, cost_per_day: 2.5 });
  await go(page, "/w/default?q=bounded");
  await page.getByTitle("60 requests a minute, 2.5 US dollars a day").waitFor();
  await go(page, at("bounded"));
  await act(page, "Limits");
  for (const name of ["Requests a minute", "US dollars a day"]) {
    await dialog.getByRole("textbox", { name }).fill("");
  }
  await dialog.getByRole("button", { name: "Save" }).click();
  await status(page, "The limits are removed.");
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, "The limits are as before.");
  assert.equal((await manage("GET", "/presets/bounded")).limits.requests_per_minute, 60);
});

scenario("a preset is exported to a file, and imported to another workspace", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Others", slug: "others" });
  await send("POST", "/presets/carried/chat/completions?template=true", '{"model":"m","temperature":0.70,"messages":[{"role":"system","content":"Hello {{name}}."},{"role":"user","content":"{{question}}"}]}');
  await manage("PATCH", "/presets/carried", { description: "To carry.", tags: ["one"], policy: { lock: ["tools"] }, limits: { requests_per_minute: 6 } });
  await manage("POST", "/presets/carried/inputs", { name: "First", dialect: "chat", messages: [{ role: "user", content: "Hi" }] });
  await go(page, at("carried"));
  const [file] = await Promise.all([page.waitForEvent("download"), act(page, "Export")]);
  assert.equal(file.suggestedFilename(), "carried.json");
  assert.match(await readFile(await file.path(), "utf8"), /"temperature": 0\.70/);
  await go(page, "/w/default");
  await page.getByRole("button", { name: "Import" }).click();
  const dialog = page.getByRole("dialog", { name: "Import" });
  await dialog.getByLabel("File").setInputFiles({ name: "wrong.json", mimeType: "application/json", buffer: Buffer.from("{\n]") });
  await dialog.getByRole("button", { name: "Import" }).click();
  await shows(dialog, /Error: line 2/);
  await dialog.getByLabel("File").setInputFiles(await file.path());
  await dialog.getByRole("textbox", { name: "Slug" }).fill("carried");
  await dialog.getByRole("combobox", { name: "Workspace" }).selectOption("others");
  await dialog.getByRole("button", { name: "Import" }).click();
  await status(page, "carried is imported.");
  await eventually(() => assert.match(page.url(), /\/w\/others\/p\/carried$/));
  const [first, second] = await Promise.all(["default", "others"].map(async (workspace) => {
    const { description, tags, policy, limits, designated_version: { config, system_prompt: prompt, template } } = await manage("GET", `/presets/carried?workspace_id=${workspace}`);
    const inputs = await manage("GET", `/presets/carried/inputs?workspace_id=${workspace}`);
    return { description, tags, policy, limits, config, prompt, template, inputs: inputs.map(({ name, messages }) => [name, messages]) };
  }));
  assert.deepEqual(second, first);
});

scenario("pages", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Pages", slug: "pages" });
  await Promise.all(Array.from({ length: 120 }, (_, i) =>
    manage("POST", `/presets/p${String(i).padStart(3, "0")}/chat/completions?workspace_id=pages`, { model: "m", messages: [] })));
  await go(page, "/w/pages?sort=slug");
  const next = page.getByRole("button", { name: "Next", exact: true });
  const previous = page.getByRole("button", { name: "Previous", exact: true });
  await shows(page, /1–50 of 120/);
  assert.equal((await slugs(page))[0], "p000");
  await eventually(async () => assert.ok(await previous.isDisabled()));
  await next.click();
  await shows(page, /51–100 of 120/);
  await next.click();
  await shows(page, /101–120 of 120/);
  assert.equal((await slugs(page)).at(-1), "p119");
  await eventually(async () => assert.ok(await next.isDisabled()));
  await previous.click();
  await eventually(async () => assert.equal((await slugs(page))[0], "p050"));
});

scenario("workspaces are switched, and each has its own list", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Team B", slug: "team-b" });
  await makePreset("only-of-b", { workspace: "team-b" });
  await go(page, "");
  const workspace = page.getByRole("combobox", { name: "Workspace" });
  await eventually(async () => assert.ok((await workspace.locator("option").allInnerTexts()).some((text) => /Team B|team-b/.test(text))));
  const option = await workspace.locator("option").filter({ hasText: /Team B|team-b/ }).first().innerText();
  await workspace.selectOption({ label: option });
  await eventually(async () => assert.deepEqual(await slugs(page), ["only-of-b"]));
  assert.match(page.url(), /\/w\/(team-b|[0-9a-f-]{36})/);
  await page.getByRole("link", { name: "only-of-b" }).click();
  await page.getByRole("heading", { name: "only-of-b" }).waitFor();
  await page.goBack();
  await eventually(async () => assert.deepEqual(await slugs(page), ["only-of-b"]));
});

scenario("every view has an address, and back and forward follow them", { key: managementKey }, async ({ page }) => {
  await makePreset("walker");
  const visited = [];
  const see = async (address, check) => {
    await check();
    await eventually(() => assert.ok(page.url().startsWith(console_ + address), page.url()));
    visited.push([address, await page.title()]);
  };
  await go(page, "");
  await page.getByRole("searchbox", { name: "Search presets" }).fill("walker");
  await eventually(async () => assert.deepEqual(await slugs(page), ["walker"])); // a list that is replaced loses a click
  await page.getByRole("link", { name: "walker" }).click();
  await see(at("walker"), () => page.getByRole("list", { name: "Versions" }).waitFor());
  await page.getByRole("list", { name: "Versions" }).getByRole("link", { name: /v1/ }).click();
  await see(at("walker", "versions/1"), () => page.getByRole("heading", { name: /^v1/ }).waitFor());
  const tabs = page.getByRole("navigation", { name: "Preset" });
  for (const [name, view] of [["Compare", "compare/"], ["Labels", "labels"], ["Workbench", "edit"], ["Use it", "use"], ["History", "history"]]) {
    await tabs.getByRole("link", { name }).click();
    await see(at("walker", view), () => tabs.locator("[aria-current=page]").filter({ hasText: name }).waitFor());
  }
  assert.equal(new Set(visited.map(([, title]) => title)).size, visited.length, `titles: ${visited.map(([, title]) => title).join(" | ")}`);
  for (const [address, title] of visited.slice(0, -1).toReversed()) {
    await page.goBack();
    await eventually(async () => assert.ok(page.url().startsWith(console_ + address) && await page.title() === title, `${page.url()} ${await page.title()}`));
  }
  for (const [address, title] of visited.slice(1)) {
    await page.goForward();
    await eventually(async () => assert.ok(page.url().startsWith(console_ + address) && await page.title() === title, `${page.url()} ${await page.title()}`));
  }
});

scenario("a copied link opens its view in another tab, after its key", { fresh: true }, async ({ context }) => {
  await makePreset("linked");
  for (const [view, name] of [["", /v3/], ["versions/2", /^v2/], ["compare/1..3", /v1|Settings/], ["labels", /label/i], ["try", /Side by side/], ["use", /use/i], ["history", /history/i], ["new", /Version or label/]]) {
    const page = await context.newPage();
    await page.goto(console_ + at("linked", view));
    await unlock(page, managementKey);
    await page.getByRole("heading", { name: "linked" }).waitFor();
    await shows(page.getByRole("main"), name);
    assert.ok(page.url().startsWith(console_ + at("linked", view)), page.url());
    await page.close();
  }
  const page = await context.newPage();
  await page.goto(`${console_}/w/default/p/linked/versions/99`);
  await unlock(page, managementKey);
  await shows(page.getByRole("main"), /Error/); // there is no such version
  await page.goto(`${console_}/w/default/p/nowhere`);
  await shows(page.getByRole("main"), /Error/);
  await page.goto(`${console_}/w/nowhere`);
  await shows(page.getByRole("main"), /Error/);
});

scenario("an inference key sees its presets, and is told why it cannot change them", {}, async ({ page }) => {
  await makePreset("read-only");
  await unlock(page, inferenceKey);
  await shows(page, /inference key/i);
  await page.getByRole("link", { name: "read-only" }).click();
  await page.getByRole("heading", { name: "read-only" }).waitFor();
  await openMenu(page);
  for (const name of ["Archive", "Edit"]) {
    const button = page.getByRole("button", { name, exact: true }).first();
    await eventually(async () => assert.ok(await button.count() === 0 || await button.isDisabled(), name));
  }
  await shows(page, /management key/i); // the reason
  await page.getByRole("list", { name: "Versions" }).getByRole("link", { name: /v1/ }).click();
  await page.getByRole("heading", { name: /^v1/ }).waitFor();
  await eventually(async () => assert.ok(await page.getByRole("button", { name: "Put live" }).isDisabled()));
  await page.getByRole("link", { name: "Compare", exact: true }).first().click();
  await page.getByRole("table", { name: /settings/i }).waitFor();
  for (const view of ["labels", "use", "try", "new", "history"]) {
    await go(page, at("read-only", view));
    await shows(page.getByRole("main"), /management key|inference key/i);
  }
});

scenario("the console locks after 30 minutes without use", { fresh: true }, async ({ context }) => {
  const page = await context.newPage();
  await page.clock.install();
  await page.goto(console_);
  await unlock(page, managementKey);
  await page.clock.fastForward("29:00");
  await eventually(async () => assert.equal(await page.getByRole("textbox", { name: "API key" }).count(), 0));
  await page.clock.fastForward("02:00");
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  await shows(page, /30 minutes/);
  assert.equal(await page.evaluate((key) => JSON.stringify({ ...sessionStorage }).includes(key), managementKey), false);
});

scenario("what someone else changes is shown without a reload", { key: managementKey }, async ({ page }) => {
  await makePreset("watched");
  await go(page, at("watched"));
  await shows(page, /live v3/);
  await manage("POST", "/presets/watched/designate", { version: 1 });
  await shows(page, /live v1/);
  const second = await browse({ key: managementKey });
  await second.context.close();
});

scenario("an inference key of an empty workspace sees that it is empty", {}, async ({ page }) => {
  await manage("POST", "/workspaces", { name: "Bare", slug: "bare" });
  const { key } = await administer("POST", "keys", { kind: "inference", workspace: "bare" });
  await unlock(page, key);
  await shows(page, "No presets yet");
  await page.getByRole("combobox", { name: "Workspace" }).filter({ hasText: "your workspace" }).waitFor();
  await eventually(async () => assert.equal(await page.getByText(/^Error/).count(), 0));
  await page.reload();
  await shows(page, "No presets yet");
  await makePreset("first-of-bare", { workspace: "bare" });
  await page.getByRole("link", { name: "first-of-bare" }).click();
  await page.getByRole("list", { name: "Versions" }).waitFor();
});

scenario("a policy is set, changed by hand, refused, and removed", { key: managementKey }, async ({ page }) => {
  await makePreset("ruled");
  await go(page, at("ruled"));
  const policy = async () => (await manage("GET", "/presets/ruled")).policy;
  const open = page.getByRole("button", { name: "Policy", exact: true });
  const dialog = page.getByRole("dialog", { name: "Policy" });
  const text = dialog.getByRole("textbox");
  const save = dialog.getByRole("button", { name: "Save" });
  // openWith opens the dialog once the page has seen the policy.
  const openWith = (expected) => eventually(async () => {
    await openMenu(page);
    await open.click();
    try {
      await eventually(async () => assert.match(await text.inputValue(), expected));
    } catch (error) {
      await page.keyboard.press("Escape");
      throw error;
    }
  });
  await openWith(/^$/);
  await text.fill('{\n  "lock": [}');
  await save.click();
  await shows(dialog, /line 2/);
  await text.fill('{"lock": ["colour"]}');
  await save.click();
  await shows(dialog, /\/policy\/lock\/0/);
  await text.fill('{"lock": ["tools"], "bounds": {"temperature": {"max": 0.50}}}');
  await save.click();
  await status(page, /policy is saved/);
  assert.deepEqual((await policy()).lock, ["tools"]);
  await page.locator(".state").filter({ hasText: "policy" }).waitFor();

  // Someone else was faster.
  await openWith(/"max": 0\.50/);
  await text.fill('{"drop": ["seed"]}');
  await manage("PATCH", "/presets/ruled", { policy: { drop: ["top_p"] } });
  await save.click();
  await shows(dialog, /changed meanwhile/);
  await dialog.getByRole("button", { name: "Look again" }).click();
  await save.click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual((await policy()).drop, ["seed"]);
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /policy is as before/);
  assert.deepEqual((await policy()).drop, ["top_p"], "the one that was replaced");
  await openWith(/top_p/);
  await text.fill("");
  await save.click();
  await status(page, /policy is removed/);
  assert.equal(await policy(), null);
  await page.getByRole("button", { name: "Undo" }).click();
  await eventually(async () => assert.deepEqual((await policy()).drop, ["top_p"]));
  await go(page, at("ruled", "history"));
  await shows(page.getByRole("table", { name: "History" }), "policy");
});

scenario("an inference key sees a policy", { key: inferenceKey }, async ({ page }) => {
  await makePreset("seen");
  await go(page, at("seen"));
  const open = page.getByRole("button", { name: "Policy", exact: true });
  await openMenu(page);
  await eventually(async () => assert.ok(await open.isDisabled()));
  await manage("PATCH", "/presets/seen", { policy: { lock: ["tools"] }, protected: true });
  await page.getByText("+2").click();
  await shows(page.getByRole("main"), "protected");
  await openMenu(page);
  await open.click();
  const dialog = page.getByRole("dialog", { name: "Policy" });
  await shows(dialog, /"lock": \["tools"\]/);
  await eventually(async () => assert.equal(await dialog.getByRole("button", { name: "Save" }).count(), 0));
});

scenario("a protected preset says so, and a key without the right is told", {}, async ({ page }) => {
  await makePreset("sealed");
  await manage("PATCH", "/presets/sealed", { protected: true });
  const { key } = await administer("POST", "keys", { kind: "management" });
  await unlock(page, key);
  await go(page, at("sealed", "versions/1"));
  await shows(page.getByRole("main"), "protected");
  await shows(page.locator("#read-only"), /takes a key with the right protected-labels/);
  for (const name of ["Put live", "Policy", "Archive"]) {
    await openMenu(page);
    await eventually(async () => assert.ok(await page.getByRole("button", { name, exact: true }).isDisabled(), name));
  }

  // Someone protects it while a dialog is open: the server's words say what is missing.
  await manage("PATCH", "/presets/sealed", { protected: false });
  await act(page, "Policy");
  const policy = page.getByRole("dialog", { name: "Policy" });
  await policy.getByRole("textbox").fill('{"drop": ["seed"]}');
  await manage("PATCH", "/presets/sealed", { protected: true });
  await policy.getByRole("button", { name: "Save" }).click();
  await shows(policy, /changed meanwhile/);
  await policy.getByRole("button", { name: "Look again" }).click();
  await policy.getByRole("button", { name: "Save" }).click();
  await shows(policy.getByRole("alert"), /needs a key with the right protected-labels/);
});
