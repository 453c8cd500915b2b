// Making a new version: drafts, errors at their place, and nothing lost.

import assert from "node:assert/strict";
import { act, administer, asJSON, at, designated, eventually, giveKey, go, makePreset, manage, managementKey, scenario, send, shows, status, unlock } from "./harness.mjs";

const prompt = (page) => page.getByRole("textbox", { name: "Prompt" });
const settings = (page) => page.getByRole("textbox", { name: "Settings" });
const message = (page) => page.getByRole("textbox", { name: "Message", exact: true });
const versions = async (slug) => (await send("GET", `/presets/${slug}/versions`)).body.data;

const draft = (page) => page.getByRole("button", { name: "Save draft", exact: true });

// putLive presses the button of the workbench, and that of the dialog that shows what is new.
async function putLive(page) {
  await page.getByRole("button", { name: "Put live…", exact: true }).click();
  await page.getByRole("dialog", { name: "Put live" }).getByRole("button", { name: "Put live", exact: true }).click();
}

for (const dialect of ["chat", "responses", "messages"]) {
  scenario(`a draft of a ${dialect} preset is stored and not served`, { key: managementKey }, async ({ page }) => {
    const slug = `draft-${dialect}`;
    await makePreset(slug, { dialect });
    await go(page, at(slug));
    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await eventually(async () => assert.match(await prompt(page).inputValue(), /Never promise a date/));
    await prompt(page).fill("Write haiku.\n\nNothing else.");
    await message(page).fill("Haiku, for a day");
    await page.getByRole("button", { name: "Changes" }).click();
    const dialog = page.getByRole("dialog", { name: "Changes" });
    await shows(dialog, "Write haiku.");
    await shows(dialog, "Sign as the team.");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+s");
    await status(page, /v4/);
    assert.equal(await designated(slug), 3);
    const saved = (await versions(slug)).find((version) => version.version === 4);
    assert.equal(saved.system_prompt, "Write haiku.\n\nNothing else.");
    assert.equal(saved.message, "Haiku, for a day");
    assert.equal(saved.dialect, (await versions(slug))[0].dialect, "the dialect of the version it came from");
    await eventually(() => assert.ok(page.url().includes(at(slug, "edit?version=4"))));
    assert.ok(await draft(page).isDisabled(), "it is saved, and one stays here");
    assert.equal(await prompt(page).inputValue(), "Write haiku.\n\nNothing else.");
  });
}

scenario("a version is saved and put live, and no field or digit is lost", { key: managementKey }, async ({ page }) => {
  const body = '{"model": "m", "temperature": 0.70, "seed": 12345678901234567890, "top_p": 1e-3, "provider": {"order": ["a", "b"], "allow_fallbacks": false}, "stop": ["\\u00e9", "\\ud83d\\ude00"], "tools": [{"type": "function", "function": {"name": "find", "strict": true, "parameters": {"type": "object", "properties": {}}}}], "messages": [{"role": "system", "content": "One."}]}';
  await manage("POST", "/presets/exact/chat/completions", body);
  const before = (await send("GET", "/presets/exact/versions/1")).text;
  await go(page, at("exact", "new?from=1"));
  await eventually(async () => assert.equal(await prompt(page).inputValue(), "One."));
  await asJSON(page);
  for (const text of ["0.70", "12345678901234567890", "1e-3"]) {
    await eventually(async () => assert.ok((await settings(page).inputValue()).includes(text), text));
  }
  await prompt(page).fill("Two.");
  await putLive(page);
  await status(page, /v2/);
  assert.equal(await designated("exact"), 2);
  const after = (await send("GET", "/presets/exact/versions/2")).text;
  const config = (text) => JSON.parse(text).data.config;
  assert.deepEqual(config(after), config(before));
  for (const text of ["0.70", "12345678901234567890", "1e-3"]) {
    assert.ok(after.includes(text), `${text} in ${after}`);
  }
});

