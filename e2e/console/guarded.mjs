// What stands in the way of a change, and what someone typed when it does.

import assert from "node:assert/strict";
import { accessible, act, administer, asJSON, at, designated, eventually, fits, go, makePreset, manage, managementKey, openMenu, picture, scenario, send, shows, status, unlock } from "./harness.mjs";

const preset = async (slug) => manage("GET", `/presets/${slug}`);
const button = (page, name) => page.getByRole("button", { name, exact: true }).first();
const inMenu = ["Rename and describe", "Policy", "Protect", "Unprotect", "Disable", "Enable", "Archive"];
const isOff = (page, name, off = true) => eventually(async () => {
  if (inMenu.includes(name)) {
    await openMenu(page);
  }
  assert.equal(await button(page, name).isDisabled(), off, `${name} is disabled`);
});

// answering has the browser's questions answered, and returns them.
function answering(page, answer) {
  const asked = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.message());
    return answer.yes ? dialog.accept() : dialog.dismiss();
  });
  return asked;
}

scenario("what files manage says so, and is changed anyway", { key: managementKey }, async ({ page }) => {
  await makePreset("managed");
  await manage("PUT", "/presets/managed/labels/staging", { version: 1 });
  await manage("PATCH", "/presets/managed", { managed_by: "files" });
  await go(page, at("managed", "versions/1"));
  const note = page.locator("#read-only");
  await shows(note, /This preset is managed by files/);
  for (const name of ["Put live", "Edit", "Rename and describe", "Protect", "Disable", "Archive"]) {
    await isOff(page, name);
  }
  await button(page, "Change anyway").click();
  await shows(note, /Your changes override files/);
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.textContent), "Stop", "the focus stays"));
  await button(page, "Put live").click();
  await page.getByRole("dialog", { name: "Put live" }).getByRole("button", { name: "Put live" }).click();
  await status(page, /v1 is live/);
  assert.equal(await designated("managed"), 1);
  assert.equal((await preset("managed")).managed_by, "files");
  assert.equal((await manage("GET", "/presets/managed/history"))[0].override, "files");

  // It holds in all views of the preset, until it is stopped.
  await page.getByRole("link", { name: "Labels", exact: true }).click();
  await page.getByRole("button", { name: "Move staging", exact: true }).click();
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("3");
  await button(page, "Set label").click();
  await status(page, /staging is v3/);
  await page.getByRole("button", { name: "Stop overriding files" }).click();
  await isOff(page, "Set label");
  await isOff(page, "Edit");
  await page.getByRole("link", { name: "History", exact: true }).click();
  await shows(page.getByRole("table", { name: "History" }), /overriding files/);
});

scenario("a managed preset takes no version before it is overridden", { key: managementKey }, async ({ page }) => {
  await makePreset("managed-new");
  await manage("PATCH", "/presets/managed-new", { managed_by: "files" });
  await go(page, at("managed-new", "new"));
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  await eventually(async () => assert.match(await prompt.inputValue(), /team/));
  await prompt.fill("Anyway.");
  await isOff(page, "Save draft");
  await isOff(page, "Put live…");
  await button(page, "Change anyway").click();
  await isOff(page, "Save draft", false);
  await button(page, "Save draft").click();
  await status(page, /v4 is saved/);
});

scenario("an archived preset that files manage is restored anyway", { key: managementKey }, async ({ page }) => {
  await makePreset("managed-archived");
  await manage("DELETE", "/presets/managed-archived");
  await makePreset("managed-gone");
  await manage("PATCH", "/presets/managed-gone", { managed_by: "files" });
  const { status: archived } = await send("DELETE", "/presets/managed-gone", undefined, { headers: { "X-Preset-Owner": "files" } });
  assert.equal(archived, 200);
  await go(page, at("managed-gone"));
  await isOff(page, "Restore");
  await button(page, "Change anyway").click();
  await isOff(page, "Restore", false);
  await button(page, "Restore").click();
  await status(page, "managed-gone is restored.");
  assert.equal((await preset("managed-gone")).status, "active");
  await go(page, at("managed-archived"));
  await isOff(page, "Restore", false);
});

scenario("a protected preset names the right that is missing", {}, async ({ page }) => {
  await makePreset("protected");
  await manage("PATCH", "/presets/protected", { protected: true, policy: { lock: ["tools"] } });
  const { key } = await administer("POST", "keys", { kind: "management" });
  await unlock(page, key);
  await go(page, at("protected", "versions/1"));
  await shows(page.locator("#read-only"), /takes a key with the right protected-labels/);
  for (const name of ["Put live", "Unprotect", "Disable", "Archive"]) {
    await isOff(page, name);
  }
  // The policy can be read, drafts and the description can be written.
  await act(page, "Policy");
  await shows(page.getByRole("dialog"), /"tools"/);
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await act(page, "Rename and describe");
  await eventually(async () => assert.ok(await page.getByRole("textbox", { name: "Name" }).isDisabled()));
  await page.getByRole("textbox", { name: "Description" }).fill("Described.");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await status(page, /saved/);
  assert.equal((await preset("protected")).description, "Described.");
  await button(page, "Edit").click();
  await page.getByRole("textbox", { name: "Prompt" }).fill("A draft.");
  await isOff(page, "Put live…");
  await button(page, "Save draft").click();
  await status(page, /v4 is saved as a draft/);
});

