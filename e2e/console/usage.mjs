// Usage: what versions did in production, as figures, charts and words.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { accessible, at, designated, eventually, fits, giveKey, go, inferenceKey, manage, managementKey, picture, scenario, send, shows, site, status } from "./harness.mjs";

const each = 40; // requests of each version of the split

// ask sends a chat request, as a client does.
async function ask(model, text = "Hello", more = {}, headers = {}) {
  return fetch(`${site}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${inferenceKey}`, "Content-Type": "application/json", ...headers },
    body: JSON.stringify({ model, messages: [{ role: "user", content: text }], ...more }),
  });
}

// add makes a version of a preset.
const add = (slug, model) => manage("POST", `/presets/${slug}/chat/completions`, { model, messages: [{ role: "system", content: "Be brief." }] });

// sessionsOf returns sessions that a split gives to each of its two versions. A dry run tells.
async function sessionsOf(reference) {
  const found = [[], []];
  for (let i = 0; found.some((sessions) => sessions.length < each); i++) {
    const answer = await ask(reference, "Hello", {}, { "X-Session-Id": `session-${i}`, "X-Preset-Dry-Run": "true" });
    assert.equal(answer.status, 200, await answer.text());
    found[Number(answer.headers.get("X-Preset").split("@")[1]) - 1].push(`session-${i}`);
  }
  return found;
}

// changedAt has the page see another time of a label's last change. The server's clock is that of
// the machine, and sums are of whole hours.
async function changedAt(page, time) {
  await page.route("**/v1/presets/*/labels/*", async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    answer.data.history[0].time = time.toISOString();
    return route.fulfill({ response, json: answer });
  });
}

const hours = (n) => new Date(Date.now() + n * 3_600_000);

before(async () => {
  for (const model of ["acme/small", "acme/large"]) {
    await add("campaign", model);
    await add("thin", model);
  }
  await add("quiet", "acme/silent");
  await add("idle", "acme/small");
  for (const slug of ["campaign", "thin"]) {
    await manage("PUT", `/presets/${slug}/labels/canary`, { split: [{ version: 1, weight: 60 }, { version: 2, weight: 40 }] });
  }
  const [ofFirst, ofSecond] = await sessionsOf("@preset/campaign@canary");
  for (let i = 0; i < each; i++) {
    const first = await ask("@preset/campaign@canary", "Hello", { stream: i % 2 === 0 }, { "X-Session-Id": ofFirst[i] });
    await first.text();
    const second = await ask("@preset/campaign@canary", i < 15 ? "fail" : "Hello", {}, { "X-Session-Id": ofSecond[i] });
    await second.text();
    for (const [answer, score] of [[first, i < 35], [second, i < 32]]) {
      const sent = await send("POST", "/presets/campaign/feedback", { request_id: answer.headers.get("X-Preset-Request-Id"), score, name: "solved" }, { key: inferenceKey });
      assert.equal(sent.status, 202, sent.text);
    }
  }
  for (const version of [1, 2, 2]) {
    await (await ask(`@preset/thin@${version}`)).text();
  }
  await (await ask("@preset/quiet")).text();
  await (await ask("acme/small")).text();
  // The server stores usage every ten seconds.
  await eventually(async () => {
    const { series } = await manage("GET", "/workspaces/default/usage?by=preset");
    assert.equal(series.reduce((sum, { total }) => sum + total.requests, 0), 2 * each + 5);
  });
});

// cells returns the texts of a row's cells by their column.
const cells = (row) => row.evaluate((element) => Object.fromEntries([...element.cells].map((cell) => [cell.dataset.column, cell.textContent.trim().replaceAll(/\s+/g, " ")])));
const rowOf = (page, table, name) => page.getByRole("table", { name: table, exact: true }).getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });

scenario("versions stand side by side", { key: managementKey }, async ({ page }) => {
  await go(page, at("campaign", "usage"));
  await shows(page.getByRole("main"), `${2 * each} requests`);
  await shows(page.getByRole("main"), "18.8 % errors");
  await shows(page.getByRole("main"), /15 of 80/);
  const first = await cells(rowOf(page, "Totals", "v1"));
  assert.equal(first.Requests, `${each}`);
  assert.equal(first.Errors, "0 0.0 %");
  assert.equal(first["Input tokens"], "4,000 40 % from a cache");
  assert.equal(first["Output tokens"], "800");
  assert.equal(first.Cost, "$0.08");
  assert.equal(first["Cost each"], "$0.002");
  assert.match(first.Duration, /^p50 [\d.]+ m?s p95 [\d.]+ m?s$/);
  assert.match(first["First content"], /^p50 [\d.]+ m?s/);
  assert.equal(first.solved, "0.875 40 scores");
  const second = await cells(rowOf(page, "Totals", "v2"));
  assert.equal(second.Errors, "15 37.5 %");
  assert.equal(second.Cost, "$0.15 estimated"); // 25 answers of 100 and 50 tokens, at 10 and 100 a million
  assert.equal(second["Output tokens"], "1,250 60 % reasoning");
  assert.equal(second["First content"], "–");
  await page.getByRole("table", { name: "Totals", exact: true }).getByRole("link", { name: "v2" }).click();
  await page.getByRole("heading", { name: /^v2/ }).waitFor();
});

scenario("a split is judged in words", { key: managementKey }, async ({ page }) => {
  await changedAt(page, hours(-2));
  await go(page, at("campaign", "usage"));
  const row = (name) => rowOf(page, "v2 against v1", name);
  await shows(page.getByRole("main"), "60 %");
  await shows(page.getByRole("main"), /Requests by this label since .* UTC count, the first full hour after the split was last changed/);
  const errors = await cells(row("Errors"));
  assert.equal(errors.v1, "0.0 % 0 of 40");
  assert.equal(errors.v2, "37.5 % 15 of 40");
  assert.equal(errors.Difference, "+37.5 points");
  // By Newcombe's method 10: Wilson's bounds are 0 and 8.76 % of v1, and 24.22 and 52.97 % of v2.
  assert.equal(errors["95 % interval"], "+21.6 to +53.0");
  assert.equal(errors["In words"], "v2 fails more often than v1.");
  const solved = await cells(row(/^Feedback solved/));
  assert.equal(solved.Difference, "−7.5 points");
  assert.equal(solved["In words"], "No difference can be told yet.");
  const cost = await cells(row("Cost of a request"));
  assert.equal(cost["In words"], "", "without an interval there is no verdict");
  assert.match(cost.Difference, /^\+\d/);

  // The verdict stands first, with its interval and what follows from it.
  const verdict = page.locator(".verdict");
  await shows(verdict, "v2 fails more often than v1. +37.5 points, +21.6 to +53.0");
  assert.ok(await verdict.getByRole("button", { name: "Put v2 live" }).isDisabled(), "it is live");

  // Requests that named a version are not the split's.
  await go(page, at("thin", "usage"));
  const thin = await cells(row("Errors"));
  assert.equal(thin["In words"], "Too few to tell: a version has 0 requests. Each needs 30.");
  assert.deepEqual([thin.Difference, thin["95 % interval"]], ["–", "–"]);
});

scenario("a split that was just changed has provisional figures", { key: managementKey }, async ({ page }) => {
  await changedAt(page, hours(1));
  await go(page, at("campaign", "usage"));
  await shows(page.getByRole("main"), "Provisional");
  await shows(page.getByRole("main"), /also those before the split was changed at .* UTC\./);
  await page.getByRole("table", { name: "v2 against v1" }).waitFor();
});

