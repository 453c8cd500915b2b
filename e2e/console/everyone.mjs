// For everyone: the keyboard, screen readers, small screens, both colour schemes. It also
// makes the pictures.

import assert from "node:assert/strict";
import { before } from "node:test";
import { accessible, act, asJSON, at, designated, eventually, explained, fits, giveKey, go, inferenceKey, look, makePreset, manage, managementKey, patience, picture, scenario, shows, status } from "./harness.mjs";

before(async () => {
  const words = { "email-copywriter": "Short, friendly emails to customers", "support-triage": "Sorts tickets by urgency", "meeting-summary": "Notes of a call", "sql-assistant": null };
  for (const [slug, description] of Object.entries(words)) {
    await makePreset(slug);
    await manage("PATCH", `/presets/${slug}`, { name: slug === "support-triage" ? "Support triage" : slug, description });
  }
  const history = ["Shorter greetings", "No promises about dates", "A cheaper model for the canary"];
  for (const [i, message] of history.entries()) {
    const body = {
      model: i === 2 ? "acme/mini" : "acme/large", temperature: [0.7, 0.4, 0.4][i], max_tokens: 400 + 100 * i,
      tools: [{ type: "function", function: { name: "find_customer", parameters: { type: "object", properties: { name: { type: "string" } } } } }],
      messages: [{ role: "system", content: `You write emails for Acme.\n\n${["Greet by first name.", "Greet by first name, in one line.", "Greet by first name, in one line."][i]}\nBe friendly and brief.\n${i > 0 ? "Never promise a date.\n" : ""}Sign as “The Acme team”.` }],
    };
    await manage("POST", `/presets/email-copywriter/chat/completions?message=${encodeURIComponent(message)}${i === 2 ? "&designate=false" : ""}`, body);
  }
  await manage("PUT", "/presets/email-copywriter/labels/staging", { version: 6 });
  await manage("PUT", "/presets/email-copywriter/labels/canary", { split: [{ version: 5, weight: 90 }, { version: 6, weight: 10 }] });
  for (const [i, question] of ["Sights in {{city}}, please.", "Three sights in {{city}}, for {{who}}."].entries()) {
    await manage("POST", "/presets/tour-guide/responses?template=true", {
      model: "acme/large", temperature: 0.7, instructions: "You know {{city}} well.\nAnswer in a friendly tone.",
      input: [{ role: "user", content: question }, ...(i === 0 ? [] : [{ role: "user", content: [{ type: "input_text", text: "{{photo}}" }] }])],
    });
  }
  await manage("PUT", "/presets/tour-guide/labels/production", { version: 2, protected: true });
  await manage("PATCH", "/presets/tour-guide", { protected: true, policy: { lock: ["tools"], bounds: { temperature: { max: 1 } }, models: ["acme/*"] } });
  await manage("PATCH", "/presets/sql-assistant", { status: "disabled" });
  await manage("POST", "/workspaces", { name: "Team B", slug: "team-b", default_text_model: "acme/small" });
});

const slug = "email-copywriter";
const button = (page, name) => page.getByRole("button", { name, exact: true });

