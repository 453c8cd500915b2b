// Labels: set, move, split, remove, and their history.

import assert from "node:assert/strict";
import { administer, at, eventually, go, makePreset, manage, managementKey, scenario, shows, status, unlock } from "./harness.mjs";

// target is what a label stands for, or undefined.
const target = async (slug, label) => (await manage("GET", `/presets/${slug}`)).labels[label];

scenario("a label is set, moved, split and removed", { key: managementKey }, async ({ page }) => {
  await makePreset("labelled");
  await go(page, at("labelled", "labels"));
  const label = page.getByRole("textbox", { name: "Label" });
  const set = page.getByRole("button", { name: "Set label" });

  await label.fill("staging");
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("2");
  await set.click();
  await status(page, /staging is v2/);
  assert.equal((await target("labelled", "staging")).version, 2);
  const row = page.getByRole("table", { name: "Labels" }).getByRole("row").filter({ hasText: "staging" });
  await shows(row, "v2");

  await row.getByRole("button", { name: /^Move/ }).click();
  await eventually(async () => assert.equal(await label.inputValue(), "staging"));
  await eventually(async () => assert.ok(await page.getByRole("combobox", { name: "Version", exact: true }).evaluate((element) => element === document.activeElement), "Move leads to the form"));
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("3");
  await set.click();
  await status(page, /staging is v3/);
  assert.equal((await target("labelled", "staging")).version, 3);
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /staging is v2/);
  assert.equal((await target("labelled", "staging")).version, 2);

  await label.fill("canary");
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("3");
  await page.getByRole("button", { name: /^Split/ }).click();
  await eventually(async () => assert.notEqual(await page.getByRole("combobox", { name: "Version 2" }).inputValue(), "3", "another version"));
  await eventually(async () => assert.deepEqual([await page.getByRole("spinbutton", { name: "Percent", exact: true }).inputValue(), await page.getByRole("spinbutton", { name: "Percent 2" }).inputValue()], ["50", "50"]));
  await page.getByRole("combobox", { name: "Version 2" }).selectOption("1");
  await page.getByRole("spinbutton", { name: "Percent", exact: true }).fill("90");
  await page.getByRole("spinbutton", { name: "Percent 2" }).fill("20");
  await set.click();
  await shows(page.getByRole("main"), /110/); // they do not add up, and nothing is sent
  assert.equal(await target("labelled", "canary"), undefined);
  await page.getByRole("spinbutton", { name: "Percent 2" }).fill("10");
  await set.click();
  await status(page, /canary/);
  const { split } = await target("labelled", "canary");
  const share = (version) => split.find((one) => one.version === version).weight;
  assert.equal(share(3) / share(1), 9);
  await shows(page.getByRole("table", { name: "Labels" }), /90 %/);

  await page.getByRole("button", { name: "Remove canary" }).click();
  const dialog = page.getByRole("dialog", { name: "Remove" });
  await dialog.getByRole("button", { name: "Remove" }).click();
  await status(page, /canary is removed/);
  assert.equal(await target("labelled", "canary"), undefined);
});

scenario("three equal shares are set again as they are", { key: managementKey }, async ({ page }) => {
  await makePreset("thirds");
  await manage("PUT", "/presets/thirds/labels/canary", { split: [1, 2, 3].map((version) => ({ version, weight: 1 })) });
  await go(page, at("thirds", "labels"));
  await page.getByRole("button", { name: "Move canary", exact: true }).click();
  await shows(page.getByRole("main"), "The percentages add up to 100.");
  await page.getByRole("button", { name: "Set label" }).click();
  await status(page, /canary is v1 33.34 % · v2 33.33 % · v3 33.33 %/);
});

scenario("a bad label is told at its field", { key: managementKey }, async ({ page }) => {
  await makePreset("badly-labelled");
  await go(page, at("badly-labelled", "labels"));
  const label = page.getByRole("textbox", { name: "Label" });
  for (const text of ["", "two words", "7", "latest"]) {
    await label.fill(text);
    await page.getByRole("button", { name: "Set label" }).click();
    await eventually(async () => assert.equal(await label.getAttribute("aria-invalid"), "true", text));
  }
  assert.deepEqual((await manage("GET", "/presets/badly-labelled")).labels, {});
});

scenario("a 412 of a label changes nothing", { key: managementKey }, async ({ page }) => {
  await makePreset("label-race");
  await manage("PUT", "/presets/label-race/labels/staging", { version: 3 });
  await go(page, at("label-race", "labels"));
  const main = page.getByRole("main"), row = page.getByRole("table", { name: "Labels" }).getByRole("row").filter({ hasText: "staging" });
  const set = page.getByRole("button", { name: "Set label" });
  await row.getByRole("button", { name: /^Move/ }).click();
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("1");

  // Someone else is faster, and the list shows it already.
  await manage("PUT", "/presets/label-race/labels/staging", { version: 2 });
  await page.evaluate(() => dispatchEvent(new Event("online"))); // makes the page look now
  await shows(row, "v2");
  await set.click();
  await shows(main, /changed meanwhile/);
  await shows(main, /was v3, and is v2 now/);
  assert.equal((await target("label-race", "staging")).version, 2);

  // Another change of the preset is in nobody's way once it is seen.
  await main.getByRole("button", { name: "Look again" }).click();
  await manage("PUT", "/presets/label-race/labels/other", { version: 3 });
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await shows(page.getByRole("table", { name: "Labels" }), "other");
  await set.click();
  await status(page, /staging is v1/);
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /staging is v2 again/);
  assert.equal((await target("label-race", "staging")).version, 2);
});

