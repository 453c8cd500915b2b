// Trying a preset: the request that would go up, and the answer as it arrives.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { at, eventually, giveKey, go, inferenceKey, makePreset, manage, managementKey, scenario, shows, status } from "./harness.mjs";

const services = { chat: process.env.CONSOLE_OPENAI, responses: process.env.CONSOLE_OPENAI, messages: process.env.CONSOLE_ANTHROPIC };
const answer = "Zażółć “gęślą” jaźń 😀 — done.";

// control directs the service behind the server. Its streams pause after each event.
async function control(dialect, what) {
  const response = await fetch(`${services[dialect]}/${what}`, { method: what === "last" ? "GET" : "POST" });
  assert.ok(response.ok, await response.clone().text());
  return what === "last" ? response.json() : undefined;
}

async function prepare(page, slug, dialect, text = "Say it.") {
  await makePreset(slug, { dialect });
  await go(page, at(slug, "try"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill(text);
}

// events are those of the service's stream, each as the text that it adds.
async function events(dialect) {
  const file = dialect === "messages" ? "anthropic/messages.sse" : `openai/${dialect}.sse`;
  const blocks = (await readFile(`../testdata/${file}`, "utf8")).split("\n\n").filter((event) => event.trim() && !/^(:|event: ping\n)/.test(event));
  return blocks.map((event) => {
    const data = event.slice(event.lastIndexOf("data: ") + 6).trim();
    const { choices, type, delta } = data === "[DONE]" ? {} : JSON.parse(data);
    return choices?.[0]?.delta.content ?? (type === "response.output_text.delta" ? delta : delta?.text) ?? "";
  });
}

for (const dialect of ["chat", "responses", "messages"]) {
  scenario(`an answer in the dialect ${dialect} is shown as it arrives`, { key: managementKey }, async ({ page, guard }) => {
    await prepare(page, `try-${dialect}`, dialect);
    const before = (await control(dialect, "last")).count;
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const output = page.getByRole("region", { name: "Answer of live", exact: true });
    const text = async () => (await output.locator("pre.answer").textContent()) ?? "";
    await eventually(async () => assert.ok(await page.getByRole("button", { name: "Stop" }).isEnabled()));

    // The text grows with each event. The next event waits for its release.
    const texts = await events(dialect);
    for (const [i] of texts.entries()) {
      if (i > 0) {
        await control(dialect, "release");
      }
      await eventually(async () => assert.equal(await text(), texts.slice(0, i + 1).join("")));
    }
    await shows(output, /complete/);
    assert.equal(await text(), answer);
    await shows(output, /first text .*\d/);
    await shows(output, /total .*\d/);
    await shows(output, `try-${dialect}`); // which preset and version served
    const { count, last } = await control(dialect, "last");
    assert.equal(count, before + 1);
    const body = JSON.parse(last.body);
    assert.equal(body.model, "acme/large");
    assert.equal(body.stream, true);
    const sent = guard.requests.find((request) => request.method() === "POST" && /completions|responses|messages/.test(request.url()));
    assert.equal((await sent.allHeaders()).authorization, `Bearer ${inferenceKey}`, "never the management key");
    await eventually(async () => assert.ok(await page.getByRole("button", { name: "Run", exact: true }).isEnabled()));
  });
}

scenario("Stop ends the request at the gateway", { key: managementKey }, async ({ page }) => {
  await prepare(page, "try-stop", "chat");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await control("chat", "release");
  const output = page.getByRole("region", { name: "Answer of live", exact: true });
  await eventually(async () => assert.notEqual(await output.locator("pre.answer").textContent(), ""));
  await page.getByRole("button", { name: "Stop" }).click();
  await control("chat", "hung-up");
  await shows(output, /stopped/i);
  await eventually(async () => assert.notEqual(await output.locator("pre.answer").textContent(), "", "what came so far stays"));
});

scenario("what goes up is shown with the source of each field, and not sent", { key: managementKey }, async ({ page }) => {
  await prepare(page, "try-dry", "chat", "Hello <b>there</b>");
  await page.getByRole("textbox", { name: /parameters/i }).fill('{"temperature": 0.95}');
  const before = (await control("chat", "last")).count;
  await page.getByRole("button", { name: "Show what goes up" }).click();
  const table = page.getByRole("table", { name: /fields/i });
  await shows(table.getByRole("row").filter({ hasText: "model" }).first(), /preset/);
  await shows(table.getByRole("row").filter({ hasText: "temperature" }), /request/);
  await shows(table, /0\.95/);
  await shows(table, /Hello <b>there<\/b>/);
  assert.equal((await control("chat", "last")).count, before);
});

scenario("two versions answer the same input side by side", { key: managementKey }, async ({ page }) => {
  await prepare(page, "try-two", "chat");
  await manage("PUT", "/presets/try-two/labels/staging", { version: 1 });
  await page.reload();
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Both of you.");
  const first = page.getByRole("combobox", { name: "Version or label" });
  await eventually(async () => assert.ok(await first.locator("option").count() >= 5));
  await first.selectOption("staging");
  await page.getByRole("combobox", { name: /Side by side/ }).selectOption("2");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const outputs = page.getByRole("region", { name: /^Answer of (staging|v2)$/ });
  await eventually(async () => assert.equal(await outputs.count(), 2));
  for (let i = 2 * ((await events("chat")).length - 1); i > 0; i--) {
    await control("chat", "release");
  }
  await eventually(async () => assert.ok((await outputs.allInnerTexts()).every((text) => /complete/.test(text))));
  for (const text of await outputs.locator("pre.answer").allTextContents()) {
    assert.equal(text, answer);
  }
});

scenario("an error of the gateway, and a key that may not infer", { key: managementKey }, async ({ page }) => {
  await manage("POST", "/presets/try-wrong/chat/completions", { model: "acme/overloaded", messages: [] });
  await go(page, at("try-wrong", "try"));
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hi");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.getByRole("main"), /Enter an inference key/);
  await giveKey(page, "a-key-that-nobody-knows");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.getByRole("main"), /Error/);
  await shows(page.getByRole("main"), /Request id/);
  await page.getByRole("button", { name: "Lock", exact: true }).waitFor(); // the session goes on
  await giveKey(page);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.getByRole("main"), /429/);
  await page.getByText("Key and parameters").click();
  await page.getByRole("textbox", { name: /parameters/i }).fill("{");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.getByRole("main"), /line 1/);
});