// views are all views and dialogs: a name, its address, and what makes it ready.
const views = [
  ["presets", "", (page) => shows(page.getByRole("table", { name: "Presets" }), "v5")],
  ["empty", "/w/team-b", (page) => shows(page, /curl/)],
  ["preset", at(slug), (page) => shows(page.getByRole("main"), "No promises about dates")],
  ["compare", at(slug, "compare/4..5"), (page) => shows(page.getByRole("table", { name: /prompt/i }), "Never promise a date.")],
  ["put-live", at(slug, "versions/6"), async (page) => {
    await button(page, "Put live").first().click();
    await shows(page.getByRole("dialog", { name: "Put live" }), "acme/mini");
  }],
  ["archive", at(slug), async (page) => {
    await act(page, "Archive");
    await page.getByRole("dialog", { name: "Archive" }).waitFor();
  }],
  ["describe", at(slug), async (page) => {
    await act(page, "Rename and describe");
    await page.getByRole("dialog").waitFor();
  }],
  ["new", at(slug, "new?from=6"), (page) => eventually(async () => assert.match(await page.getByRole("textbox", { name: "Prompt" }).inputValue(), /Acme/))],
  ["new-wrong", at(slug, "new?from=6"), async (page) => {
    await eventually(async () => assert.match(await page.getByRole("textbox", { name: "Prompt" }).inputValue(), /Acme/));
    const settings = await asJSON(page);
    await settings.fill('{\n  "model": "acme/mini",\n  "temperature": 0.4.4\n}');
    await button(page, "Save draft").click();
    await shows(page.getByRole("main"), /line 3/);
  }],
  ["save", at(slug, "new?from=6"), async (page) => {
    const prompt = page.getByRole("textbox", { name: "Prompt" });
    await eventually(async () => assert.match(await prompt.inputValue(), /Acme/));
    await prompt.fill(`${await prompt.inputValue()}\nAlways thank.`);
    await button(page, "Put live…").click();
    await shows(page.getByRole("dialog", { name: "Put live" }), "acme/mini");
  }],
  ["labels", at(slug, "labels"), (page) => shows(page.getByRole("table", { name: "Labels" }), "staging")],
  ["try", at(slug, "try"), async (page) => {
    await page.getByRole("textbox", { name: "Text 1" }).fill("A customer asks where the parcel is.");
    await giveKey(page);
    await button(page, "Show what goes up").click();
    await shows(page.getByRole("table", { name: /fields/i }), "acme/large");
  }],
  ["template", at("tour-guide"), (page) => shows(page.getByRole("main"), "Variables: city, who, photo")],
  ["template-compare", at("tour-guide", "compare/1..2"), (page) => shows(page.getByRole("table", { name: /template/ }), /who/)],
  ["template-new", at("tour-guide", "new"), (page) => shows(page.getByRole("status"), "Variables: city, who, photo")],
  ["template-try", at("tour-guide", "try"), async (page) => {
    await giveKey(page);
    await page.getByRole("textbox", { name: /parameters/i }).fill('{"temperature": 1.7}');
    for (const [name, value] of Object.entries({ city: "Rome", who: "a family", photo: "https://pictures.test/a.png" })) {
      await page.getByRole("textbox", { name, exact: true }).fill(value);
    }
    await page.getByRole("combobox", { name: "Kind of photo" }).selectOption("image address");
    await button(page, "Show what goes up").click();
    await shows(page.getByRole("table", { name: /fields/i }), "policy");
  }],
  ["template-missing", at("tour-guide", "try"), async (page) => {
    await page.getByRole("textbox", { name: "who", exact: true }).fill(""); // the view before typed it
    await button(page, "Show what goes up").click();
    await shows(page.getByRole("group", { name: "Variables" }), /needs a value/);
  }],
  ["policy", at("tour-guide"), async (page) => {
    await act(page, "Policy");
    await page.getByRole("dialog", { name: "Policy" }).waitFor();
  }],
  ["use", at(slug, "use"), (page) => shows(page, /curl/)],
  ["history", at(slug, "history"), (page) => shows(page.getByRole("table").first(), "Shorter greetings")],
  ["workspaces", "/workspaces", (page) => shows(page.getByRole("table", { name: "Workspaces" }), "team-b")],
  ["new-workspace", "/workspaces", async (page) => {
    await button(page, "New workspace").click();
    await page.getByRole("dialog", { name: "New workspace" }).waitFor();
  }],
  ["workspace-history", "/w/default/history", (page) => shows(page.getByRole("table").first(), slug)],
  ["not-found", at("nowhere"), (page) => shows(page.getByRole("main"), /Error/)],
];

const wide = { width: 1280, height: 900 };

scenario("unlock: no violation, and it fits", {}, async ({ page }) => {
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  await look(page, "unlock");
  await page.getByRole("textbox", { name: "API key" }).fill("a-key-that-nobody-knows");
  await button(page, "Unlock").click();
  await shows(page, /Error/);
  await look(page, "unlock-wrong");
});

// All views have one page, because a new one takes as long as a look at it.
scenario("no view has a violation, and each fits", { key: managementKey, fresh: true, timeout: views.length * 10 * patience }, async ({ t, page, guard }) => {
  for (const [name, address, ready] of views) {
    await t.test(name, { timeout: 10 * patience }, () => explained(name, { page, guard }, async () => {
      guard.forget();
      await page.setViewportSize(wide);
      await page.mouse.move(0, 0);
      await go(page, address);
      await ready(page);
      await look(page, name);
      guard.check();
    }));
  }
});

scenario("a read-only key: no violation", { key: inferenceKey, at: at(slug) }, async ({ page }) => {
  await shows(page.getByRole("list", { name: "Versions" }), "v6");
  await look(page, "read-only");
});

