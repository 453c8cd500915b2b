// The workbench: what stands on the left is tried unsaved, on inputs that are saved, and put live.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { at, designated, eventually, giveKey, go, inferenceKey, look, manage, managementKey, scenario, send, shows, status } from "./harness.mjs";

const prompt = (page) => page.getByRole("textbox", { name: "Prompt" });
const runButton = (page) => page.getByRole("button", { name: "Run", exact: true });
const answer = (page, name) => page.getByRole("region", { name: `Answer of ${name}`, exact: true });

// make makes a preset whose version 1 is live.
async function make(slug, { template = false, content = "Be brief." } = {}) {
  await manage("POST", `/presets/${slug}/chat/completions${template ? "?template=true" : ""}`, { model: "acme/small", temperature: 0.4, messages: [{ role: "system", content }] });
}

scenario("what is unsaved is tried beside the live version, then saved, put live, and taken back", { key: managementKey }, async ({ page }) => {
  await make("bench");
  await manage("PUT", "/presets/bench/labels/pinned", { version: 1 });
  await go(page, at("bench", "edit"));
  await prompt(page).fill("Be very brief.");
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hello");
  await page.getByRole("combobox", { name: /Side by side/ }).selectOption("");
  const sent = page.waitForRequest("**/v1/presets/bench/try*");
  await page.keyboard.press("Control+Enter");
  const request = await sent;
  assert.equal(request.headers()["x-inference-key"], inferenceKey);
  assert.equal(request.headers().authorization, `Bearer ${managementKey}`);
  assert.match(request.postData(), /Be very brief\./);
  await shows(answer(page, "unsaved"), "bench@unsaved");
  await shows(answer(page, "unsaved"), /complete/);
  await shows(answer(page, "unsaved"), /first text .*total .*100 tokens in, 20 tokens out · \$0\.002/);
  await shows(answer(page, "live"), "bench@1");
  assert.equal((await send("GET", "/presets/bench/versions")).body.total_count, 1, "nothing is stored");
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(answer(page, "unsaved").getByRole("table", { name: /fields/i }), "Be very brief.");

  await page.keyboard.press("Control+s");
  await status(page, "v2 is saved as a draft.");
  assert.equal(await designated("bench"), 1);
  await page.getByRole("button", { name: "Put live…" }).click();
  const dialog = page.getByRole("dialog", { name: "Put live" });
  await shows(dialog, /One label stays where it is/);
  await shows(dialog, "pinned v1");
  await shows(dialog.getByRole("table", { name: "Prompt, line by line" }), "Be very brief.");
  await dialog.getByRole("button", { name: "Put live" }).click();
  await status(page, "v2 is live.");
  assert.equal(await designated("bench"), 2);
  await page.getByRole("button", { name: "Undo" }).click();
  await status(page, "v1 is live again.");
  assert.equal(await designated("bench"), 1);
  assert.equal(await prompt(page).inputValue(), "Be very brief.", "one stays where one was");
});

