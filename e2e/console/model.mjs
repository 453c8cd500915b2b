// Try it with a language model behind the server: two versions answer the same question. The preset
// is that of docs/try-a-model.md.

import assert from "node:assert/strict";
import { at, eventually, giveKey, go, look, managementKey, scenario, shows } from "./harness.mjs";

scenario("a language model answers two versions", { key: managementKey }, async ({ page }) => {
  await go(page, at("email-copywriter", "try"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Our shop opens on Monday.");
  await page.getByRole("combobox", { name: /Side by side/ }).selectOption("2");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const outputs = page.getByRole("region", { name: /^Answer of (live|v2)$/ });
  await eventually(async () => assert.ok((await outputs.allInnerTexts()).filter((text) => /complete|ended early \(length\)/.test(text)).length === 2));
  const texts = await outputs.locator("pre.answer").allTextContents();
  assert.ok(texts[0] && texts[1] && texts[0] !== texts[1], JSON.stringify(texts));
  for (const output of await outputs.all()) {
    await shows(output, /first text .*\d.*total .*\d.*email-copywriter@[12]/);
  }
  await outputs.locator("pre.answer").first().evaluate((element) => element.scrollTo(0, 0)); // for the pictures
  await look(page, "model");
});