scenario("errors are shown at their place", { key: managementKey }, async ({ page }) => {
  await makePreset("wrong");
  await go(page, at("wrong", "new"));
  await asJSON(page);
  const original = await eventually(async () => {
    const text = await settings(page).inputValue();
    assert.match(text, /acme/);
    return text;
  });

  // Broken JSON does not leave the page.
  await settings(page).fill(original.replace("0.4", "0.4.4"));
  await draft(page).click();
  await shows(page.getByRole("main"), /line 3/);
  assert.equal((await versions("wrong")).length, 3);
  await eventually(async () => assert.equal(await settings(page).getAttribute("aria-invalid"), "true"));
  await eventually(async () => assert.ok(await settings(page).evaluate((element) => element === document.activeElement)));

  // The server's message stands beside the line.
  await settings(page).fill('{\n  "model": "acme/large",\n  "temperature": "warm",\n  "tools": [\n    {"type": "function"}\n  ]\n}');
  await draft(page).click();
  await shows(page.getByRole("main"), /\/temperature/);
  const text = await page.getByRole("main").innerText();
  assert.match(text, /line 3/);
  assert.match(text, /line 5/);
  assert.equal((await versions("wrong")).length, 3);
  await eventually(async () => assert.equal(await prompt(page).inputValue(), (await versions("wrong"))[2].system_prompt, "nothing typed is lost"));

  await settings(page).fill(original.replace("0.4", "0.5"));
  await draft(page).click();
  await status(page, /v4/);
});

scenario("a 401 in the middle of an edit keeps the edit, and asks for a key in place", {}, async ({ page }) => {
  await makePreset("expiring");
  const { id, key: secret } = await administer("POST", "keys", { kind: "management" });
  await unlock(page, secret);
  await go(page, at("expiring", "new"));
  await eventually(async () => assert.match(await prompt(page).inputValue(), /team/));
  await prompt(page).fill("Half an hour of work.");
  await message(page).fill("Precious");
  await administer("DELETE", `keys/${id}`);
  // The page finds out by itself, or when it saves.
  const key = page.getByRole("textbox", { name: "API key" });
  if (await key.count() === 0) {
    await draft(page).click({ timeout: 3000 }).catch(() => {});
  }
  await key.waitFor();
  assert.equal(await page.evaluate((text) => JSON.stringify({ ...sessionStorage }).includes(text), secret), false);
  await key.fill(managementKey);
  await page.getByRole("button", { name: "Unlock" }).click();
  await key.waitFor({ state: "detached" });
  await eventually(async () => assert.equal(await prompt(page).inputValue(), "Half an hour of work."));
  await eventually(async () => assert.equal(await message(page).inputValue(), "Precious"));
  await draft(page).click();
  await status(page, /v4/);
  assert.equal((await versions("expiring"))[3].system_prompt, "Half an hour of work.");
});

scenario("a 412 while saving shows what has changed, and keeps the edit", { key: managementKey }, async ({ page }) => {
  await makePreset("raced");
  await go(page, at("raced", "new"));
  await eventually(async () => assert.match(await prompt(page).inputValue(), /team/));
  await prompt(page).fill("Mine.");
  await page.getByRole("button", { name: "Put live…", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await shows(dialog, /v3/);
  await manage("POST", "/presets/raced/designate", { version: 1 });
  await dialog.getByRole("button", { name: "Put live" }).click();
  await shows(dialog, /changed meanwhile/);
  assert.equal((await versions("raced")).length, 3);
  await dialog.getByRole("button", { name: "Look again" }).click();
  await shows(dialog, /v1/);
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, /v4/);
  assert.equal(await designated("raced"), 4);
});

scenario("leaving with edits asks", { fresh: true, key: managementKey }, async ({ page }) => {
  await makePreset("leaving");
  await go(page, at("leaving", "new"));
  await eventually(async () => assert.match(await prompt(page).inputValue(), /team/));
  await prompt(page).fill("Unsaved.");
  const asked = [];
  let answer = false;
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    return answer ? dialog.accept() : dialog.dismiss();
  });
  await page.getByRole("link", { name: "Presets" }).first().click();
  await eventually(() => assert.equal(asked.length, 1));
  await eventually(async () => assert.equal(await prompt(page).inputValue(), "Unsaved."));
  await page.evaluate(() => history.back()); // goBack would wait for a page that never comes
  await eventually(() => assert.ok(asked.length >= 2));
  await eventually(async () => assert.equal(await prompt(page).inputValue(), "Unsaved."));
  answer = true;
  await page.getByRole("link", { name: "Presets" }).first().click();
  await page.getByRole("table", { name: "Presets" }).waitFor();
});

