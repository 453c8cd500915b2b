// Firefox loads, unlocks and compares. puppeteer-core speaks WebDriver BiDi, which stock
// Firefox understands; playwright-core needs a Firefox of its own.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";
import { at, console_, designated, eventually, makePreset, managementKey, patience, screenshots, site } from "./harness.mjs";

let browser;
before(async () => {
  browser = await puppeteer.launch({ browser: "firefox", executablePath: process.env.CONSOLE_FIREFOX, headless: true, defaultViewport: null, args: ["--width=1280", "--height=900"], timeout: 4 * patience });
});
after(async () => browser?.close());

test("Firefox loads, unlocks, lists, compares, and puts a version live", { timeout: 10 * patience }, async (t) => {
  t.diagnostic(await browser.version());
  await makePreset("foxy");
  const page = await browser.newPage();
  const found = [];
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && found.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => found.push(`uncaught: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${site}/`) && !request.url().startsWith("data:")) {
      found.push(`request elsewhere: ${request.url()}`);
    }
  });
  const element = (role, name) => page.waitForSelector(`::-p-aria([name="${name}"][role="${role}"])`, { timeout: patience });
  const text = (selector) => page.$eval(selector, (one) => one.innerText);
  const press = async (role, name) => (await element(role, name)).click();

  await page.goto(console_);
  await page.evaluate(() => {
    globalThis.violations = [];
    addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  await (await element("textbox", "API key")).type(managementKey);
  await press("button", "Unlock");
  await element("table", "Presets");
  await press("link", "foxy");
  await element("list", "Versions");
  await eventually(async () => assert.match(await text("main"), /Never promise a date/));
  assert.deepEqual(await page.evaluate(() => globalThis.violations), []);

  await page.goto(console_ + at("foxy", "compare/1..3"));
  await eventually(async () => {
    const shown = await text("main");
    for (const want of ["acme/small", "acme/large", "Never promise a date.", "+", "−"]) {
      assert.ok(shown.includes(want), want);
    }
  });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth), false);
  if (screenshots) {
    await mkdir(screenshots, { recursive: true });
    await page.screenshot({ path: path.join(screenshots, "firefox-compare-light.png") });
  }

  await page.goto(console_ + at("foxy", "versions/1"));
  await press("button", "Put live");
  await page.waitForSelector("dialog[open] h3", { timeout: patience });
  await page.waitForSelector("dialog[open] button.primary:not([disabled])", { timeout: patience });
  await (await page.$("dialog[open] button.primary")).click();
  await eventually(async () => assert.equal(await designated("foxy"), 1));
  await eventually(async () => assert.match(await text("main"), /live v1/));
  assert.deepEqual(found, []);
});
