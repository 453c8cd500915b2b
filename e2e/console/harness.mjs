// The browser tests of the console share this module. It has a browser, and the API as curl
// would use it. A guard fails a test if the page does something that it must never do.

import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { after, test } from "node:test";
import { chromium } from "playwright-core";
import { send as sendTo } from "../harness.mjs";

export const site = process.env.CONSOLE_SITE;
export const console_ = `${site}/console`;
export const managementKey = process.env.PRESETS_MANAGEMENT_KEY;
export const inferenceKey = process.env.PRESETS_INFERENCE_KEY;
export const screenshots = process.env.PRESETS_SCREENSHOTS; // a folder, or nothing

// everyCase says that exhaustive tests try all of their cases.
export const everyCase = process.env.PRESETS_TIER === "3";

// patience is the longest that a step may take. It only ends what hangs.
export const patience = Number(process.env.CONSOLE_PATIENCE ?? 120_000);

let launched;
// --disable-gpu: a server has none, and would draw for it.
const launch = () => (launched ??= chromium.launch({ executablePath: process.env.CONSOLE_CHROMIUM, args: ["--lang=en-GB", "--disable-gpu"] }));
after(async () => (await launched)?.close());

// usual are how a page is opened, if a test does not say it.
const usual = { at: "", scheme: "light", width: 1280, height: 900, reducedMotion: "no-preference" };

// browse opens the console in a browser context of its own, which is what a new user has.
export async function browse({ key, expected, ...options } = {}) {
  const { at, scheme, width, height, reducedMotion } = { ...usual, ...options };
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion, locale: "en-GB", timezoneId: "UTC" });
  context.setDefaultTimeout(patience);
  // The list of models is the gateway's, and the tests count what that gets.
  await context.route("**/v1/models", (route) => route.fulfill({ json: { object: "list", data: [] } }));
  const page = await context.newPage();
  const guard = await watch(page, expected);
  await page.goto(console_ + at);
  if (key) {
    await unlock(page, key);
  }
  return { page, context, guard };
}

// unlock gives the page a key, and waits until it takes it.
export async function unlock(page, key) {
  await page.getByRole("textbox", { name: "API key" }).fill(key);
  await page.getByRole("button", { name: "Unlock", exact: true }).click();
  await page.getByRole("button", { name: "Lock", exact: true }).waitFor();
}

// kept is the page of the last test that passed. A new page takes longer than most tests do.
let kept;

// begin opens the console for a test, in the page that was kept or in a new one.
async function begin(options, fresh) {
  const opened = kept;
  if (fresh || !opened) {
    return browse(options);
  }
  const { at, scheme, width, height, reducedMotion } = { ...usual, ...options };
  kept = undefined; // until this test has passed
  const { page } = opened;
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion });
  await page.goto(console_ + at);
  return opened;
}

// keep leaves the console, and keeps the page for the next test. Only the key is stored there.
async function keep(opened) {
  const { page, guard } = opened;
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.evaluate(() => sessionStorage.clear());
  await page.goto("about:blank");
  await page.mouse.move(0, 0);
  guard.forget();
  kept = opened;
}

// scenario is a test with a page. It fails if the page did what it must never do. key is
// the one to unlock with. The body gets the page and may open more. With fresh the page and its
// context are new, and no later test gets them. A test that listens to its page, or changes its
// clock or its context, needs that.
export function scenario(name, { key, expected, fresh = expected !== undefined, timeout = 10 * patience, ...options }, body) {
  test(name, { timeout }, async (t) => {
    const opened = await begin({ ...options, expected }, fresh);
    let passed = false;
    try {
      await explained(name, opened, async () => {
        if (key) {
          await unlock(opened.page, key);
        }
        await body({ t, ...opened });
        opened.guard.check();
      });
      passed = true;
    } finally {
      if (passed && !fresh) {
        await keep(opened);
      } else {
        await opened.context.close();
      }
    }
  });
}

// explained runs the body of a test. The error of a failure says what the page showed and did.
export async function explained(name, { page, guard }, body) {
  try {
    await body();
  } catch (error) {
    await picture(page, `failed-${name.replaceAll(/[^a-z0-9]+/gi, "-")}`).catch(() => {});
    const found = guard.found();
    if (found.length > 0) {
      error.message += `\nthe page also did: ${found.join("\n")}`;
    }
    error.message += `\nthe page showed:\n${await shown(page)}`;
    throw error;
  }
}