scenario("undoing a removal overwrites nothing", { key: managementKey }, async ({ page }) => {
  await makePreset("label-gone");
  await manage("PUT", "/presets/label-gone/labels/production", { version: 3 });
  await go(page, at("label-gone", "labels"));
  await page.getByRole("button", { name: "Remove production" }).click();
  const dialog = page.getByRole("dialog", { name: "Remove" }), remove = dialog.getByRole("button", { name: "Remove" });
  await shows(dialog, "v3");

  // What comes back is what was removed in the end.
  await manage("PUT", "/presets/label-gone/labels/production", { version: 2 });
  await remove.click();
  await shows(dialog, /was v3, and is v2 now/);
  await dialog.getByRole("button", { name: "Look again" }).click();
  await remove.click();
  await status(page, /production is removed/);
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /production is v2 again/);
  assert.equal((await target("label-gone", "production")).version, 2);

  // Someone sets the label before Undo is pressed.
  await shows(page.getByRole("table", { name: "Labels" }), "v2");
  await page.getByRole("button", { name: "Remove production" }).click();
  await remove.click();
  await status(page, /production is removed/);
  await manage("PUT", "/presets/label-gone/labels/production", { version: 1 });
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /changed meanwhile/);
  assert.equal((await target("label-gone", "production")).version, 1);
});

scenario("a protected label says so, and a key without the right is told", {}, async ({ page }) => {
  await makePreset("guarded");
  await manage("PUT", "/presets/guarded/labels/production", { version: 2, protected: true });
  const { key } = await administer("POST", "keys", { kind: "management" });
  await unlock(page, key);
  await go(page, at("guarded", "labels"));
  const row = page.getByRole("table", { name: "Labels" }).getByRole("row").filter({ hasText: "production" });
  await shows(row, "v2, protected");
  await shows(row, "changing it takes a key with the right protected-labels");
  for (const name of [/^Move/, /^Remove/, /^Unprotect/]) {
    await eventually(async () => assert.ok(await row.getByRole("button", { name }).isDisabled(), String(name)));
  }
  await page.getByRole("textbox", { name: "Label" }).fill("production");
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("3");
  await page.getByRole("button", { name: "Set label" }).click();
  await shows(page.getByRole("main"), /Error: The label production is protected/);
  assert.equal((await target("guarded", "production")).version, 2);
  // Other labels can be set, and such a key sees no button that protects.
  await page.getByRole("textbox", { name: "Label" }).fill("staging");
  await page.getByRole("button", { name: "Set label" }).click();
  await status(page, /staging is v3/);
  await eventually(async () => assert.equal(await page.getByRole("button", { name: /^Protect/ }).count(), 0));
});

scenario("a label is protected, and no longer", { key: managementKey }, async ({ page }) => {
  await makePreset("shielded");
  await manage("PUT", "/presets/shielded/labels/production", { version: 2 });
  await go(page, at("shielded", "labels"));
  const row = page.getByRole("table", { name: "Labels" }).getByRole("row").filter({ hasText: "production" });
  await row.getByRole("button", { name: "Protect production" }).click();
  await status(page, /production is v2, protected/);
  await eventually(async () => assert.deepEqual(await target("shielded", "production"), { version: 2, protected: true }));
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /production is v2 again/);
  await eventually(async () => assert.deepEqual(await target("shielded", "production"), { version: 2 }));
  await row.getByRole("button", { name: "Protect production" }).click();
  await row.getByRole("button", { name: "Unprotect production" }).click();
  await eventually(async () => assert.deepEqual(await target("shielded", "production"), { version: 2 }));
});

scenario("moving or removing a protected label is undone with its protection", { key: managementKey }, async ({ page }) => {
  await makePreset("undone");
  await manage("PUT", "/presets/undone/labels/production", { version: 2, protected: true });
  await go(page, at("undone", "labels"));
  const row = page.getByRole("table", { name: "Labels" }).getByRole("row").filter({ hasText: "production" });
  await row.getByRole("button", { name: /^Move/ }).click();
  await page.getByRole("combobox", { name: "Version", exact: true }).selectOption("3");
  await page.getByRole("button", { name: "Set label" }).click();
  await shows(row, "v3, protected");
  await row.getByRole("button", { name: /^Remove/ }).click();
  await page.getByRole("dialog", { name: "Remove" }).getByRole("button", { name: "Remove" }).click();
  await eventually(async () => assert.equal(await target("undone", "production"), undefined));
  await page.getByRole("button", { name: "Undo" }).click();
  await shows(row, "v3, protected");
  const { version, protected: isProtected } = await target("undone", "production");
  assert.deepEqual({ version, isProtected }, { version: 3, isProtected: true });
});
