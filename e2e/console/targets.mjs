// What a view is about: the preset and the version that the address names, and what was typed there.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { administer, at, eventually, giveKey, go, inferenceKey, look, makePreset, manage, managementKey, scenario, send, shows, site, status, unlock } from "./harness.mjs";

const requests = async () => (await (await fetch(`${process.env.CONSOLE_OPENAI}/last`)).json()).count;
const text = (page, n = 1) => page.getByRole("textbox", { name: `Text ${n}` });
const chosen = (page) => page.getByRole("combobox", { name: "Version or label" });
const tab = (page, name) => page.getByRole("navigation", { name: "Preset" }).getByRole("link", { name });
const address = (page) => page.url().slice(`${site}/console`.length);

scenario("a key of another workspace tries nothing, although that has such a slug", { key: managementKey }, async ({ page }) => {
  for (const slug of ["try-there", "try-bare"]) {
    await manage("POST", "/workspaces", { name: slug, slug });
  }
  await makePreset("same-slug");
  await makePreset("same-slug", { workspace: "try-there" });
  const [there, bare] = await Promise.all(["try-there", "try-bare"].map((workspace) => administer("POST", "keys", { kind: "inference", workspace })));
  const before = await requests();
  const refused = async (workspace, key, message) => {
    await go(page, `/w/${workspace}/p/same-slug/try`);
    await giveKey(page, key);
    await text(page).fill("Hello");
    for (const name of ["Run", "Show what goes up"]) {
      await page.getByRole("button", { name, exact: true }).click();
      await shows(page.getByRole("main"), message);
      assert.equal(await page.getByRole("region", { name: "Answer of live" }).count(), 0);
    }
  };
  await refused("default", there.key, "where same-slug is another preset than the one shown. Nothing was sent. Enter an inference key of the workspace default.");
  await look(page, "try-elsewhere");
  await refused("try-there", inferenceKey, /Enter an inference key of the workspace try-there\./);
  await refused("default", bare.key, /This key reaches no preset same-slug/);
  assert.equal(await requests(), before, "nothing reached the gateway");

  // The right key goes on where the wrong one was refused.
  await giveKey(page);
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("table", { name: /fields/i }), /Hello/);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.getByRole("region", { name: "Answer of live", exact: true }), "same-slug@3");
  assert.equal(await requests(), before + 1);
  await page.getByRole("button", { name: "Stop" }).click();
});

scenario("what was typed in Try stays with its preset, until it is cleared", { key: managementKey }, async ({ page }) => {
  await makePreset("typed-a");
  await makePreset("typed-b");
  await manage("POST", "/presets/typed-a/chat/completions?template=true", { model: "acme/large", messages: [{ role: "system", content: "You know {{city}}." }] });
  const fill = async () => {
    await text(page).fill("The first");
    await page.getByRole("button", { name: "Add a message" }).click();
    await text(page, 2).fill("The second");
    await page.getByRole("textbox", { name: "city", exact: true }).fill("Łódź");
    await page.getByRole("textbox", { name: /parameters/i }).fill('{"seed": 7}');
    await page.getByRole("combobox", { name: "API" }).selectOption("messages");
    await page.getByRole("combobox", { name: /Side by side/ }).selectOption("2");
  };
  const isThere = async () => {
    await eventually(async () => assert.equal(await text(page).inputValue(), "The first"));
    assert.equal(await text(page, 2).inputValue(), "The second");
    assert.equal(await page.getByRole("combobox", { name: "Role 2" }).inputValue(), "assistant");
    assert.equal(await page.getByRole("textbox", { name: /parameters/i }).inputValue(), '{"seed": 7}');
    assert.equal(await page.getByRole("combobox", { name: "API" }).inputValue(), "messages");
    await eventually(async () => assert.equal(await page.getByRole("combobox", { name: /Side by side/ }).inputValue(), "2"));
    await eventually(async () => assert.equal(await page.getByRole("textbox", { name: "city", exact: true }).inputValue(), "Łódź"));
  };
  await go(page, at("typed-a", "try"));
  await fill();
  await tab(page, "Labels").click();
  await page.getByRole("heading", { name: "Labels" }).waitFor();
  await page.goBack();
  await isThere();
  await page.reload();
  await isThere();
  await look(page, "try-kept");

  await go(page, at("typed-b", "try"));
  await eventually(async () => assert.equal(await text(page).inputValue(), "", "another preset has its own"));
  assert.ok(await page.getByRole("button", { name: "Clear" }).isDisabled());
  await go(page, at("typed-a", "try"));
  await isThere();

  await page.getByRole("button", { name: "Clear" }).click();
  await status(page, "Cleared.");
  assert.equal(await text(page).inputValue(), "");
  assert.equal(await text(page, 2).count(), 0);
  await page.getByRole("button", { name: "Undo" }).click();
  await isThere();
});