scenario("a tool call takes its result by hand, and the conversation goes on", { key: managementKey }, async ({ page }) => {
  await make("calls");
  const bodies = [];
  await page.route("**/v1/chat/completions", async (route) => {
    bodies.push(JSON.parse(route.request().postData()));
    const event = (choice) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
    const call = [{ reasoning: "Think." }, { content: "I look." }, { tool_calls: [{ index: 0, id: "c1", type: "function", function: { name: "find", arguments: '{"id":' } }] }, { tool_calls: [{ index: 0, function: { arguments: "7}" } }] }];
    const deltas = bodies.length === 1 ? call : [{ content: "It is here." }];
    await route.fulfill({ contentType: "text/event-stream", body: `${deltas.map((delta) => event({ delta })).join("")}${event({ delta: {}, finish_reason: bodies.length === 1 ? "tool_calls" : "stop" })}data: [DONE]\n\n` });
  });
  await go(page, at("calls", "edit"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Where is 7?");
  await runButton(page).click();
  await shows(answer(page, "live"), "Tool call find");
  assert.equal(await answer(page, "live").locator("details.part").evaluate((part) => part.open), false, "reasoning is folded");
  await look(page, "workbench-call");
  await page.getByRole("textbox", { name: "Result of find" }).fill("in Leipzig");
  await page.getByRole("button", { name: "Continue from live" }).click();
  await shows(answer(page, "live"), "It is here.");
  assert.deepEqual(bodies[1].messages.slice(1), [
    { role: "assistant", content: "I look.", tool_calls: [{ id: "c1", type: "function", function: { name: "find", arguments: '{"id":7}' } }] },
    { role: "tool", tool_call_id: "c1", content: "in Leipzig" },
  ]);
  await page.getByRole("button", { name: "Continue from live" }).click();
  await page.getByRole("textbox", { name: "Text 5" }).fill("Thanks");
  await runButton(page).click();
  await eventually(() => assert.equal(bodies.length, 3));
  assert.deepEqual(bodies[2].messages.slice(3), [{ role: "assistant", content: "It is here." }, { role: "user", content: "Thanks" }]);
});

scenario("inputs are saved, and a grid runs them against versions", { key: managementKey }, async ({ page }) => {
  await make("gridded", { template: true, content: "For {{name}}." });
  await manage("POST", "/presets/gridded/chat/completions?template=true&designate=false", { model: "acme/large", messages: [{ role: "system", content: "For {{name}}, kindly." }] });
  await go(page, at("gridded", "edit"));
  await giveKey(page);
  for (const name of ["First", "Second"]) {
    await page.getByRole("combobox", { name: "Input" }).selectOption("");
    await page.getByRole("textbox", { name: "name", exact: true }).fill(`Ann ${name}`);
    await page.getByRole("textbox", { name: "Text 1" }).fill(`Hello ${name}`);
    await page.getByRole("button", { name: "Save input" }).click();
    const dialog = page.getByRole("dialog", { name: "Save input" });
    await dialog.getByRole("textbox", { name: "Name" }).fill(name);
    await dialog.getByRole("textbox", { name: "Notes" }).fill("Is kind");
    await dialog.getByRole("button", { name: "Save" }).click();
    await status(page, `The input ${name} is saved.`);
  }
  const { body } = await send("GET", "/presets/gridded/inputs");
  assert.deepEqual(body.data.map(({ name, variables, messages }) => [name, variables, messages]), ["First", "Second"].map((name) => [name, { name: `Ann ${name}` }, [{ role: "user", content: `Hello ${name}` }]]));
  await page.getByRole("combobox", { name: "Input" }).selectOption("First");
  await eventually(async () => assert.equal(await page.getByRole("textbox", { name: "Text 1" }).inputValue(), "Hello First"));
  assert.equal(await page.getByRole("textbox", { name: "name", exact: true }).inputValue(), "Ann First");

  await prompt(page).fill("For {{name}}, very kindly.");
  await page.getByRole("button", { name: "Grid" }).click();
  const dialog = page.getByRole("dialog", { name: "Grid" });
  await dialog.getByRole("button", { name: "Add a column" }).click();
  await dialog.getByRole("combobox", { name: "Column 3" }).selectOption("2");
  await dialog.getByRole("button", { name: "Run all" }).click();
  await status(page, "6 answers are there.");
  await eventually(async () => assert.equal(await dialog.getByText("complete", { exact: false }).count(), 6));
  await look(page, "workbench-grid");
  await dialog.getByRole("button", { name: "Good" }).first().click();
  await status(page, /rating counts/);
  const waiting = page.waitForEvent("download");
  await dialog.getByRole("button", { name: "Export as CSV" }).click();
  const lines = (await readFile(await (await waiting).path(), "utf8")).trim().split("\r\n");
  assert.equal(lines.length, 7);
  assert.match(lines[1], /^"First","unsaved","complete","Hello\."/);
  await dialog.getByRole("button", { name: "Delete Second" }).click();
  await status(page, "The input Second is deleted.");
  await page.getByRole("button", { name: "Undo" }).click();
  await eventually(async () => assert.equal((await send("GET", "/presets/gridded/inputs")).body.total_count, 2));
});

scenario("a gateway that tells its usage only when asked is asked, and a key is issued for the tab", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/presets/asked/chat/completions", { model: "acme/asked", messages: [{ role: "system", content: "Be brief." }] });
  await manage("POST", "/presets/asked/inputs", { name: "Greeting", dialect: "chat", messages: [{ role: "user", content: "Hello" }] });
  await go(page, at("asked", "edit"));
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hello");
  await runButton(page).click();
  await shows(page.getByRole("main"), /Enter an inference key/);
  await page.getByRole("button", { name: /^Issue a short-lived key/ }).click();
  await status(page, "This tab has an inference key for 8 hours.");
  await runButton(page).click();
  await shows(answer(page, "live"), /100 tokens in, 20 tokens out · \$0\.003/);
  const issued = (await send("GET", "/keys")).body.data.find(({ name }) => name === "Console trial");
  const hours = (Date.parse(issued.expires_at) - Date.now()) / 3600000;
  assert.ok(hours > 7.5 && hours <= 8, `${hours}`);
  await page.getByRole("button", { name: "Grid" }).click();
  const dialog = page.getByRole("dialog", { name: "Grid" });
  await dialog.getByRole("button", { name: "Run all" }).click();
  await shows(dialog, /20 tokens · \$0\.003/);
});

scenario("an answer says when it is no longer of what its title says", { key: managementKey }, async ({ page }) => {
  await make("aged");
  await go(page, at("aged", "edit"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hello");
  await prompt(page).fill("Be very brief.");
  await page.getByRole("combobox", { name: /Side by side/ }).selectOption("");
  await runButton(page).click();
  await shows(answer(page, "unsaved"), /complete/);
  await shows(answer(page, "live"), "live v1");
  assert.equal(await page.locator(".outdated").count(), 0);
  await prompt(page).fill("Be most brief.");
  await shows(answer(page, "unsaved"), /before your last edits/);
  await prompt(page).fill("Be very brief.");
  await page.keyboard.press("Control+s");
  await shows(answer(page, "unsaved"), /saved as v2/);
  await manage("POST", "/presets/aged/designate", { version: 2 });
  await shows(answer(page, "live"), /live v1 · outdated: live is v2 now/);
  assert.equal(await page.locator(".outdated").count(), 1);
  await look(page, "workbench-outdated");
});

scenario("a preset that does not exist yet is tried before it is created", { key: managementKey }, async ({ page }) => {
  await go(page, at("unborn", "edit"));
  await prompt(page).fill("Be new.");
  await page.getByRole("combobox", { name: "Model" }).fill("acme/small");
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hello");
  await runButton(page).click();
  await shows(answer(page, "unsaved"), "unborn@unsaved");
  await page.getByRole("button", { name: "Put live…" }).click();
  await page.getByRole("dialog", { name: "Put live" }).getByRole("button", { name: "Put live" }).click();
  await status(page, "v1 is saved and live.");
  await eventually(() => assert.match(page.url(), /unborn\/edit\?from=1$/));
  assert.equal(await page.getByRole("textbox", { name: "Text 1" }).inputValue(), "");
});

scenario("an inference key tries versions, and writes none", { key: inferenceKey }, async ({ page }) => {
  await make("read-bench");
  await go(page, at("read-bench", "edit"));
  await eventually(async () => assert.ok(await prompt(page).evaluate((area) => area.readOnly)));
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hello");
  await runButton(page).click();
  await shows(answer(page, "live"), "read-bench@1");
  assert.ok(await page.getByRole("button", { name: "Save draft" }).isDisabled());
});
