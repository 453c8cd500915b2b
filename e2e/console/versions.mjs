// A preset, its versions, comparing two of them, and putting one live.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { act, at, designated, eventually, go, look, makePreset, manage, managementKey, scenario, send, shows, site, status } from "./harness.mjs";

const versions = (page) => page.getByRole("list", { name: "Versions" }).getByRole("listitem");

scenario("the timeline and the chosen version", { key: managementKey }, async ({ page }) => {
  await makePreset("timeline");
  await manage("PUT", "/presets/timeline/labels/staging", { version: 2 });
  await manage("PUT", "/presets/timeline/labels/canary", { split: [{ version: 3, weight: 90 }, { version: 1, weight: 10 }] });
  await go(page, at("timeline"));
  await eventually(async () => assert.equal(await versions(page).count(), 3));
  const texts = await versions(page).allInnerTexts();
  for (const [i, wants] of [["v3", "live", "canary", "Step 3 of timeline", "user_e2e"], ["v2", "staging", "Step 2 of timeline"], ["v1", "canary", "Step 1 of timeline"]].entries()) {
    for (const want of wants) {
      assert.ok(texts[i].includes(want), `${want} in ${texts[i]}`);
    }
  }
  assert.ok(!texts[1].includes("live"));
  const main = page.getByRole("main");
  await shows(main, "Never promise a date."); // the version that serves is shown first
  await shows(page.getByRole("table", { name: "Settings" }), "acme/large");
  await versions(page).nth(2).getByRole("link").click();
  await page.getByRole("heading", { name: /^v1/ }).waitFor();
  await eventually(async () => assert.equal(await main.getByText("Never promise a date.").count(), 0));
  await shows(page.getByRole("table", { name: "Settings" }), "acme/small");
  const time = page.getByRole("main").locator("time").first();
  await eventually(async () => assert.match(await time.getAttribute("title"), /\d{4}/));
});

scenario("numbers keep their text", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/presets/numbers/chat/completions", '{"model": "m", "temperature": 0.70, "seed": 12345678901234567890, "top_p": 1e-3, "messages": []}');
  await go(page, at("numbers"));
  for (const text of ["0.70", "12345678901234567890", "1e-3"]) {
    await shows(page.getByRole("table", { name: "Settings" }), text);
  }
});

scenario("two versions are compared, with signs and words besides colours", { key: managementKey }, async ({ page }) => {
  await makePreset("compared");
  await go(page, at("compared", "compare/1..3"));
  const settings = page.getByRole("table", { name: /settings/i });
  const model = settings.getByRole("row").filter({ hasText: "model" });
  for (const text of [/changed/, "acme/small", "acme/large"]) {
    await shows(model, text);
  }
  await shows(settings.getByRole("row").filter({ hasText: "temperature" }), "0.4");
  const prompt = page.getByRole("table", { name: /prompt/i });
  await shows(prompt, "+");
  await shows(prompt, "−");
  await shows(prompt, "Never promise a date.");
  await eventually(async () => assert.ok(await prompt.locator("mark").count() > 0, "words are marked"));
  await page.getByRole("button", { name: "Swap" }).click();
  await eventually(() => assert.match(page.url(), /compare\/3\.\.1$/));
  const [from, to] = [page.getByRole("combobox", { name: "From" }), page.getByRole("combobox", { name: "To" })];
  await eventually(async () => assert.equal(await from.inputValue(), "3"));
  await from.selectOption("1");
  await to.selectOption("2");
  await eventually(() => assert.match(page.url(), /compare\/1\.\.2$/));
  await shows(page.getByRole("main"), /settings are equal/i);
});