scenario("the first version of a new preset", { key: managementKey }, async ({ page }) => {
  await go(page, "");
  await page.getByRole("button", { name: "New preset" }).click();
  const dialog = page.getByRole("dialog", { name: "New preset" });
  await dialog.getByRole("textbox", { name: "Slug" }).fill("not a slug");
  await dialog.getByRole("button", { name: "Continue" }).click();
  await shows(dialog, /Error/);
  await dialog.getByRole("textbox", { name: "Slug" }).fill("made-here");
  await dialog.getByRole("button", { name: "Continue" }).click();
  await prompt(page).fill("Be the first.");
  await putLive(page);
  await status(page, /v1/);
  assert.equal((await versions("made-here"))[0].system_prompt, "Be the first.");
});

scenario("saving twice makes one version", { key: managementKey }, async ({ page }) => {
  await makePreset("twice");
  await go(page, at("twice", "new"));
  await eventually(async () => assert.match(await prompt(page).inputValue(), /team/));
  await prompt(page).fill("Once.");
  // The answer to the first press is lost on its way.
  let lost = 0;
  await page.route("**/v1/presets/twice/**", async (route) => {
    if (route.request().method() === "POST" && lost++ === 0) {
      await route.fetch();
      return route.abort("connectionreset");
    }
    return route.continue();
  });
  await draft(page).click();
  await shows(page.getByRole("main"), /does not answer|Offline/);
  await draft(page).click();
  await status(page, /v4/);
  assert.equal((await versions("twice")).length, 4);
});

