// Long timelines, and small things that mislead.

import assert from "node:assert/strict";
import { before } from "node:test";
import { accessible, administer, at, designated, eventually, fits, go, makePreset, manage, managementKey, picture, scenario, shows, status, unlock } from "./harness.mjs";

const many = 230;
const timeline = (page) => page.getByRole("list", { name: "Versions" });

before(async () => {
  for (let n = 1; n <= many; n++) {
    await manage("POST", `/presets/long/chat/completions?designate=${n <= 3}&message=Step%20${n}`, { model: "acme/small", messages: [{ role: "system", content: `Version ${n}` }] });
  }
  await makePreset("small");
});

// isInView tells whether a version is in the visible part of the timeline.
const isInView = (page, name) => page.evaluate((text) => {
  const list = document.querySelector(".timeline").getBoundingClientRect();
  const link = [...document.querySelectorAll(".timeline a")].find((one) => one.querySelector("strong").textContent === text)?.getBoundingClientRect();
  return link !== undefined && link.top >= list.top - 1 && link.bottom <= list.bottom + 1;
}, name);

scenario("the timeline begins with the newest, and shows an old version at its address", { key: managementKey }, async ({ page }) => {
  assert.equal(await designated("long"), 3);
  await go(page, at("long"));
  await eventually(async () => assert.ok(await isInView(page, `v${many}`), "the newest is in view, and not the live one"));
  for (const n of [7, 96, 180, many]) {
    await go(page, at("long", `versions/${n}`));
    await eventually(async () => assert.ok(await isInView(page, `v${n}`), `v${n} is in view`));
    await eventually(async () => assert.equal(await timeline(page).locator("[aria-current]").locator("strong").textContent(), `v${n}`));
  }
  await go(page, at("long", "versions/96"));
  await page.getByRole("button", { name: "Previous" }).click();
  await eventually(async () => assert.equal(await timeline(page).locator("strong").first().textContent(), `v${many - 50}`));
});

scenario("selects reach every version", { key: managementKey }, async ({ page }) => {
  await go(page, at("long", `compare/3..${many}`));
  const from = page.getByRole("combobox", { name: "From" });
  await eventually(async () => assert.equal(await from.inputValue(), "3"));
  for (const first of [many - 100, many - 200]) {
    await from.selectOption({ label: `Older versions (${first})…` });
    await from.locator(`option[value="${first}"]`).waitFor({ state: "attached" });
  }
  await eventually(async () => assert.equal(await from.locator("option").count(), many));
  await from.selectOption("1");
  await eventually(() => assert.match(page.url(), new RegExp(`compare/1\\.\\.${many}$`)));
  await shows(page.getByRole("table", { name: /prompt/i }), "Version 1");
});

scenario("the number found is announced", { key: managementKey }, async ({ page }) => {
  await go(page, "/w/default");
  await status(page, /^\d+ presets found$/);
  await page.getByRole("searchbox", { name: "Search presets" }).fill("long");
  await status(page, /^1 preset found$/);
  await page.getByRole("searchbox", { name: "Search presets" }).fill("nothing-like-it");
  await status(page, /^0 presets found$/);
});

scenario("a page beyond the end leads to the last one", { key: managementKey }, async ({ page }) => {
  await go(page, "/w/default?offset=5000");
  await shows(page.getByRole("main"), /beyond the last of 2/);
  await page.getByRole("button", { name: "Last page" }).click();
  await page.getByRole("link", { name: "long", exact: true }).waitFor();
  assert.doesNotMatch(page.url(), /offset/);
  await go(page, "/w/default?offset=x");
  await page.getByRole("link", { name: "long", exact: true }).waitFor();
});