scenario("charts are read by pointer and by keys", { key: managementKey }, async ({ page }) => {
  await go(page, at("campaign", "usage"));
  const chart = page.getByRole("img", { name: /^Errors per hour/ });
  await eventually(async () => assert.match(await chart.getAttribute("aria-label"), /v1: 0, v2: 15\.$/));
  await chart.focus();
  await page.keyboard.press("ArrowLeft"); // the last hour
  const spoken = page.locator(".usage [aria-live]");
  await eventually(async () => assert.match(await spoken.textContent(), /^\d+ \w+ \d\d:00: v1 \d+, v2 \d+(, canary split)?/));
  await page.keyboard.press("Home");
  await eventually(async () => assert.match(await spoken.textContent(), /: v1 0, v2 0$/));
  await page.keyboard.press("Escape");
  await eventually(async () => assert.equal(await spoken.textContent(), ""));
  await chart.hover();
  await eventually(async () => assert.notEqual(await spoken.textContent(), ""));
});

scenario("four charts come first, with what changed, and the others behind More", { key: managementKey }, async ({ page }) => {
  await go(page, at("campaign", "usage"));
  const charts = page.getByRole("img", { name: / per hour, / });
  await eventually(async () => assert.equal(await charts.count(), 4));
  await eventually(async () => assert.ok(await page.locator(".event").count() > 0, "the label was split in this time"));
  await eventually(async () => assert.match(await page.locator(".event-name").first().textContent(), /^canary split \+\d$/));
  await shows(page.getByRole("region", { name: "In short" }), "nothing before");
  await page.getByText("More", { exact: true }).click();
  await eventually(async () => assert.equal(await charts.count(), 10));
  await page.getByRole("combobox", { name: "Last" }).selectOption("custom");
  await page.getByLabel("First day").fill("2020-02-01");
  await page.getByLabel("Last day").fill("2020-02-03");
  await shows(page.getByRole("main"), "No request was measured in this time");
  assert.match(page.url(), /range=custom&from=2020-02-01&to=2020-02-03/);
});

scenario("other ranges, other series, and CSV", { key: managementKey }, async ({ page }) => {
  await go(page, at("campaign", "usage"));
  await page.getByRole("combobox", { name: "By" }).selectOption("model");
  await rowOf(page, "Totals", "acme/large").waitFor();
  await page.getByRole("combobox", { name: "By" }).selectOption("status");
  await rowOf(page, "Totals", "5xx").waitFor();
  await page.getByRole("combobox", { name: "Last" }).selectOption("30d");
  await page.getByRole("img", { name: /^Requests per day/ }).waitFor();
  assert.match(page.url(), /\?range=30d&by=status$/);
  await page.reload();
  await page.getByRole("img", { name: /^Requests per day/ }).waitFor();
  await rowOf(page, "Totals", "5xx").waitFor();
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download CSV" }).click();
  const download = await waiting;
  assert.equal(download.suggestedFilename(), "usage-campaign-by-status.csv");
  const lines = (await readFile(await download.path(), "utf8")).trim().split(/\r?\n/);
  assert.match(lines[0], /^status,other,time,requests,errors,/);
  await status(page, "downloaded");
});

scenario("costs in a currency, at a rate that stays in the tab", { key: managementKey }, async ({ page }) => {
  await go(page, at("campaign", "usage"));
  await page.getByRole("button", { name: "Costs in USD" }).click();
  const dialog = page.getByRole("dialog", { name: "Currency" });
  await dialog.getByRole("textbox", { name: "Currency" }).fill("eur");
  await dialog.getByRole("textbox", { name: "A US dollar is" }).fill("0");
  await dialog.getByRole("button", { name: "Save" }).click();
  await shows(dialog, "its rate is a number above 0");
  await dialog.getByRole("textbox", { name: "A US dollar is" }).fill("0.5");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Costs in EUR" }).waitFor();
  await eventually(async () => assert.equal((await cells(rowOf(page, "Totals", "v1"))).Cost, "€0.04"));
  await shows(page.getByRole("main"), "Costs are at your rate: a US dollar is 0.5 EUR.");
  await page.reload();
  await eventually(async () => assert.equal((await cells(rowOf(page, "Totals", "v1"))).Cost, "€0.04"));
  await go(page, "/w/default/budgets");
  await shows(page.getByRole("main"), "no budget"); // limits are in US dollars
});