scenario("a line of a comparison has an address", { key: managementKey }, async ({ page }) => {
  const prompt = (changed) => Array.from({ length: 60 }, (_, i) => (i === 40 ? changed : `Line ${i + 1}.`)).join("\n");
  for (const changed of ["Before.", "After."]) {
    await manage("POST", "/presets/lines/chat/completions", { model: "m", messages: [{ role: "system", content: prompt(changed) }] });
  }
  await go(page, at("lines", "compare/1..2#R12")); // which would be in a fold
  const marked = page.locator("tr.at");
  await shows(marked, "Line 12.");
  await page.getByRole("button", { name: "Next change" }).click();
  await shows(marked, "After.");
  await eventually(() => assert.match(page.url(), /#L41$/));
  await page.getByRole("link", { name: "43" }).last().click();
  await shows(marked, "Line 43.");
  await eventually(() => assert.match(page.url(), /compare\/1\.\.2#R43$/));
  await page.getByRole("link", { name: "Labels", exact: true }).click();
  await page.goBack();
  await shows(marked, "Line 43.");
});

scenario("settings are added, removed and changed, at any depth", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/presets/deep/chat/completions", { model: "m", temperature: 1, tools: [{ type: "function", function: { name: "find", parameters: { type: "object" } } }], messages: [] });
  await manage("POST", "/presets/deep/chat/completions", { model: "m", top_p: 0.5, tools: [{ type: "function", function: { name: "search", parameters: { type: "object" } } }], messages: [] });
  await go(page, at("deep", "compare/1..2"));
  const settings = page.getByRole("table", { name: /settings/i });
  await shows(settings.getByRole("row").filter({ hasText: "temperature" }), /removed/);
  await shows(settings.getByRole("row").filter({ hasText: "top_p" }), /added/);
  await shows(settings.getByRole("row").filter({ hasText: "tools" }).first(), /changed/);
  await eventually(async () => assert.equal(await settings.getByRole("row").filter({ hasText: "model" }).count(), 0, "equal settings are left out"));
});

scenario("a version is put live and rolled back", { key: managementKey }, async ({ page }) => {
  await makePreset("rolled");
  await go(page, at("rolled", "versions/1"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await shows(dialog, /v1 in place of v3/);
  await shows(dialog, "acme/large");
  await shows(dialog, "Never promise a date.");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await designated("rolled"), 3);
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.textContent), "Put live", "the focus goes back"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, /v1 is live/);
  assert.equal(await designated("rolled"), 1);
  await shows(page, /live v1/);
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /v3 is live/);
  assert.equal(await designated("rolled"), 3);
});

scenario("a 412 shows what has changed, and overwrites nothing", { key: managementKey }, async ({ page }) => {
  await makePreset("contended");
  await go(page, at("contended", "versions/1"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await shows(dialog, /in place of v3/);
  await manage("POST", "/presets/contended/designate", { version: 2 });
  await dialog.getByRole("button", { name: "Put live" }).click();
  await shows(dialog, /changed meanwhile/);
  await shows(dialog, /v2/);
  assert.equal(await designated("contended"), 2, "nothing was overwritten");
  await dialog.getByRole("button", { name: "Look again" }).click();
  await shows(dialog, /in place of v2/);
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, /v1 is live/);
  assert.equal(await designated("contended"), 1);
});

scenario("the snippets have this site's address, and work", { key: managementKey }, async ({ page }) => {
  await makePreset("snippets");
  await go(page, at("snippets", "use"));
  const main = page.getByRole("main");
  await shows(main, /OpenRouter\(/); // the snippets come with the version
  const text = await main.innerText();
  for (const want of ["curl", "OpenAI(", "Anthropic(", "OpenRouter(", "@preset/snippets", `${site}/v1`]) {
    assert.ok(text.includes(want), `${want} in ${text}`);
  }
  assert.ok(!text.includes(managementKey));
  await page.getByRole("button", { name: /^Copy/ }).first().click();
  await status(page, "Copied");
});

scenario("each write has an idempotency key, and a tag where its object has one", { key: managementKey }, async ({ page, guard }) => {
  await makePreset("headers");
  await go(page, at("headers", "versions/1"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Put live" }).click();
  await status(page, /v1 is live/);
  const writes = guard.requests.filter((request) => request.method() !== "GET");
  assert.equal(writes.length, 1);
  for (const request of writes) {
    const headers = await request.allHeaders();
    assert.match(headers["idempotency-key"] ?? "", /^.{16,}$/);
    assert.match(headers["if-match"] ?? "", /^"/);
    assert.equal(headers.authorization, `Bearer ${managementKey}`);
    assert.equal(headers.cookie, undefined);
    assert.equal(headers.referer, undefined);
  }
});

scenario("archive, restore, disable, enable, rename and describe", { key: managementKey }, async ({ page }) => {
  await makePreset("moody");
  const preset = async () => (await send("GET", "/presets?status=all&q=moody")).body.data.find((one) => one.slug === "moody");
  await go(page, at("moody"));

  await act(page, "Rename and describe");
  let dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name" }).fill("Moody Blues");
  await dialog.getByRole("textbox", { name: "Description" }).fill("For bad days.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Moody Blues" }).waitFor();
  await shows(page, "For bad days.");
  assert.equal((await preset()).description, "For bad days.");

  await act(page, "Disable");
  await page.getByRole("dialog", { name: "Disable" }).getByRole("button", { name: "Disable" }).click();
  await status(page, /disabled/);
  assert.equal((await preset()).status, "disabled");
  await eventually(async () => assert.ok(await page.getByRole("button", { name: "Edit", exact: true }).isDisabled()));
  await act(page, "Enable");
  await status(page, /enabled/);
  assert.equal((await preset()).status, "active");

  await act(page, "Archive");
  dialog = page.getByRole("dialog", { name: "Archive" });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await preset()).status, "active");
  await act(page, "Archive");
  await dialog.getByRole("button", { name: "Archive" }).click();
  await status(page, /archived/);
  assert.equal((await preset()).status, "archived");
  await go(page, at("moody"));
  await page.getByRole("button", { name: "Restore" }).click();
  await status(page, /restored/);
  assert.equal((await preset()).status, "active");
  await shows(page, /live v3/);
});

scenario("the history of a preset tells who did what", { key: managementKey }, async ({ page }) => {
  await makePreset("chronicle");
  await manage("POST", "/presets/chronicle/designate", { version: 2 });
  await manage("PUT", "/presets/chronicle/labels/beta", { version: 1 });
  await go(page, at("chronicle", "history"));
  const table = page.getByRole("table").first();
  await shows(table, "Step 3 of chronicle");
  await shows(table, "user_e2e");
  await shows(table, /beta/);
  await eventually(async () => assert.ok(await table.getByRole("row").count() >= 6));

  // The fields that a change of the preset changed have their values before and after.
  await manage("PATCH", "/presets/chronicle", { name: "The chronicle", limits: { requests_per_minute: 60 } });
  await manage("PATCH", "/presets/chronicle", { limits: { requests_per_minute: 600 } });
  await shows(table, /Changed the preset/);
  await shows(table, /limits · requests per minute: 60 → 600/);

  // Filters are in the address, and the export has what they leave.
  await page.getByRole("combobox", { name: "What" }).selectOption("labels");
  await eventually(async () => assert.equal(await table.getByRole("row").count(), 2));
  assert.match(await table.innerText(), /Set the label beta to v1/);
  await eventually(() => assert.match(page.url(), /history\?what=label\.$/));
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download CSV" }).click()]);
  const lines = (await readFile(await file.path(), "utf8")).trim().split("\r\n");
  assert.equal(lines.length, 2, lines.join("\n"));
  assert.match(lines[1], /"label\.set","user_e2e"/);
  await page.getByRole("combobox", { name: "What" }).selectOption("everything");
  await eventually(async () => assert.ok(await table.getByRole("row").count() >= 8));
});

scenario("the timeline tells shares and what is not live, and Compare begins with the live version", { key: managementKey }, async ({ page }) => {
  await makePreset("standing");
  await manage("POST", "/presets/standing/chat/completions?designate=false", { model: "m", messages: [] });
  await manage("PUT", "/presets/standing/labels/canary", { split: [{ version: 3, weight: 90 }, { version: 2, weight: 10 }] });
  await go(page, at("standing"));
  const item = (version) => page.getByRole("list", { name: "Versions" }).getByRole("listitem").filter({ hasText: `v${version}` });
  await shows(item(4), "not live");
  await shows(item(3), /canary\s*90 %/);
  await shows(item(2), /canary\s*10 %/);
  await eventually(async () => assert.equal(await page.getByText("not live").count(), 1));
  await manage("PUT", "/presets/standing/labels/canary", { split: [{ version: 3, weight: 80 }, { version: 2, weight: 20 }] });
  await shows(item(2), /canary\s*20 %/); // without a reload
  await go(page, at("standing", "versions/4"));
  await page.getByRole("link", { name: "Compare" }).click();
  await eventually(() => assert.match(page.url(), /compare\/3\.\.4$/));
  await manage("POST", "/presets/standing/designate", { version: 1 });
  await go(page, at("standing"));
  await page.getByRole("link", { name: "Compare" }).click();
  await shows(page, /Both are the same version/);
  await page.getByRole("combobox", { name: "To" }).selectOption("4"); // without a button
  await eventually(() => assert.match(page.url(), /compare\/1\.\.4$/));
  await page.getByRole("link", { name: "History" }).click();
  for (const text of ["Put v1 live in place of v3", /Split the label\s*canary/, "Saved the draft v4"]) {
    await shows(page.getByRole("table", { name: "History" }), text);
  }
});

scenario("a template's variables and messages are shown and compared", { key: managementKey }, async ({ page }) => {
  const capture = (...list) => ({ model: "acme/large", messages: [{ role: "system", content: "You know {{city}}." }, ...list] });
  await manage("POST", "/presets/tour/chat/completions?template=true", capture({ role: "user", content: "Sights in {{city}}\n<b>now</b>" }));
  await manage("POST", "/presets/tour/chat/completions?template=true", capture({ role: "user", content: "Sights in {{city}}, {{year}}" }, { role: "user", content: [{ type: "text", text: "{{photo}}" }] }));
  await manage("POST", "/presets/tour/chat/completions", capture());
  await go(page, at("tour", "versions/1"));
  const version = page.getByRole("region", { name: "Version 1" });
  await shows(version, "Variables: city");
  await eventually(async () => assert.equal(await version.getByRole("region", { name: "Message 1, user" }).textContent(), "Sights in {{city}}\n<b>now</b>"));
  await go(page, at("tour", "versions/2"));
  await shows(page.getByRole("region", { name: "Version 2" }), "Variables: city, year, photo");
  await shows(page.getByRole("region", { name: "Message 2, user" }), /"text": "\{\{photo\}\}"/);
  await go(page, at("tour", "versions/3"));
  await shows(page.getByRole("main"), "You know {{city}}.");
  await eventually(async () => assert.equal(await page.getByRole("heading", { name: "Template" }).count(), 0));

  await go(page, at("tour", "compare/1..2"));
  const table = page.getByRole("table", { name: "Differences of the template" });
  const row = (name) => table.getByRole("row").filter({ has: page.getByRole("rowheader", { name }) });
  await shows(row("variables"), /changed/);
  await shows(row("messages/0/content"), /\{\{year\}\}/);
  await shows(row("messages/1"), /added/);
  await go(page, at("tour", "compare/2..3"));
  await shows(row("variables"), /removed/);
  await shows(row("messages"), /removed/);
  await page.getByRole("button", { name: "Swap" }).click();
  await shows(row("messages"), /added/);
});

scenario("a comparison goes from change to change, beside each other or unified", { key: managementKey }, async ({ page }) => {
  await makePreset("unified");
  await go(page, at("unified", "compare/1..3"));
  const region = page.getByRole("region", { name: "Differences of the prompt" });
  await region.waitFor();
  const marked = () => region.locator("tr.at").evaluateAll((rows) => rows.map((row) => row.textContent));
  await page.getByRole("button", { name: "Next change" }).click();
  await eventually(async () => assert.match((await marked()).join(), /Write emails/));
  await page.getByRole("button", { name: "Next change" }).click();
  await eventually(async () => assert.match((await marked()).join(), /Never promise/));
  await page.getByRole("button", { name: "Previous change" }).click();
  await eventually(async () => assert.match((await marked()).join(), /Write emails/));
  await page.getByRole("button", { name: "Unified" }).click();
  await look(page, "compare-unified");
  await page.getByRole("button", { name: "Unified" }).click();
});

scenario("on a narrow screen the timeline is a select", { key: managementKey, width: 360 }, async ({ page }) => {
  await makePreset("narrow");
  await go(page, at("narrow"));
  await page.getByRole("combobox", { name: "Version" }).selectOption("2");
  await page.getByRole("heading", { name: /^v2/ }).waitFor();
  await eventually(() => assert.ok(page.url().endsWith(at("narrow", "versions/2"))));
  assert.equal(await page.getByRole("list", { name: "Versions" }).count(), 0);
});