scenario("a preset is protected, and no longer", { key: managementKey }, async ({ page }) => {
  await makePreset("shield");
  await go(page, at("shield"));
  await act(page, "Protect");
  await status(page, "shield is protected.");
  assert.equal((await preset("shield")).protected, true);
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.textContent), "Actions"));
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, "shield is no longer protected.");
  assert.equal((await preset("shield")).protected, false);
});

scenario("unknown settings are told beside the line, before saving", { key: managementKey }, async ({ page }) => {
  await makePreset("misspelt");
  await go(page, at("misspelt", "new"));
  const settings = await asJSON(page);
  await eventually(async () => assert.match(await settings.inputValue(), /acme/));
  await settings.fill('{\n  "model": "acme/large",\n  "temprature": 0.4,\n  "store": true\n}');
  await shows(page.locator(".note-beside"), "temprature is unknown here, and is ignored");
  await shows(page.getByRole("status"), "Settings, line 3: temprature is unknown here, and is ignored.");
  await eventually(async () => assert.equal(await page.locator(".note-beside").count(), 1, "store is known"));
  await eventually(async () => assert.equal(await settings.getAttribute("aria-invalid"), null, "it is no error"));
  await button(page, "Save draft").click();
  // What the page tells is what the server ignores.
  await status(page, /ignored: temprature\./);
});

// The dialogs and the form that keep what was typed.
const places = {
  policy: {
    open: async (page) => {
      await act(page, "Policy");
      return page.getByRole("dialog").getByRole("textbox");
    }, text: '{"lock": ["tools"]}', save: "Save", saved: /The policy is saved/,
  },
  rename: {
    open: async (page) => {
      await act(page, "Rename and describe");
      return page.getByRole("dialog").getByRole("textbox", { name: "Description" });
    }, text: "Long thought about.", save: "Save", saved: /are saved/,
  },
  label: {
    view: "labels", open: async (page) => page.getByRole("textbox", { name: "Label" }), text: "long-thought-about", save: "Set label", saved: /long-thought-about is v3/,
  },
};

for (const [name, { view, open, text, save, saved }] of Object.entries(places)) {
  scenario(`leaving the ${name} asks before it loses what was typed`, { fresh: true, key: managementKey }, async ({ page }) => {
    const slug = `leave-${name}`;
    await makePreset(slug);
    await go(page, at(slug));
    await page.getByRole("list", { name: "Versions" }).waitFor();
    if (view) {
      await page.getByRole("link", { name: "Labels", exact: true }).click();
    }
    const answer = { yes: false }, asked = answering(page, answer);
    const control = await open(page);
    await control.fill(text);
    const kept = async (times) => {
      await eventually(() => assert.ok(asked.length >= times, `asked ${asked.length} times, want ${times}`));
      await eventually(async () => assert.equal(await control.inputValue(), text));
    };
    let times = 0;
    if (!view) {
      await page.keyboard.press("Escape");
      await kept(++times);
      await page.keyboard.press("Escape"); // twice, which no browser lets a page prevent at first
      await kept(++times);
      await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
      await kept(++times);
    } else {
      await page.getByRole("link", { name: "Versions", exact: true }).click();
      await kept(++times);
    }
    await page.evaluate(() => history.back());
    await kept(times + 1);
    answer.yes = true;
    await (view ? page.getByRole("link", { name: "Versions", exact: true }).click() : page.keyboard.press("Escape"));
    await control.waitFor({ state: "detached" });
    // Without anything typed nothing is asked.
    const before = asked.length;
    if (!view) {
      await open(page);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      assert.equal(asked.length, before);
    }
  });

  scenario(`a conflict keeps what was typed in the ${name}`, { key: managementKey }, async ({ page }) => {
    const slug = `conflict-${name}`;
    await makePreset(slug);
    await go(page, at(slug, view));
    const control = await open(page);
    await control.fill(text);
    const submit = page.getByRole("button", { name: save, exact: true });
    if (view) { // at the last moment, since the page looks again by itself
      await page.route(`**/v1/presets/${slug}/labels/**`, async (route) => {
        await manage("PUT", `/presets/${slug}/labels/${text}`, { version: 1 });
        return route.continue();
      }, { times: 1 });
    } else {
      await manage("PATCH", `/presets/${slug}`, { description: "Theirs." });
    }
    await submit.click();
    await shows(page, /changed meanwhile/);
    await eventually(async () => assert.equal(await control.inputValue(), text));
    await page.getByRole("button", { name: "Look again" }).click();
    await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.textContent), save, "the focus is in the form"));
    await eventually(async () => assert.equal(await control.inputValue(), text));
    await submit.click();
    await status(page, saved);
  });

  scenario(`a 401 keeps what was typed in the ${name}`, {}, async ({ page }) => {
    const slug = `locked-${name}`;
    await makePreset(slug);
    const { id, key: secret } = await administer("POST", "keys", { kind: "management", may: ["protected-labels"] });
    await unlock(page, secret);
    await go(page, at(slug, view));
    const control = await open(page);
    await control.fill(text);
    await administer("DELETE", `keys/${id}`);
    const key = page.getByRole("textbox", { name: "API key" });
    await key.waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await key.fill(managementKey);
    await page.getByRole("button", { name: "Unlock" }).click();
    await key.waitFor({ state: "detached" });
    await eventually(async () => assert.equal(await control.inputValue(), text));
    await page.getByRole("button", { name: save, exact: true }).click();
    await status(page, saved);
  });
}