scenario("Lock asks before it forgets what was typed in Try", { key: managementKey, fresh: true }, async ({ page }) => {
  await makePreset("typed-locked");
  const dialogs = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    return dialogs.length === 1 ? dialog.dismiss() : dialog.accept();
  });
  await go(page, at("typed-locked", "try"));
  await text(page).fill("A secret");
  const lock = page.getByRole("button", { name: "Lock", exact: true });
  await lock.click();
  assert.equal(await text(page).inputValue(), "A secret");
  await lock.click();
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  assert.equal(dialogs.length, 2);
  assert.match(dialogs[0], /forgets what you typed/);
  assert.ok(!await page.evaluate(() => JSON.stringify(sessionStorage).includes("A secret")));
  await unlock(page, managementKey);
  await eventually(async () => assert.equal(await text(page).inputValue(), ""));
});

scenario("text that the browser cannot keep is not lost without asking", { key: managementKey, fresh: true }, async ({ page }) => {
  await makePreset("typed-much");
  await go(page, at("typed-much", "try"));
  await page.evaluate(() => {
    for (let size = 1 << 20; size > 0; size >>= 1) { // until nothing more fits
      try {
        for (let n = 0; ; n++) {
          sessionStorage.setItem(`other ${size} ${n}`, "x".repeat(size));
        }
      } catch {
        continue;
      }
    }
  });
  await text(page).fill("There is no room");
  const asked = new Promise((resolve) => page.once("dialog", (dialog) => dialog.dismiss().then(() => resolve(dialog.message()))));
  await tab(page, "Labels").click();
  assert.match(await asked, /not saved/);
  assert.equal(await text(page).inputValue(), "There is no room");
});

scenario("the version stays in the address of every tab", { key: managementKey }, async ({ page }) => {
  await makePreset("stays");
  await manage("PUT", "/presets/stays/labels/staging", { version: 1 });
  await go(page, at("stays", "try"));
  await eventually(async () => assert.ok(await chosen(page).locator("option").count() >= 5));
  await chosen(page).selectOption("2");
  await eventually(() => assert.equal(address(page), at("stays", "edit?version=2")));

  for (const [name, view] of [["Compare", "compare/3..2"], ["Labels", "labels?version=2"], ["Use it", "use?version=2"], ["Usage", "usage?version=2"], ["History", "history?version=2"], ["Versions", "versions/2"], ["Workbench", "edit?version=2"]]) {
    await tab(page, name).click();
    await eventually(() => assert.equal(address(page), at("stays", view)));
    await eventually(async () => assert.equal(await tab(page, name).getAttribute("aria-current"), "page"));
  }
  await eventually(async () => assert.equal(await chosen(page).inputValue(), "2"));
  await page.reload();
  await eventually(async () => assert.equal(await chosen(page).inputValue(), "2"));
  await page.goBack();
  await page.getByRole("heading", { name: /^v2/ }).waitFor();
  await page.goBack();
  await eventually(() => assert.equal(address(page), at("stays", "history?version=2")));

  // A label stays a label, and what is live stays what is live.
  await go(page, at("stays", "try?label=staging"));
  await eventually(async () => assert.equal(await chosen(page).inputValue(), "staging"));
  for (const [name, view] of [["Versions", "versions/1?label=staging"], ["Compare", "compare/3..1?label=staging"], ["Use it", "use?label=staging"]]) {
    await tab(page, name).click();
    await eventually(() => assert.equal(address(page), at("stays", view)));
    await eventually(async () => assert.equal(await tab(page, name).getAttribute("aria-current"), "page"));
  }
  await shows(page.getByRole("main"), "@preset/stays@staging");
  await go(page, at("stays"));
  for (const [name, view] of [["Compare", "compare/2..3"], ["Use it", "use"], ["Workbench", "edit"]]) {
    await tab(page, name).click();
    await eventually(() => assert.equal(address(page), at("stays", view)));
    await eventually(async () => assert.equal(await tab(page, name).getAttribute("aria-current"), "page"));
  }

  // What the address names does not change by itself, although it may be gone.
  await manage("DELETE", "/presets/stays/labels/staging");
  await go(page, at("stays", "try?label=staging"));
  await eventually(async () => assert.equal(await chosen(page).evaluate((select) => select.selectedOptions[0].text), "staging (not set)"));
  assert.equal(await chosen(page).inputValue(), "staging");
});

