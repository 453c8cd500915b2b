// What answers have besides text: reasoning, refusals, tool calls, and the reason of their end.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { at, eventually, giveKey, go, look, manage, managementKey, scenario, shows } from "./harness.mjs";

const services = { chat: process.env.CONSOLE_OPENAI, responses: process.env.CONSOLE_OPENAI, messages: process.env.CONSOLE_ANTHROPIC };
const routes = { chat: ["chat/completions", { messages: [] }], responses: ["responses", {}], messages: ["messages", { messages: [], max_tokens: 9 }] };

// release lets the service send more events of the stream under way.
async function release(dialect, count) {
  for (let i = 0; i < count; i++) {
    const response = await fetch(`${services[dialect]}/release`, { method: "POST" });
    assert.ok(response.ok, await response.text());
  }
}

// ask sends a request to a model of the service. It returns what shows the answer, and the events of
// its stream. The first of them has been sent.
async function ask(page, dialect, model) {
  const slug = `answers-${dialect}-${model}`, [route, body] = routes[dialect];
  await manage("POST", `/presets/${slug}/${route}`, { model: `acme/${model}`, ...body });
  await go(page, at(slug, "try"));
  await giveKey(page);
  await page.getByRole("textbox", { name: "Text 1" }).fill("Go on.");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const output = page.getByRole("region", { name: "Answer of live", exact: true });
  const file = `../testdata/${dialect === "messages" ? "anthropic/messages" : `openai/${dialect}`}.${model}.sse`;
  const events = model === "unstreamed" ? [] : (await readFile(file, "utf8")).split("\n\n").filter(Boolean);
  return { output, events };
}

// parts are the captions and the texts of the parts of an answer that are not its text.
const parts = (output) => output.locator(".part").evaluateAll((all) => all.map((part) => [...part.children].map((child) => child.textContent)));

const usual = { chat: "tool_calls", responses: "", messages: "tool_use" };
const others = {
  chat: [["Tool call send_mail", "{}"]],
  responses: [["web search call", JSON.stringify({ action: { type: "search", query: "parcel" } }, null, 2)]],
  messages: [["web search tool result", JSON.stringify({ tool_use_id: "srvtoolu_01", content: [{ type: "web_search_result", title: "Parcels", url: "https://parcels.test" }] }, null, 2)]],
};

for (const dialect of Object.keys(routes)) {
  scenario(`an answer in the dialect ${dialect} shows reasoning and tool calls as they come`, { key: managementKey }, async ({ page }) => {
    const { output, events } = await ask(page, dialect, "tools");
    const begun = events.findIndex((event) => event.includes(String.raw`{\"name\": `));
    await release(dialect, begun);
    const reasoning = ["Reasoning", "The customer is unknown."];
    await eventually(async () => assert.deepEqual(await parts(output), [reasoning, ["Tool call find_customer", '{"name": ']]));
    await release(dialect, events.length - 1 - begun);
    await shows(output, usual[dialect] ? `complete (${usual[dialect]})` : /^complete ·/);
    assert.deepEqual(await parts(output), [reasoning, ["Tool call find_customer", '{"name": "Łukasz"}'], ...others[dialect]]);
    const own = await output.locator("pre.answer").evaluate((answer) => [...answer.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(""));
    assert.equal(own, "I look it up.", "it is shown once, although the last event may repeat it");
    await look(page, `answer-${dialect}`);
  });

  scenario(`an answer in the dialect ${dialect} shows a refusal and the reason of its end`, { key: managementKey }, async ({ page }) => {
    const { output, events } = await ask(page, dialect, "refused");
    await release(dialect, events.length - 1);
    await shows(output, /I cannot do that\./);
    await shows(output, dialect === "messages" ? /ended early \(refusal/ : "ended early (content_filter)");
    if (dialect !== "messages") { // which says it in the reason alone
      assert.deepEqual(await parts(output), [["Refusal", "I cannot do that."]]);
    }
    assert.equal(await output.getByText(/complete/).count(), 0);
  });

  scenario(`an answer in the dialect ${dialect} without content says so, and why it ended`, { key: managementKey }, async ({ page }) => {
    const { output, events } = await ask(page, dialect, "empty");
    await release(dialect, events.length - 1);
    await shows(output, `with the reason ${{ chat: "length", responses: "max_output_tokens", messages: "max_tokens" }[dialect]}.`);
    await shows(output, "The answer has no text, reasoning, refusal or tool call.");
    assert.ok(await output.locator("pre.answer").isHidden(), "there is no empty box");
    await look(page, `answer-empty-${dialect}`);
  });

  scenario(`a stream in the dialect ${dialect} that just stops is not complete`, { key: managementKey }, async ({ page }) => {
    const { output, events } = await ask(page, dialect, "cut");
    await release(dialect, events.length - 1);
    await shows(output, "It ends in the mid");
    await shows(output, /ended without a reason/);
    await shows(output, "The answer may be cut off.");
  });

  scenario(`an answer in the dialect ${dialect} that is not streamed shows its tool call`, { key: managementKey }, async ({ page }) => {
    const { output } = await ask(page, dialect, "unstreamed");
    await shows(output, /complete.*not streamed/);
    const [[name, text]] = await parts(output);
    assert.equal(name, "Tool call find_customer");
    assert.deepEqual(JSON.parse(text), { name: "Łukasz" });
  });
}