// shown returns what a page shows, with the values of its fields. A failure on a busy machine
// may never come again. .ci/failures prints few lines, and only the beginning of each.
async function shown(page) {
  const text = await page.locator("body").ariaSnapshot({ timeout: patience }).catch((error) => `nothing: ${error.message}`);
  return text.replaceAll(/\s+/g, " ").match(/.{1,250}/g)?.slice(0, 10).join("\n");
}

// watch records violations of the policy, messages in the browser's console, and uncaught
// errors. It also records requests to other origins, and requests without the page's rules.
async function watch(page, expected = () => false) {
  const found = [];
  const requests = [];
  await page.exposeFunction("reportViolation", (text) => expected(text) || found.push(`violation of the policy: ${text}`));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      globalThis.reportViolation(`${event.violatedDirective}: ${event.blockedURI} ${event.sample} at ${event.sourceFile}:${event.lineNumber}`);
    });
  });
  page.on("console", (message) => {
    const text = message.text();
    // The browser logs each answer that is an error. The tests cause such answers of the
    // API on purpose.
    const isAnswer = text.startsWith("Failed to load resource") && message.location().url.startsWith(`${site}/v1/`);
    if (["error", "warning", "assert"].includes(message.type()) && !isAnswer && !expected(text)) {
      found.push(`console ${message.type()}: ${text} (${message.location().url})`);
    }
  });
  page.on("pageerror", (error) => found.push(`uncaught: ${error.stack}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    requests.push(request);
    if (url.protocol === "data:") {
      return; // the icon, and nobody is asked
    }
    if (url.origin !== site) {
      found.push(`request elsewhere: ${request.method()} ${url}`);
    }
    if (request.headers().cookie) {
      found.push(`request with a cookie: ${url}`);
    }
    if (/presets-e2e|e2e-(management|inference)-key/.test(url.href)) {
      found.push(`a key in an address: ${url}`);
    }
  });
  return {
    requests,
    found: () => found,
    forget: () => {
      found.length = 0;
      requests.length = 0;
    },
    check: () => assert.deepEqual(found, []),
  };
}

// status waits for a message in the status region.
export async function status(page, text) {
  await page.getByRole("status").filter({ hasText: text }).first().waitFor();
}

// shows waits for visible text.
export async function shows(place, text) {
  await place.getByText(text).filter({ visible: true }).first().waitFor();
}

// eventually waits until a check does not throw.
export async function eventually(check) {
  for (const end = Date.now() + patience; ;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// accessible fails if axe-core finds any violation, of any impact.
export async function accessible(page, where) {
  await page.evaluate(axe);
  // Colours are judged as they are in the end.
  await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => {}))));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const lines = violations.flatMap((violation) => violation.nodes.map((node) =>
    `${violation.id} (${violation.impact}): ${node.target.join(" ")}: ${node.failureSummary?.split("\n").slice(1).join("; ").trim()}`));
  assert.deepEqual(lines, [], where);
}

// fits fails if the page scrolls sideways, and names the widest elements.
export async function fits(page, where) {
  const wide = await page.evaluate(() => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room && document.body.scrollWidth <= room) {
      return [];
    }
    return [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > room + 0.5)
      .map((element) => `${element.tagName}.${element.className}: ${Math.round(element.getBoundingClientRect().right)} of ${room}`)
      .slice(-5);
  });
  assert.deepEqual(wide, [], where);
}

// picture writes a screenshot, if somebody wants them.
export async function picture(page, name, options = {}) {
  if (screenshots) {
    await mkdir(screenshots, { recursive: true });
    await page.screenshot({ path: path.join(screenshots, `${name}.png`), animations: "disabled", ...options });
  }
}

// looks are the colour schemes and widths of each view. axe-core takes most of the time. It
// judges each scheme once, and with everyCase every look.
const looks = [
  { scheme: "light", width: 1280, suffix: "", judged: true },
  { scheme: "light", width: 800, suffix: "-middle", judged: everyCase },
  { scheme: "dark", width: 360, suffix: "-narrow", judged: true },
  ...(everyCase || screenshots ? [
    { scheme: "light", width: 360, suffix: "-narrow", judged: everyCase },
    { scheme: "dark", width: 800, suffix: "-middle", judged: everyCase },
    { scheme: "dark", width: 1280, suffix: "", judged: everyCase },
  ] : []),
];

// look checks that a view fits and has no violation, and makes its pictures.
export async function look(page, name) {
  for (const { scheme, width, suffix, judged } of looks) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: width < 500 ? 740 : usual.height });
    await page.evaluate(() => scrollTo(0, 0));
    await fits(page, `${name}, ${width} px`);
    await picture(page, `${name}-${scheme}${suffix}`);
    if (judged) {
      await accessible(page, `${name}, ${scheme}, ${width} px`);
    }
  }
}

// send sends a request to the API as a manager, or with another key.
export async function send(method, target, body, { key = managementKey, headers } = {}) {
  const { json, ...answer } = await sendTo(method, `${site}/v1${target}`, { key, headers, body });
  return { ...answer, body: json };
}

// manage is send for what must succeed.
export async function manage(method, target, body) {
  const answer = await send(method, target, body);
  assert.ok(answer.status < 300, `${method} ${target}: ${answer.status} ${answer.text}`);
  return answer.body?.data;
}

// administer sends a request to the admin endpoint, which refuses the headers of fetch.
export async function administer(method, target, body) {
  const text = await new Promise((resolve, reject) => {
    const request = http.request(`${process.env.CONSOLE_ADMIN}/presets/${target}`, { method, headers: { "Content-Type": "application/json" } }, async (response) => {
      const answer = (await response.toArray()).join("");
      return response.statusCode < 300 ? resolve(answer) : reject(new Error(`${method} ${target}: ${response.statusCode} ${answer}`));
    });
    request.on("error", reject);
    request.end(body && JSON.stringify(body));
  });
  return JSON.parse(text);
}

// prompts are those of three versions of a preset.
export const prompts = [
  "Write emails.\nBe friendly.\nSign as the team.",
  "Write short emails.\nBe friendly.\nSign as the team.",
  "Write short, warm emails.\nBe friendly.\nNever promise a date.\nSign as the team.",
];

// makePreset makes a preset with three versions. The third one serves.
export async function makePreset(slug, { workspace = "default", dialect = "chat" } = {}) {
  for (const [i, prompt] of prompts.entries()) {
    const settings = { model: i < 2 ? "acme/small" : "acme/large", temperature: [0.7, 0.7, 0.4][i] };
    const [route, body] = {
      chat: ["chat/completions", { ...settings, messages: [{ role: "system", content: prompt }, { role: "user", content: "Hi" }] }],
      responses: ["responses", { ...settings, instructions: prompt, input: "Hi" }],
      messages: ["messages", { ...settings, max_tokens: 512, system: prompt, messages: [{ role: "user", content: "Hi" }] }],
    }[dialect];
    await manage("POST", `/presets/${slug}/${route}?workspace_id=${workspace}&message=${encodeURIComponent(`Step ${i + 1} of ${slug}`)}`, body);
  }
}

export const designated = async (slug) => (await manage("GET", `/presets/${slug}`)).designated_version.version;

// at is the address of a view of a preset in the default workspace.
export const at = (slug, view = "") => `/w/default/p/${slug}${view && `/${view}`}`;

// openMenu opens the menu of a preset, unless it is open.
export async function openMenu(page) {
  const summary = page.getByText("Actions", { exact: true });
  await summary.waitFor();
  if (!await summary.evaluate((element) => element.parentElement.open)) {
    await summary.click();
  }
}

// act chooses from the menu of a preset.
export async function act(page, name) {
  await openMenu(page);
  await page.getByRole("button", { name, exact: true }).click();
}

// asJSON shows the settings of the workbench as text.
export async function asJSON(page) {
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  return page.getByRole("textbox", { name: "Settings" });
}

// giveKey enters an inference key to try with. Its field is folded once there is a key.
export async function giveKey(page, key = inferenceKey) {
  const field = page.getByRole("textbox", { name: "Inference key" });
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  if (!await field.isVisible()) {
    await page.getByText("Key and parameters").click();
  }
  await field.fill(key);
}

// go opens another view, as a link that was copied does.
export async function go(page, address) {
  await page.goto(console_ + address);
}