scenario("the usage of a workspace", { key: managementKey }, async ({ page }) => {
  await go(page, "/w/default");
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Usage", exact: true }).click();
  await page.getByRole("heading", { name: "Usage of default" }).waitFor();
  const quiet = rowOf(page, "Totals", "quiet");
  assert.equal((await cells(quiet)).Unknown, "1 100.0 %");
  await shows(page.getByRole("main"), "The tokens of 1 request are unknown, and count nowhere.");
  await shows(page.getByRole("main"), "The cost of 1 request is unknown, and counts nowhere.");
  assert.equal((await cells(quiet)).Cost, "–");
  assert.equal((await cells(rowOf(page, "Totals", "no preset"))).Requests, "1");
  await page.getByRole("combobox", { name: "By" }).selectOption("version");
  await rowOf(page, "Totals", "campaign v2").waitFor();
  await page.getByRole("combobox", { name: "By" }).selectOption("key");
  await eventually(async () => assert.equal(await page.getByRole("table", { name: "Totals", exact: true }).getByRole("rowheader").count(), 1));
  await page.getByRole("combobox", { name: "By" }).selectOption("preset");
  await page.getByRole("table", { name: "Totals", exact: true }).getByRole("link", { name: "campaign" }).click();
  await shows(page.getByRole("main"), `${2 * each} requests`);
});

scenario("an inference key sees the usage of a preset", { key: inferenceKey }, async ({ page }) => {
  await go(page, at("campaign", "usage"));
  await rowOf(page, "Totals", "v2").waitFor();
  await go(page, "/w/default/usage");
  await shows(page.getByRole("main"), /needs a management key/);
});

scenario("without requests the page says how to measure", { key: managementKey }, async ({ page }) => {
  await go(page, at("idle", "usage"));
  await shows(page.getByRole("main"), "No request was measured in the last 24 hours");
  await shows(page.getByRole("main"), /usage/);
  await accessible(page, "idle");
});

for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 360]]) {
  scenario(`usage is for everyone: ${scheme}, ${width} pixels`, { key: managementKey, scheme, width }, async ({ page }) => {
    await changedAt(page, hours(-2));
    for (const [name, address] of [["usage", at("campaign", "usage")], ["usage-workspace", "/w/default/usage"]]) {
      await go(page, address);
      const chart = page.getByRole("img", { name: /^Requests per/ });
      await chart.waitFor();
      await page.getByText("More", { exact: true }).click();
      await page.getByRole("img", { name: /^Duration, p95/ }).waitFor();
      await accessible(page, name);
      await fits(page, name);
      await picture(page, `${name}-${width < 500 ? "narrow" : scheme}`, { fullPage: true });
    }
  });
}

// The whole task of a new user, who has the address and the key alone. A person has four minutes for it.
scenario("a new user changes a prompt, tries it, puts it live, sees the verdict of the split, and rolls back", { key: managementKey }, async ({ page }) => {
  for (const name of ["refund", "delivery", "thanks"]) {
    await manage("POST", "/presets/campaign/inputs", { name, dialect: "chat", messages: [{ role: "user", content: name }] });
  }
  await go(page, "");
  await page.getByRole("link", { name: /campaign/ }).first().click();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("textbox", { name: "Prompt" }).fill("Be brief and kind.");
  await giveKey(page);
  await page.getByRole("button", { name: "Grid" }).click();
  const grid = page.getByRole("dialog", { name: "Grid" });
  await shows(grid, "unsaved");
  await grid.getByRole("button", { name: "Run all" }).click();
  await eventually(async () => assert.equal(await grid.getByText(/^complete/).count(), 6, "three inputs, unsaved and live"));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+s");
  await status(page, "v3 is saved as a draft.");
  await page.getByRole("button", { name: "Put live…" }).click();
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, "v3 is live.");
  await changedAt(page, hours(-2));
  await page.getByRole("navigation", { name: "Preset" }).getByRole("link", { name: "Usage" }).click();
  await shows(page.locator(".verdict"), "v2 fails more often than v1.");
  await page.getByRole("navigation", { name: "Preset" }).getByRole("link", { name: "Versions" }).click();
  await page.getByRole("link", { name: /^v2/ }).click();
  await page.getByRole("button", { name: "Put live" }).click();
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, "v2 is live.");
  assert.equal(await designated("campaign"), 2);
});

