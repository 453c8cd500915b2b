// Loading, empty, error and offline, and text that tries to break the page.

import assert from "node:assert/strict";
import { at, console_, eventually, fits, go, makePreset, manage, managementKey, prompts, scenario, send, shows } from "./harness.mjs";

// views are those of a preset, with what each has when it is ready.
const views = [
  ["/w/default", (page) => page.getByRole("table", { name: "Presets" })],
  [at("states"), (page) => page.getByRole("list", { name: "Versions" })],
  [at("states", "compare/1..3"), (page) => page.getByRole("table", { name: /settings/i })],
  [at("states", "labels"), (page) => page.getByRole("textbox", { name: "Label" })],
  [at("states", "history"), (page) => page.getByRole("table").first()],
  [at("states", "new"), (page) => page.getByRole("textbox", { name: "Prompt" })],
  ["/workspaces", (page) => page.getByRole("table", { name: "Workspaces" })],
  ["/w/default/history", (page) => page.getByRole("table").first()],
];

// ofView is true for a view's own requests, and false for the one that asks about the key.
const ofView = (url) => url.pathname.startsWith("/v1/") && url.search !== "?limit=1";

scenario("each view shows that it is loading, and then itself", { key: managementKey }, async ({ page }) => {
  await makePreset("states");
  for (const [address, ready] of views) {
    let release;
    const held = new Promise((resolve) => (release = resolve));
    await page.route(ofView, async (route) => {
      await held;
      await route.continue().catch(() => {});
    });
    await page.goto(console_ + address);
    await page.getByText("Loading").first().waitFor({ state: "attached" });
    release();
    await ready(page).waitFor();
    await eventually(async () => assert.equal(await page.getByRole("main").getByText("Loading").count(), 0, address));
    await page.unrouteAll({ behavior: "ignoreErrors" });
  }
});

scenario("each view shows an error of the API with its request id, and recovers", { key: managementKey }, async ({ page }) => {
  for (const [address, ready] of views) {
    await page.goto(console_);
    await page.getByRole("table", { name: "Presets" }).waitFor();
    await page.route(ofView, (route) => route.fulfill({
      status: 503, headers: { "X-Request-Id": "0190b2c4-1111-7a3b-9c1d-2e4f6a8b0c1d", "Retry-After": "7" }, contentType: "application/json",
      body: '{"error": {"code": 503, "message": "The store is not available <b>now</b>"}}',
    }));
    await page.goto(console_ + address);
    await shows(page, "The store is not available <b>now</b>");
    await shows(page, "0190b2c4-1111-7a3b-9c1d-2e4f6a8b0c1d");
    const again = page.getByRole("main").getByRole("button", { name: "Try again" }).first();
    await again.waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await again.click({ timeout: 3000 }).catch(() => {}); // it may have looked again by itself
    await ready(page).waitFor();
    await eventually(async () => assert.equal(await page.getByText("The store is not available").count(), 0, address));
  }
});

scenario("offline is told, and what is shown stays", { key: managementKey, expected: (text) => /ERR_INTERNET_DISCONNECTED|ERR_NETWORK_CHANGED/.test(text) }, async ({ page, context }) => {
  await go(page, at("states", "new"));
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  await eventually(async () => assert.equal(await prompt.inputValue(), prompts[2]));
  await prompt.fill("Typed before the train went into the tunnel.");
  await context.setOffline(true);
  await shows(page, /Offline|does not answer/);
  await eventually(async () => assert.equal(await prompt.inputValue(), "Typed before the train went into the tunnel."));
  const draft = page.getByRole("button", { name: "Save draft" });
  await draft.click();
  await shows(page.getByRole("main"), /Offline|does not answer/);
  await context.setOffline(false);
  await draft.click();
  await eventually(async () => assert.equal((await send("GET", "/presets/states/versions")).body.total_count, 4));
  await eventually(async () => assert.equal(await page.getByText(/Offline/).count(), 0));
});

// hostile are texts that users may write.
export const hostile = [
  "<img src=x onerror=alert(1)><script>alert(2)</script>",
  "{{assets}} ${alert(3)} <%= x %> </textarea></pre>",
  "\u202Eright to left\u202C \u2066isolate\u2069 \u200B \u0645\u0631\u062D\u0628\u0627",
  "W".repeat(128),
  "\uFEFF\u0000-less \u{1F468}\u200D\u{1F469}\u200D\u{1F467} a\u0301\u0302\u0303\u0304".replace("\u0000", ""),
];

scenario("text that users wrote is shown as text, and breaks nothing", { fresh: true, key: managementKey, width: 360 }, async ({ page }) => {
  const slug = "s".repeat(128);
  const prompt = `${hostile.join("\n")}\n${"no-break-".repeat(200)}`;
  await manage("POST", `/presets/${slug}/chat/completions?message=${encodeURIComponent(hostile[0])}`, { model: "x".repeat(200), user: hostile[1], messages: [{ role: "system", content: "before" }] });
  await manage("POST", `/presets/${slug}/chat/completions?message=${encodeURIComponent(hostile[2])}`, { model: hostile[0], user: hostile[1], "x<b>y": 1, messages: [{ role: "system", content: prompt }] });
  await manage("PATCH", `/presets/${slug}`, { name: hostile[0], description: hostile.join(" ") });
  await manage("PUT", `/presets/${slug}/labels/${"l".repeat(64)}`, { version: 1 });
  await manage("POST", "/workspaces", { name: hostile[0], slug: "h".repeat(50), description: hostile[2] });
  page.on("dialog", (dialog) => assert.fail(`a script ran: ${dialog.message()}`));
  for (const [view, text] of [["", hostile[0]], ["versions/2", hostile[0]], ["compare/1..2", hostile[1]], ["labels", "l".repeat(64)], ["try", hostile[0]], ["use", slug], ["history", hostile[2].slice(0, 5)], ["new", hostile[0]]]) {
    await go(page, at(slug, view));
    await page.getByRole("heading", { level: 1 }).filter({ hasText: "<img" }).waitFor();
    await eventually(async () => assert.ok((await page.evaluate(() => document.body.innerText + [...document.querySelectorAll("textarea, input")].map((element) => element.value).join("\n"))).includes(text), `${view}: ${text}`));
    const made = await page.evaluate(() => document.querySelectorAll("main :is(img, script, b, iframe)").length);
    assert.equal(made, 0, view);
    await fits(page, view);
  }
  await go(page, "/workspaces");
  await shows(page, "h".repeat(50));
  await go(page, `/w/${"h".repeat(50)}`);
  await page.getByRole("searchbox", { name: "Search presets" }).fill(hostile[0]);
  await shows(page, /no preset/i);
  await fits(page, "presets");
});