scenario("after a dialog whose opener is gone, the focus is at the heading", { key: managementKey }, async ({ page }) => {
  await go(page, at("small", "versions/1"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Put live" }).click();
  await status(page, /v1 is live/);
  await eventually(async () => assert.equal(await page.getByRole("main").getByRole("button", { name: "Put live" }).count(), 0));
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1"));
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, /v3 is live/);
});

scenario("an empty added line is as high as its number", { key: managementKey }, async ({ page }) => {
  for (const prompt of ["One.\nTwo.", "One.\n\nTwo.\n\nThree."]) {
    await manage("POST", "/presets/blank/chat/completions", { model: "m", messages: [{ role: "system", content: prompt }] });
  }
  await go(page, at("blank", "compare/1..2"));
  const text = page.getByRole("table", { name: /prompt/i }).locator("td.added .text");
  await eventually(async () => assert.ok(await text.count() >= 2));
  const heights = await text.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
  assert.ok(heights.every((height) => height >= 19), heights.join());
  await picture(page, "blank-lines");
});

scenario("the message of a wrong slug names its rule", { key: managementKey }, async ({ page }) => {
  await go(page, "");
  await page.getByRole("button", { name: "New preset" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Slug" }).fill("two words");
  await dialog.getByRole("button", { name: "Continue" }).click();
  await shows(dialog, /Error: A slug begins with a letter or digit, and has only these and \. _ ~ -\./);
});

scenario("an answer that breaks off is an error, and the server is not offline", { key: managementKey, expected: (text) => text.includes("ERR_") }, async ({ page }) => {
  // A body that is shorter than its Content-Length ends the connection in its middle.
  await page.addInitScript(() => {
    const real = globalThis.fetch;
    globalThis.fetch = async (...args) => {
      const response = await real(...args);
      return /history/.test(String(args[0])) ? new Response(new globalThis.ReadableStream({ pull: (controller) => controller.error(new TypeError("network error")) }), response) : response;
    };
  });
  await go(page, at("small", "history"));
  const alert = page.getByRole("alert");
  await shows(alert, "The connection ended before the answer was complete.");
  await shows(alert, "Error:");
  assert.equal(await alert.getByText("Offline").count(), 0);
});

scenario("unknown addresses lead back", { key: managementKey }, async ({ page }) => {
  for (const address of ["/nowhere", "/w/default/p/small/nothing", "/w/default/p/small/versions/0"]) {
    await go(page, address);
    await page.getByRole("heading", { name: "Not found" }).waitFor();
    await page.getByRole("link", { name: "All presets" }).click();
    await page.getByRole("table", { name: "Presets" }).waitFor();
  }
});

scenario("a key of one workspace sees no New workspace", {}, async ({ page }) => {
  const { key } = await administer("POST", "keys", { kind: "management", only_workspace: true });
  await unlock(page, key);
  await go(page, "/workspaces");
  await page.getByRole("table", { name: "Workspaces" }).waitFor();
  await eventually(async () => assert.equal(await page.getByRole("button", { name: /^(New workspace|Delete)/ }).count(), 0));
  await page.getByRole("button", { name: "Change default" }).waitFor();
});

scenario("a draft without a change is not offered", { key: managementKey }, async ({ page }) => {
  await go(page, at("small", "new"));
  const draft = page.getByRole("button", { name: "Save draft" }), prompt = page.getByRole("textbox", { name: "Prompt" });
  await eventually(async () => assert.match(await prompt.inputValue(), /team/));
  await shows(page.getByRole("status"), /This is v\d+ as it is/);
  assert.ok(await draft.isDisabled());
  const text = await prompt.inputValue();
  await prompt.fill("Other.");
  await eventually(async () => assert.ok(await draft.isEnabled()));
  await prompt.fill(text);
  await eventually(async () => assert.ok(await draft.isDisabled()));
});

for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 360], ["dark", 360]]) {
  scenario(`details are for everyone: ${scheme}, ${width} pixels`, { key: managementKey, scheme, width, expected: (text) => text.includes("404") }, async ({ page }) => {
    const suffix = `${scheme}-${width}`;
    for (const [name, address, text] of [["timeline", at("long"), `v${many}`], ["timeline-old", at("long", "versions/96"), "v96"], ["beyond", "/w/default?offset=5000", "Last page"], ["unknown", "/nowhere", "All presets"]]) {
      await go(page, address);
      await (name === "timeline" && width < 720 ? page.getByRole("combobox", { name: "Version" }).waitFor() : shows(page.getByRole("main"), text));
      await accessible(page, name);
      await fits(page, name);
      await picture(page, `${name}-${suffix}`);
    }
  });
}