// The intervals have published values: Newcombe, Statistics in Medicine 17 (1998), 857 and 873.
test("intervals", async () => {
  const source = await readFile(new URL("../../caddymodule/console/assets/figures.js", import.meta.url), "utf8");
  const { areBoolean, ofMeans, ofRates, verdict, wilson } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  const near = ({ low, high }, [wantLow, wantHigh]) => {
    assert.ok(Math.abs(low - wantLow) < 5e-5 && Math.abs(high - wantHigh) < 5e-5, `got ${low} to ${high}, want ${wantLow} to ${wantHigh}`);
  };
  const rate = (r, n) => ({ rate: r / n, n });
  for (const [r, n, low, high] of [[81, 263, 0.2553, 0.3662], [15, 148, 0.0624, 0.1605], [0, 20, 0, 0.1611], [1, 29, 0.0061, 0.1718]]) {
    near(wilson(rate(r, n)), [low, high]);
  }
  for (const [a, b, interval] of [[[48, 80], [56, 70], [0.0524, 0.3339]], [[3, 10], [9, 10], [0.1705, 0.8090]], [[2, 7], [6, 7], [0.0582, 0.8062]],
    [[0, 29], [5, 56], [-0.0381, 0.1926]], [[0, 20], [0, 10], [-0.1611, 0.2775]], [[0, 10], [10, 10], [0.6075, 1]]]) {
    near(ofRates(rate(...a), rate(...b)), interval);
  }
  const { low, high } = ofMeans({ mean: 0, count: 100 }, { mean: 0, count: 100 });
  near({ low, high }, [-0.2720, 0.2720]); // Wilson's bounds of a half are 0.4038 and 0.5962
  assert.ok(areBoolean([{ count: 3, mean: 0.666667 }, { count: 40, mean: 0.875 }]));
  assert.ok(!areBoolean([{ count: 3, mean: 0.5 }]) && !areBoolean([{ count: 2, mean: -1 }]));
  assert.deepEqual([verdict({ low: 0.1, high: 0.2 }, 29), verdict({ low: 0.1, high: 0.2 }, 30), verdict({ low: -0.2, high: -0.1 }, 30), verdict({ low: -0.1, high: 0.1 }, 30)], ["thin", "more", "less", "open"]);
});

// A number that is not zero is never shown as zero, and zero has no sign.
test("figures", async () => {
  const source = await readFile(new URL("../../caddymodule/console/assets/figures.js", import.meta.url), "utf8");
  const { meanText, signedText } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  for (const [n, digits, text] of [[0, 1, "0.0"], [-0, 1, "0.0"], [1e-14, 1, "0.0"], [0.04, 1, "+0.04"], [-0.04, 1, "−0.04"], [-0.0004, 3, "−0.0004"], [37.46, 1, "+37.5"], [-7.5, 1, "−7.5"], [-0.00000001, 1, "−0.00000001"]]) {
    assert.equal(signedText(n, digits), text);
  }
  assert.deepEqual([-0.875, 0.875, -0.0001, 1].map(meanText), ["−0.875", "0.875", "0", "1"]);
});