scenario("Move asks before it replaces what was typed", { fresh: true, key: managementKey }, async ({ page }) => {
  await makePreset("moving");
  await manage("PUT", "/presets/moving/labels/staging", { version: 1 });
  await go(page, at("moving", "labels"));
  const answer = { yes: false }, asked = answering(page, answer), label = page.getByRole("textbox", { name: "Label" });
  await label.fill("canary");
  await page.getByRole("button", { name: "Move staging", exact: true }).click();
  await eventually(async () => assert.deepEqual([asked.length, await label.inputValue()], [1, "canary"]));
  answer.yes = true;
  await page.getByRole("button", { name: "Move staging", exact: true }).click();
  await eventually(async () => assert.equal(await label.inputValue(), "staging"));
});

scenario("Escape during a save closes nothing, and the outcome is told", { key: managementKey }, async ({ page }) => {
  await makePreset("saving");
  await go(page, at("saving"));
  await act(page, "Rename and describe");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Description" }).fill("Kept.");
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/v1/presets/saving?*", async (route) => {
    if (route.request().method() === "PATCH") {
      await held;
      return route.fulfill({ status: 503, contentType: "application/json", body: '{"error":{"message":"not now"}}' });
    }
    return route.continue();
  });
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.locator("[aria-busy]").waitFor();
  await page.keyboard.press("Escape");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  release();
  await shows(dialog, /not now/);
  await eventually(async () => assert.equal(await dialog.getByRole("textbox", { name: "Description" }).inputValue(), "Kept."));
});

scenario("the history shows what was set", { key: managementKey }, async ({ page }) => {
  await makePreset("told");
  await manage("PATCH", "/presets/told", { status: "disabled" });
  await manage("PATCH", "/presets/told", { status: "active", protected: true });
  await manage("PATCH", "/presets/told", { protected: false, managed_by: "files" });
  await send("PUT", "/presets/told/labels/canary", { split: [{ version: 3, weight: 90 }, { version: 2, weight: 10 }], protected: true }, { headers: { "X-Preset-Owner": "files" } });
  await go(page, at("told", "history"));
  const rows = page.getByRole("table", { name: "History" }).getByRole("row");
  for (const [what, ...details] of [["Disabled the preset"], ["Enabled the preset"], ["Protected the preset"], ["Ended the protection"], ["Gave the preset to files"], ["Split the label canary", "v3 90 % · v2 10 %", "label is protected"]]) {
    await eventually(async () => {
      const texts = await rows.allInnerTexts();
      assert.ok(texts.some((text) => [what, ...details].every((one) => text.includes(one))), `${[what, ...details]} in ${texts.join("\n")}`);
    });
  }
});

for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 360], ["dark", 360]]) {
  scenario(`guards are for everyone: ${scheme}, ${width} pixels`, { key: managementKey, scheme, width }, async ({ page }) => {
    const suffix = `${scheme}-${width}`, slug = `guards-${suffix}`;
    await makePreset(slug);
    await manage("PUT", `/presets/${slug}/labels/production`, { version: 2, protected: true });
    await manage("PUT", `/presets/${slug}/labels/canary`, { split: [{ version: 3, weight: 90 }, { version: 2, weight: 10 }] });
    await manage("PATCH", `/presets/${slug}`, { managed_by: "files", protected: true });
    for (const [name, view] of [["guarded", ""], ["guarded-labels", "labels"], ["guarded-history", "history"]]) {
      await go(page, at(slug, view));
      await button(page, "Change anyway").waitFor();
      await (view === "history" ? page.getByRole("table", { name: "History" }) : page.getByRole("main")).getByText(/v3/).first().waitFor();
      await accessible(page, name);
      await fits(page, name);
      await picture(page, `${name}-${suffix}`, { fullPage: true });
    }
    await go(page, at(slug, "new"));
    const settings = await asJSON(page);
    await eventually(async () => assert.match(await settings.inputValue(), /acme/));
    await settings.fill('{\n  "model": "acme/large",\n  "temprature": 0.4\n}');
    await shows(page.locator(".warned"), /temprature/);
    await accessible(page, "unknown settings");
    await fits(page, "unknown settings");
    await picture(page, `unknown-settings-${suffix}`, { fullPage: true });
  });
}
