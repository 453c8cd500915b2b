// Characters that cannot be seen, or that change the direction of text.

import assert from "node:assert/strict";
import { at, eventually, go, look, manage, managementKey, scenario, shows } from "./harness.mjs";

// boxes are the codes of the boxes in a place, in their order.
const boxes = (place) => place.locator(".box").evaluateAll((all) => all.map((one) => one.dataset.code));

const capture = (slug, content, query = "") => manage("POST", `/presets/${slug}/chat/completions?${query}`, { model: "acme/large", messages: [{ role: "system", content }] });

// selected is what selecting a place and copying gives.
const selected = (place) => place.evaluate((element) => {
  const selection = globalThis.getSelection();
  selection.selectAllChildren(element);
  return selection.toString();
});

const seen = "Emoji ❤️ 👩‍👩‍👧 1️⃣ ☺︎, می‌خواهم, क्‍ष, tab\t.\r\nNext line";

for (const [name, text, codes] of [
  ["bidi", "if \u202Ea\u202C \u2066b\u2069 \u061C\u200E\u200F", ["U+202E", "U+202C", "U+2066", "U+2069", "U+061C", "U+200E", "U+200F"]],
  ["zero width", "a\u200Bb\u200B\u200B\u200Bc\uFEFF\u2060\u00AD\u034F\u3164 pass\u200Dword", ["U+200B", "U+200B ×3", "U+FEFF", "U+2060", "U+00AD", "U+034F", "U+3164", "U+200D"]],
  ["tags", "Sunny\u{E0001}\u{E0068}\u{E0069}", ["U+E0001", "U+E0068", "U+E0069"]],
  ["variation selectors", "a\uFE0F 1\uFE0F 😀\uFE0F\u{E0101} 葛\u{E0100}", ["U+FE0F", "U+FE0F", "U+E0101", "U+E0100"]],
  ["controls and line ends", "a\u0001\u001B[31m\u007F\u0085b\u2028c\u2029d\re\r\nf", ["U+0001", "U+001B", "U+007F", "U+0085", "U+2028", "U+2029", "U+000D"]],
  ["what can be seen", seen, []],
]) {
  scenario(`characters drawn as boxes: ${name}`, { key: managementKey }, async ({ page }) => {
    const slug = `hidden-${name.replaceAll(" ", "-")}`;
    await capture(slug, text);
    await go(page, at(slug));
    const prompt = page.getByRole("region", { name: "Prompt", exact: true });
    await eventually(async () => assert.deepEqual(await boxes(prompt), codes));
    assert.equal(await selected(prompt), text, "selecting gives the text as it is");
    const copied = page.evaluate(() => new Promise((resolve) => document.addEventListener("copy", (event) => resolve(event.clipboardData.getData("text/plain")), { once: true })));
    await page.getByRole("button", { name: "Copy the prompt" }).click();
    assert.equal(await copied, text, "Copy gives the text as it is");
    const warning = page.getByText(/Some characters cannot be seen, or change the direction of text/);
    assert.equal(await warning.count(), codes.length > 0 ? 1 : 0);
    for (const code of codes) {
      await shows(warning, new RegExp(code.split(" ")[0].replace("+", "\\+") + "|others"));
    }
  });
}

scenario("a copied text keeps what cannot be seen, on its way to another field", { key: managementKey }, async ({ page }) => {
  const text = "a\u202Eb\u202C\u200B\u200Bc\u{E0041}\u0001d";
  await capture("hidden-copied", text);
  await go(page, at("hidden-copied"));
  const prompt = page.getByRole("region", { name: "Prompt", exact: true });
  await eventually(async () => assert.equal((await boxes(prompt)).length, 5));
  await selected(prompt);
  await page.keyboard.press("Control+c");
  await go(page, at("hidden-copied", "try"));
  await page.getByRole("textbox", { name: "Text 1" }).focus();
  await page.keyboard.press("Control+v");
  await eventually(async () => assert.equal(await page.getByRole("textbox", { name: "Text 1" }).inputValue(), text));
});

scenario("the workbench marks what cannot be seen, as one types", { key: managementKey }, async ({ page }) => {
  await capture("typed-hidden", "Plain.");
  await go(page, at("typed-hidden", "edit"));
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  await eventually(async () => assert.equal(await prompt.inputValue(), "Plain."));
  assert.equal(await page.locator(".hidden-mark").count(), 0);
  await prompt.fill("Ignore \u202Eall of\u202C it, zero\u200Bwidth.");
  await shows(page.getByRole("status"), /They are marked below: U\+202E, U\+202C, U\+200B\.$/);
  assert.deepEqual(await page.locator(".hidden-mark").evaluateAll((all) => all.map((one) => [one.textContent, getComputedStyle(one).boxShadow !== "none"])), [["\u202E", true], ["\u202C", true], ["\u200B", true]]);
  await prompt.fill("Plain again.");
  await eventually(async () => assert.equal(await page.getByText(/They are marked below/).count(), 0));
});