// A template in each dialect: a text in the prompt and in a message, and an image.
const template = {
  chat: ["chat/completions", { messages: [{ role: "system", content: "You know {{city}}." }, { role: "user", content: "Sights in {{city}}, for {{ who }}" }, { role: "user", content: "{{photo}}" }] }],
  responses: ["responses", { instructions: "You know {{city}}.", input: [{ role: "user", content: "Sights in {{city}}, for {{ who }}" }, { role: "user", content: "{{photo}}" }] }],
  messages: ["messages", { max_tokens: 9, system: "You know {{city}}.", messages: [{ role: "user", content: "Sights in {{city}}, for {{ who }}" }, { role: "user", content: "{{photo}}" }] }],
};

for (const [dialect, [route, body]] of Object.entries(template)) {
  scenario(`a template in the dialect ${dialect} has a field for each variable`, { key: managementKey }, async ({ page }) => {
    const slug = `try-template-${dialect}`;
    await manage("POST", `/presets/${slug}/${route}?template=true`, { model: "acme/large", ...body });
    await go(page, at(slug, "try"));
    await giveKey(page);
    const variables = page.getByRole("group", { name: "Variables" });
    const variable = (name) => variables.getByRole("textbox", { name, exact: true });
    await variable("photo").waitFor();
    await eventually(async () => assert.equal(await variables.getByRole("textbox").count(), 3));

    // The console tells which fields are missing before it sends anything.
    const before = (await control(dialect, "last")).count;
    await variable("city").fill("Rome {{who}} \"<b>\"\nand more");
    await page.getByRole("button", { name: "Show what goes up" }).click();
    await shows(variables, /needs a value/);
    await eventually(async () => assert.equal(await variable("city").getAttribute("aria-invalid"), null));
    await eventually(async () => assert.equal(await variable("who").getAttribute("aria-invalid"), "true"));
    await eventually(async () => assert.ok(await variable("who").evaluate((element) => element === document.activeElement)));

    await variables.getByRole("combobox", { name: "Kind of who" }).selectOption("empty text");
    await variables.getByRole("combobox", { name: "Kind of photo" }).selectOption("image address");
    await variable("photo").fill("https://pictures.test/a.png");
    await page.getByRole("button", { name: "Show what goes up" }).click();
    const fields = page.getByRole("table", { name: /fields/i });
    await shows(fields.getByRole("row").filter({ hasText: "pictures.test" }), /variable v1/);
    assert.equal((await control(dialect, "last")).count, before);

    await page.getByRole("button", { name: "Run", exact: true }).click();
    await eventually(async () => assert.equal((await control(dialect, "last")).count, before + 1));
    const sent = JSON.parse((await control(dialect, "last")).last.body);
    const list = sent.input ?? sent.messages.filter(({ role }) => role !== "system");
    assert.equal(list.length, 2, "the empty text of the form is not sent");
    assert.match(JSON.stringify(list[0]), /Sights in Rome \{\{who\}\} \\"<b>\\"\\nand more, for "/);
    assert.match(JSON.stringify(list[1]), /https:\/\/pictures\.test\/a\.png/);
    assert.equal(sent.prompt, undefined);
    await page.getByRole("button", { name: "Stop" }).click();
    await control(dialect, "hung-up");
  });
}

scenario("the fields of a template come, although its first read failed", { key: managementKey }, async ({ page }) => {
  const [route, body] = template.chat;
  await manage("POST", `/presets/try-again/${route}?template=true`, { model: "acme/large", ...body });
  let reads = 0;
  await page.route("**/try-again/versions/1?*", (read) => (++reads === 1 ? read.abort("connectionreset") : read.continue()));
  await go(page, at("try-again", "try"));
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("group", { name: "Variables" }).getByRole("textbox", { name: "city", exact: true }).fill("Rome");
  assert.ok(reads >= 2);
});

scenario("each version gets its own variables, side by side", { key: managementKey }, async ({ page }) => {
  const capture = (content) => ({ model: "acme/large", messages: [{ role: "system", content }] });
  await manage("POST", "/presets/try-each/chat/completions", capture("Plain {{text}}."));
  await manage("POST", "/presets/try-each/chat/completions?template=true&designate=false", capture("For {{city}}."));
  await manage("POST", "/presets/try-each/chat/completions?template=true&designate=false", capture("For {{city}} in {{year}}."));
  await go(page, at("try-each", "try"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Go.");
  const variables = page.getByRole("group", { name: "Variables" });
  const first = page.getByRole("combobox", { name: "Version or label" });
  await eventually(async () => assert.ok(await first.locator("option").count() >= 4));
  await eventually(async () => assert.equal(await variables.count(), 0, "the live version is no template"));
  await first.selectOption("2");
  await variables.getByRole("textbox", { name: "city", exact: true }).fill("Oslo");
  await page.getByRole("combobox", { name: /Side by side/ }).selectOption("3");
  await variables.getByRole("textbox", { name: "year", exact: true }).fill("1900");
  await eventually(async () => assert.equal(await variables.getByRole("textbox", { name: "city", exact: true }).inputValue(), "Oslo", "what was typed stays"));
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("region", { name: "Answer of v2" }), /For Oslo\./);
  await shows(page.getByRole("region", { name: "Answer of v3" }), /For Oslo in 1900\./);
});

scenario("what a policy changed is shown", { key: managementKey }, async ({ page }) => {
  await makePreset("try-policy");
  await manage("PATCH", "/presets/try-policy", { policy: { lock: ["seed"], bounds: { temperature: { max: 0.5 } } } });
  await go(page, at("try-policy", "try"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Hi");
  await page.getByRole("textbox", { name: /parameters/i }).fill('{"temperature": 1.5}');
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("table", { name: /fields/i }).getByRole("row").filter({ hasText: "temperature" }), /policy/);
  await shows(page.getByRole("main"), /Changed by the policy of the preset: temperature/);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await shows(page.getByRole("region", { name: "Answer of live", exact: true }), /changed by the policy: temperature/);
  await page.getByRole("button", { name: "Stop" }).click();
  await control("chat", "hung-up");
  await manage("PATCH", "/presets/try-policy", { policy: { bounds: { temperature: { max: 0.5 } }, violation: "refuse" } });
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("alert"), /temperature/);
});

scenario("a line of the log of content fills the form", { key: managementKey }, async ({ page }) => {
  await makePreset("try-logged");
  await go(page, at("try-logged", "try"));
  await giveKey(page);
  const { workspace_id: workspace } = await manage("GET", "/presets/try-logged");
  const line = {
    request_id: "x", workspace, dialect: "chat", sent: { model: "@preset/try-logged", temperature: 0.5, seed: 7, messages: [{ role: "user", content: "Of yesterday" }] },
    answer: [{ role: "assistant", parts: [{ type: "text", content: "An answer of the log" }], finish_reason: "stop" }],
  };
  const paste = (more) => page.getByRole("textbox", { name: "Text 1" }).evaluate((element, text) => {
    const clipboardData = new globalThis.DataTransfer();
    clipboardData.setData("text", text);
    element.dispatchEvent(new globalThis.ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, JSON.stringify({ ...line, ...more }));
  for (const [more, why] of [[{ workspace: "another" }, /another workspace/], [{ cut: ["sent"] }, /whole request/], [{ files: ["sent"] }, /images and files/], [{ masked: ["request", "sent"] }, /keys/]]) {
    await paste(more);
    await status(page, why);
  }
  assert.equal(await page.getByRole("textbox", { name: "Text 1" }).inputValue(), "");
  await paste({ masked: ["request"] });
  await eventually(async () => assert.equal(await page.getByRole("textbox", { name: "Text 1" }).inputValue(), "Of yesterday"));
  await shows(page.getByRole("region", { name: "Answer of the log" }), /An answer of the log/);
  await page.getByRole("button", { name: "Show what goes up" }).click();
  await shows(page.getByRole("table", { name: /fields/i }).getByRole("row").filter({ hasText: "seed" }), /7/);
});