scenario("a change whose answer was lost is not taken for a later one", { key: managementKey }, async ({ page }) => {
  await makePreset("lost");
  await go(page, at("lost", "versions/1"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await shows(dialog, /in place of v3/);
  let lost = 0;
  await page.route("**/v1/presets/lost/designate*", async (route) => {
    if (lost++ === 0) {
      await route.fetch();
      return route.abort("connectionreset");
    }
    return route.continue();
  });
  await dialog.getByRole("button", { name: "Put live" }).click();
  await shows(dialog, /does not answer|Offline/);
  assert.equal(await designated("lost"), 1);
  await page.keyboard.press("Escape");
  await manage("POST", "/presets/lost/designate", { version: 2 });
  await shows(page, /live v2/);
  await page.getByRole("button", { name: "Put live" }).first().click();
  await shows(dialog, /in place of v2/);
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, /v1 is live/);
  assert.equal(await designated("lost"), 1);
});

for (const [name, address, write] of [
  ["a dialog", at("kept"), async (page) => {
    await act(page, "Rename and describe");
    const control = page.getByRole("dialog").getByRole("textbox", { name: "Description" });
    await control.fill("Long thought about.");
    return control;
  }],
  ["Try it", at("kept", "try"), async (page) => {
    const control = page.getByRole("textbox", { name: "Text 1" });
    await control.fill("Long thought about.");
    return control;
  }],
  ["Labels", at("kept", "labels"), async (page) => {
    const control = page.getByRole("textbox", { name: "Label" });
    await control.fill("Long thought about.");
    return control;
  }],
]) {
  scenario(`a 401 keeps what was typed in ${name}`, {}, async ({ page }) => {
    await makePreset("kept");
    const { id, key: secret } = await administer("POST", "keys", { kind: "management" });
    await unlock(page, secret);
    await go(page, address);
    const control = await write(page);
    await administer("DELETE", `keys/${id}`);
    const key = page.getByRole("textbox", { name: "API key" });
    await key.waitFor(); // the page finds out by itself
    await key.fill(managementKey);
    await page.getByRole("button", { name: "Unlock" }).click();
    await key.waitFor({ state: "detached" });
    await eventually(async () => assert.equal(await control.inputValue(), "Long thought about."));
  });
}

scenario("a page that asks for a key again sends nothing", { fresh: true }, async ({ page }) => {
  await makePreset("quiet");
  await page.clock.install();
  const { id, key: secret } = await administer("POST", "keys", { kind: "management" });
  await unlock(page, secret);
  await go(page, at("quiet", "labels"));
  await page.getByRole("textbox", { name: "Label" }).fill("staging");
  await administer("DELETE", `keys/${id}`);
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.clock.runFor(60_000);
  await page.evaluate(() => fetch("?last"));
  await eventually(async () => assert.match(requests.at(-1) ?? "", /\?last$/));
  assert.equal(requests.length, 1, requests.join("\n"));
});

scenario("a 401 without anything typed asks for a key, and keeps nothing", {}, async ({ page }) => {
  await makePreset("bare");
  const { id, key: secret } = await administer("POST", "keys", { kind: "management" });
  await unlock(page, secret);
  await go(page, at("bare"));
  await page.getByRole("list", { name: "Versions" }).waitFor();
  await administer("DELETE", `keys/${id}`);
  await page.getByRole("heading", { name: "Unlock the console" }).waitFor();
  await eventually(async () => assert.equal(await page.getByRole("dialog").count(), 0));
  await eventually(async () => assert.equal(await page.getByRole("list", { name: "Versions" }).count(), 0));
});

const messages = (page) => page.getByRole("textbox", { name: "Messages" });
const templateSwitch = (page) => page.getByRole("checkbox", { name: "Template" });

for (const [dialect, route, first, member] of [
  ["chat", "chat/completions", { messages: [{ role: "system", content: "Plain." }] }, "messages"],
  ["responses", "responses", { instructions: "Plain." }, "input"],
  ["messages", "messages", { max_tokens: 9, system: "Plain." }, "messages"],
]) {
  scenario(`a version in the dialect ${dialect} becomes a template, and is edited as one`, { fresh: true, key: managementKey }, async ({ page }) => {
    const slug = `templated-${dialect}`;
    await manage("POST", `/presets/${slug}/${route}`, { model: "acme/small", ...first });
    await go(page, at(slug, "new"));
    await eventually(async () => assert.equal(await prompt(page).inputValue(), "Plain."));
    const names = page.getByRole("status");
    await eventually(async () => assert.equal(await messages(page).isVisible(), false));

    // The names are listed as one types, by the server's rules.
    await prompt(page).fill("You know {{city}}.");
    await shows(names, /Template is off.*city/);
    await templateSwitch(page).check();
    await prompt(page).fill("You know {{ city }}, {{{_b.c-d}}}, \\{{no}}, {{-2}}, {{}}, {{open, {{a\tb}}.");
    await shows(names, "Variables: city, _b.c-d");
    await page.getByText("Messages: none").click();
    const part = { responses: "input_text" }[dialect] ?? "text";
    await messages(page).fill(JSON.stringify([
      { role: "user", content: "About {{city}} and {{topic}}" }, { role: "user", content: [{ type: part, text: "{{photo}}" }] },
    ]));
    await shows(names, "Variables: city, _b.c-d, topic, photo");

    // Errors stand beside their line of the messages.
    const right = await messages(page).inputValue();
    await messages(page).fill("[\n  {\"role\": \"user\", \"content\": 1.2.3}\n]");
    await draft(page).click();
    await shows(page.getByRole("main"), /line 2/);
    // The check of what was typed comes later, and leaves the server's errors alone.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 60_000);
    await messages(page).fill("[\n  {\"role\": \"user\", \"content\": \"{{city}}\"},\n  7\n]");
    await draft(page).click();
    await shows(page.getByRole("main"), new RegExp(`line 3: /${member}/`));
    await page.clock.runFor(1000);
    await shows(page.getByRole("main"), new RegExp(`line 3: /${member}/`));
    await page.clock.resume();
    await eventually(async () => assert.equal(await prompt(page).getAttribute("aria-invalid"), null));
    await messages(page).fill(right);
    await page.getByRole("button", { name: "Changes" }).click();
    await shows(page.getByRole("dialog").getByRole("table", { name: "Differences of the template" }), /topic/);
    await page.keyboard.press("Escape");
    await draft(page).click();
    await status(page, /v2/);
    const second = (await versions(slug))[1];
    assert.equal(second.dialect, dialect);
    assert.deepEqual(second.template.variables, ["city", "_b.c-d", "topic", "photo"]);
    assert.equal(second.template.messages.length, 2);

    // Editing it begins with all of it.
    await go(page, at(slug, "new?from=2"));
    await eventually(async () => assert.match(await messages(page).inputValue(), /\{\{topic\}\}/));
    await eventually(async () => assert.ok(await templateSwitch(page).isChecked()));
    await shows(names, "Variables: city, _b.c-d, topic, photo");
    await putLive(page);
    await status(page, /v2 is live/);

    // Without the switch it is text again.
    await go(page, at(slug, "new?from=2"));
    await eventually(async () => assert.ok(await templateSwitch(page).isChecked()));
    await templateSwitch(page).uncheck();
    await draft(page).click();
    await status(page, /v3/);
    assert.equal((await versions(slug))[2].template, null);
  });
}

scenario("fields change the settings, and nothing else of them", { key: managementKey }, async ({ page }) => {
  const tools = [{ type: "function", function: { name: "find", description: "Finds", parameters: { type: "object", properties: { id: { type: "string" } } } } }];
  await manage("POST", "/presets/by-fields/chat/completions", `{"model": "acme/small", "temperature": 0.70, "seed": 12345678901234567890, "tools": ${JSON.stringify(tools)}, "messages": [{"role": "system", "content": "One."}]}`);
  await page.route("**/v1/models", (route) => route.fulfill({ json: { data: [{ id: "acme/large", context_length: 400_000, pricing: { prompt: "0.00000025", completion: "0.000002" } }, { id: "acme/tiny" }] } }));
  await go(page, at("by-fields", "edit"));
  const model = page.getByRole("combobox", { name: "Model" });
  await eventually(async () => assert.equal(await model.inputValue(), "acme/small"));
  assert.equal(await page.getByRole("textbox", { name: "Temperature" }).inputValue(), "0.70", "as it is written");
  await shows(page.getByRole("main"), "Its list needs an inference key.");
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hi");
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("main"), "not in the gateway’s list");
  await model.click();
  await page.keyboard.type("large");
  await model.fill("lar");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await model.inputValue(), "acme/large");
  await shows(page.getByRole("main"), "400k · $0.25 / $2");
  await page.getByRole("textbox", { name: "Most tokens" }).fill("6o0");
  await shows(page.getByRole("main"), "must be a number");
  await page.getByRole("textbox", { name: "Most tokens" }).fill("600");
  await page.getByRole("combobox", { name: "Reasoning effort" }).selectOption("low");
  await page.getByText("1 tool", { exact: true }).click();
  await page.getByRole("button", { name: /^find Finds/ }).click();
  const dialog = page.getByRole("dialog", { name: "Tool" });
  await dialog.getByRole("textbox", { name: "Description" }).fill("Finds by id");
  await dialog.getByRole("button", { name: "Done" }).click();
  await draft(page).click();
  await status(page, /v2 is saved as a draft/);
  const { text } = await send("GET", "/presets/by-fields/versions/2");
  assert.match(text, /"seed": ?12345678901234567890/);
  assert.match(text, /"temperature": ?0\.70/);
  tools[0].function.description = "Finds by id";
  const { seed, ...config } = JSON.parse(text).data.config;
  assert.ok(seed);
  assert.deepEqual(config, { model: "acme/large", temperature: 0.7, tools, max_tokens: 600, reasoning_effort: "low" });
});