scenario("usage keeps the version in its address when its figures change", { key: managementKey, at: "" }, async ({ page }) => {
  await makePreset("stays-usage");
  await go(page, at("stays-usage", "usage?version=2"));
  await page.getByRole("combobox", { name: "By" }).selectOption("model");
  await eventually(() => assert.equal(address(page), at("stays-usage", "usage?version=2&by=model")));
});

scenario("after saving a draft, Try has the draft", { key: managementKey }, async ({ page }) => {
  await makePreset("drafted");
  await go(page, at("drafted", "try"));
  await text(page).fill("The same input");
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  await eventually(async () => assert.match(await prompt.inputValue(), /Write/));
  await prompt.fill("A new prompt.");
  await page.getByRole("button", { name: "Save draft" }).click();
  await status(page, /v4 is saved as a draft/);
  await eventually(async () => assert.equal(await chosen(page).inputValue(), "4"));
  assert.equal(await text(page).inputValue(), "The same input");
  await giveKey(page);
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("region", { name: "Answer of v4" }), /A new prompt\./);
});

// copied returns what the button of a snippet copies.
async function copied(page, name) {
  const text_ = page.evaluate(() => new Promise((resolve) => document.addEventListener("copy", (event) => resolve(event.clipboardData.getData("text/plain")), { once: true })));
  await page.getByRole("button", { name: `Copy the snippet for ${name}`, exact: true }).click();
  return text_;
}

const run = promisify(execFile);

scenario("the copied snippets of a template work, for every version", { key: managementKey }, async ({ page }) => {
  const capture = (query, content, messages = []) => manage("POST", `/presets/use-template/chat/completions?${query}`, { model: "acme/large", messages: [{ role: "system", content }, ...messages] });
  await capture("", "Plain {{text}}.");
  await capture("template=true", "You know {{city}}.");
  await capture("template=true", "You know {{city}} and {{質問}}.", [{ role: "user", content: "Sights of {{sight.1}}" }]);
  await manage("PUT", "/presets/use-template/labels/canary", { split: [{ version: 2, weight: 1 }, { version: 3, weight: 1 }] });
  await go(page, at("use-template", "use"));
  await shows(page.getByRole("main"), "city, 質問, sight.1");
  await look(page, "use-template");
  await eventually(async () => assert.ok(await chosen(page).locator("option").count() >= 5));
  for (const [ref, named, sent] of [
    ["", "@preset/use-template", ["You know value of city and value of 質問.", "Sights of value of sight.1"]],
    ["2", "@preset/use-template@2", ["You know value of city.", "Hello"]],
    ["1", "@preset/use-template@1", ["Plain {{text}}.", "Hello"]],
  ]) {
    await chosen(page).selectOption(ref);
    await eventually(() => assert.equal(address(page), at("use-template", `use${ref && `?version=${ref}`}`)));
    await eventually(async () => assert.equal((await page.getByRole("region", { name: "the snippet for curl" }).textContent()).includes(`"model": "${named}"`), true));
    const before = await requests();
    const { stdout } = await run("bash", ["-c", await copied(page, "curl")], { env: { ...process.env, INFERENCE_KEY: inferenceKey } });
    assert.match(stdout, /"finish_reason"/);
    const { count, last } = await (await fetch(`${process.env.CONSOLE_OPENAI}/last`)).json();
    assert.equal(count, before + 1);
    assert.deepEqual(JSON.parse(last.body).messages.map(({ content }) => content), sent);
  }
  // A split gets the variables of all its versions. A version that is no template has none.
  await chosen(page).selectOption("canary");
  await shows(page.getByRole("main"), "city, 質問, sight.1");
  const missing = await send("POST", "/chat/completions", { model: "@preset/use-template@2", messages: [] }, { key: inferenceKey });
  assert.equal(missing.status, 400, "without its variables a request fails");
});