scenario("the keyboard alone does everything", {}, async ({ page }) => {
  const keys = page.keyboard;
  const focused = () => page.evaluate(() => {
    const element = document.activeElement;
    return (element?.getAttribute("aria-label") || element?.labels?.[0]?.textContent || element?.textContent || element?.tagName || "").trim();
  });
  // tab moves the focus until it is on something with a name, and checks that each stop
  // can be seen.
  const tab = async (name, key = "Tab") => {
    const stops = [];
    for (let i = 0; i < 80; i++) {
      await keys.press(key);
      const text = await focused();
      stops.push(text);
      const ring = await page.evaluate(() => {
        const element = document.activeElement;
        if (!element || element === document.body) {
          return true;
        }
        const style = getComputedStyle(element);
        return style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 1 || style.boxShadow !== "none";
      });
      assert.ok(ring, `the focus on ${text} cannot be seen`);
      if (name instanceof RegExp ? name.test(text) : text === name) {
        return;
      }
    }
    assert.fail(`no ${name} among ${stops.join(" | ")}`);
  };
  await page.getByRole("textbox", { name: "API key" }).waitFor();
  await eventually(async () => assert.equal(await focused(), "API key")); // at once
  await keys.type(managementKey);
  await keys.press("Enter");
  await page.getByRole("table", { name: "Presets" }).waitFor();

  // The first stop of the page leads past the bar.
  await page.evaluate(() => document.activeElement.blur());
  await page.evaluate(() => getSelection().removeAllRanges());
  await page.locator("body").focus();
  await keys.press("/");
  assert.equal(await focused(), "Search presets");
  await keys.type("email");
  await eventually(async () => assert.equal(await page.getByRole("table", { name: "Presets" }).getByRole("rowheader").count(), 1));
  await tab(slug);
  await keys.press("Enter");
  await page.getByRole("list", { name: "Versions" }).waitFor();
  await tab(/^v6/);
  await keys.press("Enter");
  await page.getByRole("heading", { name: /^v6/ }).waitFor();
  await tab("Put live");
  await keys.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await shows(dialog, "acme/mini");
  // The focus stays in the dialog.
  for (let i = 0; i < 12; i++) {
    await keys.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.querySelector("dialog").contains(document.activeElement)), await focused());
  }
  await keys.press("Escape");
  await eventually(async () => assert.equal(await focused(), "Put live"));
  await keys.press("Enter");
  await shows(dialog, "acme/mini");
  await tab("Put live");
  await keys.press("Enter");
  await status(page, /v6 is live/);
  assert.equal(await designated(slug), 6);
  await eventually(async () => assert.notEqual(await focused(), "BODY", "the focus is not lost after a dialog"));
  await tab("Undo");
  await keys.press("Enter");
  await status(page, /v5 is live/);

  // Shortcuts, and none while typing.
  await page.getByRole("main").focus();
  await keys.press("?");
  await page.getByRole("dialog").waitFor();
  await picture(page, "shortcuts-light");
  await accessible(page, "shortcuts");
  await keys.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await keys.press("n");
  const prompt = page.getByRole("textbox", { name: "Prompt" });
  await prompt.waitFor();
  await tab("Prompt");
  await keys.press("End");
  await keys.type("? / n c j k");
  await eventually(async () => assert.equal(await page.getByRole("dialog").count(), 0));
  await eventually(async () => assert.match(await prompt.inputValue(), /\? \/ n c j k/));
});

scenario("j, k and Enter walk lists, and c compares", { key: managementKey }, async ({ page }) => {
  await shows(page.getByRole("table", { name: "Presets" }), slug);
  await page.getByRole("main").focus();
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  const rows = await page.getByRole("table", { name: "Presets" }).locator("[data-row]").allTextContents();
  await page.keyboard.press("j");
  await eventually(async () => assert.equal(await focused(), rows[0].trim()));
  await page.keyboard.press("j");
  await eventually(async () => assert.equal(await focused(), rows[1].trim()));
  await page.keyboard.press("k");
  await eventually(async () => assert.equal(await focused(), rows[0].trim()));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1 }).waitFor();
  await go(page, at(slug));
  await page.getByRole("list", { name: "Versions" }).waitFor();
  await page.getByRole("main").focus();
  await page.keyboard.press("c");
  await page.getByRole("button", { name: "Swap" }).waitFor();
});

scenario("nothing moves for those who asked for less motion", { key: managementKey, reducedMotion: "reduce", at: at(slug) }, async ({ page }) => {
  await page.getByRole("list", { name: "Versions" }).waitFor();
  const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((element) => {
    const style = getComputedStyle(element);
    return [style.transitionDuration, style.animationDuration].some((text) => text.split(",").some((one) => Number.parseFloat(one) > 0.01)) || style.scrollBehavior === "smooth";
  }).map((element) => element.tagName));
  assert.deepEqual(moving, []);
});

scenario("text at twice its size still fits", { key: managementKey, width: 640, height: 900 }, async ({ page }) => {
  for (const [name, address] of views) {
    await go(page, address);
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    await page.evaluate(() => (document.documentElement.style.fontSize = "200%"));
    await fits(page, name);
  }
});