scenario("names of settings are completed in JSON", { key: managementKey }, async ({ page }) => {
  await makePreset("completed");
  await go(page, at("completed", "edit"));
  const json = await asJSON(page);
  await json.fill(`{"model": "acme/large", "`);
  await json.press("End");
  await page.keyboard.type("temp");
  await page.getByRole("button", { name: "temperature", exact: true }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.type("0.5}");
  assert.equal(await json.inputValue(), '{"model": "acme/large", "temperature": 0.5}');
  await draft(page).click();
  await status(page, /v4 is saved/);
});

scenario("the prompt is searched and has numbers, and its text is what was typed", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/presets/searched/chat/completions", { model: "m", messages: [{ role: "system", content: "# Head\n\nOne {{name}} and one `two`.\nDone" }] });
  await go(page, at("searched", "edit"));
  await prompt(page).click();
  await page.keyboard.press("Control+f");
  await page.keyboard.type("ONE");
  await shows(page.getByRole("main"), "1 of 3");
  await page.keyboard.press("Enter");
  await shows(page.getByRole("main"), "2 of 3");
  await page.keyboard.press("Escape");
  assert.equal(await prompt(page).evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd)), "one");
  const mirror = () => prompt(page).locator("xpath=preceding-sibling::div").evaluate((element) => [...element.children].map((line) => line.textContent).join("\n"));
  assert.equal(await mirror(), await prompt(page).inputValue());
  await page.keyboard.type("1\n2");
  assert.equal(await mirror(), await prompt(page).inputValue());
  await page.keyboard.press("Control+z");
  assert.equal(await mirror(), await prompt(page).inputValue());
});