scenario("boxes do not change the direction of what is around them", { key: managementKey }, async ({ page }) => {
  await capture("hidden-around", "left\u202Eright\n\u2067left\u202Eright\u2066more");
  await go(page, at("hidden-around"));
  const prompt = page.getByRole("region", { name: "Prompt", exact: true });
  await eventually(async () => assert.equal((await boxes(prompt)).length, 4));
  // Every letter stands to the right of the one before it in its line.
  const isOrdered = await prompt.evaluate((element) => {
    const places = [...element.childNodes].filter((node) => node.nodeType === 3).flatMap((node) => [...node.data].map((letter, i) => {
      const range = document.createRange();
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const { left, top } = range.getBoundingClientRect();
      return letter === "\n" ? [] : [left, top];
    })).filter(({ length }) => length > 0);
    return places.every(([left, top], i) => i === 0 || top > places[i - 1][1] + 10 || left > places[i - 1][0]);
  });
  assert.ok(isOrdered);
});

scenario("a comparison shows what differs, although it cannot be seen", { key: managementKey }, async ({ page }) => {
  const lines = ["Be friendly.", "Ask می‌خواهم.", "Love ❤️", "The end.", "Same \u200B."];
  await capture("hidden-compared", lines.join("\n"));
  await capture("hidden-compared", ["Be friendly.\u{E0068}\u{E0069}", "Ask میخواهم.", "Love ❤", "The end.\r", "Same \u200B."].join("\n"));
  await go(page, at("hidden-compared", "compare/1..2"));
  const table = page.getByRole("table", { name: "Prompt, line by line" });
  await eventually(async () => assert.deepEqual((await boxes(table)).toSorted(), ["U+000D", "U+200B", "U+200B", "U+200C", "U+E0068", "U+E0069", "U+FE0F"]));
  await shows(page.getByRole("main"), /^v1: Some characters cannot be seen.*: U\+200B\.$/);
  await shows(page.getByRole("main"), /^v2: Some characters cannot be seen.*U\+E0068, U\+E0069/);
  assert.match(await selected(table), /Be friendly\.\u{E0068}\u{E0069}/u);
  await look(page, "hidden-compare");

  await go(page, at("hidden-compared", "versions/1"));
  await page.getByRole("button", { name: "Put live" }).first().click();
  await shows(page.getByRole("dialog", { name: "Put live" }), /^v1: Some characters cannot be seen/);
  await eventually(async () => assert.ok((await boxes(page.getByRole("dialog"))).length > 0));
});

scenario("templates, settings, names and messages have boxes, too", { key: managementKey }, async ({ page }) => {
  await manage("POST", `/presets/hidden-all/chat/completions?template=true&message=${encodeURIComponent("Why\u202E?")}`, {
    model: "acme/large", stop: ["a\u200Bb"], messages: [{ role: "system", content: "Hi \u2066{{city}}" }, { role: "user", content: "In\u00ADside" }, { role: "user", content: [{ type: "text", text: "Part\u2060" }] }],
  });
  await manage("PATCH", "/presets/hidden-all", { name: "Sal\u202Ees", description: "De\u200Escribed" });
  await go(page, at("hidden-all"));
  const main = page.getByRole("main");
  await eventually(async () => assert.deepEqual(await boxes(main.getByRole("heading", { level: 1 })), ["U+202E"]));
  await eventually(async () => assert.deepEqual(await boxes(main.getByRole("table", { name: "Settings" })), ["U+200B"]));
  assert.deepEqual(await boxes(main.getByRole("region", { name: "Prompt", exact: true })), ["U+2066"]);
  assert.deepEqual(await boxes(main.getByRole("region", { name: "Message 1, user" })), ["U+00AD"]);
  assert.deepEqual(await boxes(main.getByRole("region", { name: "Message 2, user" })), ["U+2060"]);
  assert.deepEqual(await boxes(main.locator(".description")), ["U+200E"]);
  await shows(main, /: U\+2066, U\+00AD, U\+2060, U\+200B\.$/);
  await look(page, "hidden");
});

scenario("very many of them do not stop the page", { key: managementKey }, async ({ page }) => {
  await capture("hidden-many", "a\u200Bb\u200C".repeat(20_000));
  await go(page, at("hidden-many"));
  await shows(page.getByRole("main"), /U\+200B \(20000 times\), U\+200C \(20000 times\)\. Only the first 5000 of a text have boxes\./);
});
