// How the page is served, as a browser sees it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { console_, eventually, managementKey, scenario, send, site } from "./harness.mjs";

scenario("the page loads without a warning, and asks nobody else", { fresh: true }, async ({ page, guard }) => {
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  const paths = guard.requests.map((request) => new URL(request.url())).filter((url) => url.protocol !== "data:").map((url) => url.pathname);
  assert.ok(paths.length >= 3, `${paths}`);
  for (const path of paths) {
    assert.match(path, /^\/console(\/assets\/[0-9a-f]+\/.+)?$/, "before it is unlocked, the page asks for itself alone");
  }
});

scenario("the browser denies the page the features that the header names", {}, async ({ page }) => {
  const allowed = await page.evaluate(() => document.featurePolicy.allowedFeatures());
  const denied = (await fetch(console_)).headers.get("Permissions-Policy");
  assert.deepEqual(allowed.filter((feature) => denied.split(", ").includes(`${feature}=()`)), []);
});

scenario("the policy stops what a flaw of the page could do", { expected: () => true }, async ({ page }) => {
  const done = await page.evaluate(async () => {
    const tries = {
      html: () => (document.body.innerHTML = "<b>x</b>"),
      fragment: () => document.createRange().createContextualFragment("<b>x</b>"),
      handler: () => document.body.setAttribute("onclick", "globalThis.ran = true"),
      policy: () => trustedTypes.createPolicy("x", { createHTML: (text) => text }),
      default: () => trustedTypes.createPolicy("default", {}),
      worker: () => new Worker("x.js"),
      script: () => (document.createElement("script").textContent = "globalThis.ran = true"),
      timer: () => setTimeout("globalThis.ran = true"), // eslint-disable-line no-implied-eval
    };
    const passed = [];
    for (const [name, run] of Object.entries(tries)) {
      try {
        run();
        passed.push(name);
      } catch { /* as it should be */ }
    }
    const style = document.createElement("style");
    style.textContent = "body { outline: 7px solid red }";
    document.head.append(style);
    const frame = document.createElement("iframe");
    frame.src = location.href;
    const framed = new Promise((resolve) => {
      frame.onload = () => {
        try {
          resolve(frame.contentDocument?.title ?? "");
        } catch {
          resolve("");
        }
      };
    });
    document.body.append(frame);
    const elsewhere = await fetch("http://127.0.0.2:1/").then(() => true, () => false);
    return { passed, outline: getComputedStyle(document.body).outlineWidth, framed: await framed, elsewhere, ran: globalThis.ran };
  });
  assert.deepEqual(done.passed, []);
  assert.notEqual(done.outline, "7px");
  assert.equal(done.framed, "");
  assert.equal(done.elsewhere, false);
  assert.equal(done.ran, undefined);
});

scenario("nothing of the page is in a frame of another site", { expected: () => true }, async ({ page, context, guard }) => {
  const other = await context.newPage();
  await other.route("http://other.example/", (route) => route.fulfill({ contentType: "text/html", body: `<iframe src="${console_}"></iframe>` }));
  await other.goto("http://other.example/");
  const frame = other.frames().find((one) => one !== other.mainFrame());
  await eventually(async () => assert.equal(await frame.locator("body").getByText("API key").count(), 0));
  assert.deepEqual(guard.found(), []);
  await page.close();
});

scenario("assets come from the cache the second time, and the shell does not", { fresh: true }, async ({ page, context }) => {
  await context.unrouteAll(); // a route keeps the browser from its cache
  await page.goto(`${console_}/workspaces`);
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  await page.waitForLoadState("networkidle");
  const served = new Map();
  page.on("response", async (response) => {
    served.set(new URL(response.url()).pathname, { status: response.status(), fromCache: response.request().timing().responseStart < 0 || (await response.request().sizes().catch(() => ({ responseBodySize: 0 }))).responseBodySize === 0 });
  });
  await page.goto(`${console_}/workspaces`);
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  assert.equal(served.get("/console/workspaces")?.status, 200);
  const entries = await page.evaluate(() => performance.getEntriesByType("resource").map((entry) => [entry.name, entry.transferSize]));
  const assets = entries.filter(([name]) => name.includes("/assets/"));
  assert.ok(assets.length > 0);
  assert.deepEqual(assets.filter(([, size]) => size > 0), [], "an asset was sent again");
});

test("a first visit is small", async () => {
  const shell = await (await fetch(console_)).text();
  assert.ok(shell.length < 6144);
  assert.equal((await send("GET", "/presets", undefined, { key: managementKey })).status, 200);
  assert.equal((await fetch(`${site}/console/assets/0/main.js`)).status, 404);
});
