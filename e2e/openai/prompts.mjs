// Runs the official OpenAI client with prompts, as for OpenAI's own, and with presets for images. The environment names
// the server. Prints one line per check; exits with 1 on a failure.
//
// prompts_test.go starts the servers, stores the presets and sets the environment.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { check, count, failure, finish, last, tell, upstream, within } from "../harness.mjs";

const client = new OpenAI({ maxRetries: 0 }); // a retry would hide a failure
const id = process.env.PRESETS_PROMPT_ID;

const city = "Łódź \"{{photo}}\"\n\\{{city}}";
const photo = { type: "input_image", image_url: "https://example.com/a.png?size=large&x={{city}}" };
const answerText = "Zażółć “gęślą” jaźń \u{1F600} — done.";

const first = {
  model: "acme/small", temperature: 0.1, instructions: `You know ${city}.`,
  input: [{ role: "user", content: `Name three sights in ${city}.` }],
};
const second = {
  model: "acme/large", temperature: 0.2, instructions: `You know ${city} well.`,
  input: [
    { role: "user", content: [{ type: "input_text", text: `Where in ${city} is this?` }] },
    { role: "user", content: [{ ...photo, detail: "auto" }] },
  ],
};

const sent = async () => {
  const { uri, body } = await upstream();
  assert.ok(!("prompt" in body), "the prompt went up");
  return { uri, body };
};

for (const [name, prompt, want, version] of [
  ["the designated version, with an image", { id, variables: { city, photo } }, second, 2],
  ["an image with detail", { id, variables: { city, photo: { ...photo, detail: "auto" } } }, second, 2],
  ["version null", { id, version: null, variables: { city, photo } }, second, 2],
  ["a version as text", { id, version: "1", variables: { city } }, first, 1],
  ["a version as number", { id, version: 1, variables: { city } }, first, 1],
  ["a label", { id, version: "staging", variables: { city } }, first, 1],
]) {
  await check(`responses.create: ${name}`, async () => {
    const { data, response } = await client.responses.create({ prompt }).withResponse();
    assert.equal(data.output_text, answerText);
    assert.equal(data.model, want.model);
    assert.equal(response.headers.get("x-preset"), `${id}@${version}`);
    assert.deepEqual(await sent(), { uri: "/v1/responses", body: want });
  });

  await check(`responses.create: ${name}, streaming`, async () => {
    const stream = await within(client.responses.create({ prompt, stream: true }), "the stream");
    let text = "", completed;
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") {
        text += event.delta;
      }
      if (event.type === "response.completed") {
        completed = event.response;
        break; // the service sends nothing after it
      }
      await tell("/release");
    }
    assert.equal(text, answerText);
    assert.equal(completed.output[0].content[0].text, answerText);
    assert.deepEqual((await sent()).body, { ...want, stream: true });
  });
}

await check("responses.create: input and settings of the request", async () => {
  await client.responses.create({
    prompt: { id, version: "1", variables: { city } }, model: "acme/other", temperature: 0.5, input: "And churches?",
  });
  assert.deepEqual((await sent()).body, {
    ...first, model: "acme/other", temperature: 0.5, input: [...first.input, { role: "user", content: "And churches?" }],
  });
});

await check("responses.create: tools of the prompt and of the request", async () => {
  const weather = { type: "function", name: "weather", strict: false, parameters: { type: "object", properties: {} } };
  const answer = await client.responses.create({ prompt: { id: "pmpt_tools", variables: { customer: "Łukasz" } }, tools: [weather] });
  const [call] = answer.output;
  assert.deepEqual([call.type, call.name, JSON.parse(call.arguments)], ["function_call", "find_customer", { name: "Łukasz" }]);
  const { body } = await sent();
  assert.deepEqual(body.input, [{ role: "user", content: "Find Łukasz." }]);
  assert.deepEqual(body.tools.map(({ name }) => name), ["find_customer", "weather"]);
  assert.deepEqual(body.tools[1], weather);
  assert.equal(body.tool_choice, "required");
});

await check("responses.parse: the request's format", async () => {
  const format = zodTextFormat(z.object({ sights: z.array(z.string()) }), "sights");
  const answer = await client.responses.parse({ prompt: { id, version: "1", variables: { city } }, text: { format } });
  assert.deepEqual(answer.output_parsed, { sights: ["Piazza Navona"] });
  assert.deepEqual((await sent()).body, { ...first, text: { format: JSON.parse(JSON.stringify(format)) } });
});

await check("responses.create: the prompt's format", async () => {
  const answer = await client.responses.create({ prompt: { id: "pmpt_schema", variables: { city: "Rome" } } });
  assert.deepEqual(JSON.parse(answer.output_text), { sights: ["Piazza Navona"] });
  const { body } = await sent();
  assert.equal(body.text.format.type, "json_schema");
  assert.deepEqual(body.input, [{ role: "user", content: "List the sights of Rome." }]);
});

await check("responses.inputTokens.count", async () => {
  const { input_tokens: tokens } = await client.responses.inputTokens.count({ prompt: { id, version: "1", variables: { city } } });
  assert.ok(tokens > 0);
  const { uri, body } = await sent();
  assert.equal(uri, "/v1/responses/input_tokens");
  assert.deepEqual(body, { model: first.model, instructions: first.instructions, input: first.input });
});

await check("chat.completions.create with a prompt", async () => {
  const answer = await client.chat.completions.create({
    prompt: { id, variables: { city, photo } }, messages: [{ role: "user", content: "Hello" }],
  });
  assert.equal(answer.choices[0].message.content, answerText);
  const { uri, body } = await sent();
  assert.equal(uri, "/v1/chat/completions");
  assert.deepEqual(body, {
    model: "acme/large", temperature: 0.2,
    messages: [
      { role: "system", content: second.instructions },
      { role: "user", content: [{ type: "text", text: `Where in ${city} is this?` }] },
      { role: "user", content: [{ type: "image_url", image_url: { url: photo.image_url } }] },
      { role: "user", content: "Hello" },
    ],
  });
});

for (const [name, model, want, preset, dropped] of [
  ["a preset", "@preset/poster", { model: "gpt-image-2", size: "1024x1024", quality: "low" }, "poster@1", "temperature, aspect_ratio"],
  ["the workspace's model", undefined, { model: "gpt-image-1-mini" }, null, null],
]) {
  await check(`images.generate with ${name}`, async () => {
    const own = { prompt: `A sight of ${city}.`, background: "opaque" };
    const { data, response } = await client.images.generate({ ...own, model }).withResponse();
    assert.match(data.data[0].b64_json, /^iVBORw0KGgo/);
    assert.equal(data.usage.total_tokens, 80);
    assert.deepEqual([response.headers.get("x-preset"), response.headers.get("x-preset-dropped")], [preset, dropped]);
    const { uri, body } = await upstream();
    assert.equal(uri, "/v1/images/generations");
    assert.deepEqual(body, { ...own, ...want });
  });
}

// Errors

const before = await count();

for (const [name, prompt, type, status, cause, message] of [
  ["missing variables", { id }, OpenAI.BadRequestError, 400, "invalid_prompt", /\/prompt\/variables: lacks variables of the template: city, photo/],
  ["an unknown variable", { id, version: 1, variables: { city, photo } }, OpenAI.BadRequestError, 400, "invalid_prompt", /\/prompt\/variables\/photo: /],
  ["a number as value", { id, version: 1, variables: { city: 1 } }, OpenAI.BadRequestError, 400, "invalid_prompt", /\/prompt\/variables\/city/],
  ["values for a preset that is no template", { id: "plain", variables: { city } }, OpenAI.BadRequestError, 400, "invalid_prompt", /\/prompt\/variables: /],
  ["an unknown id", { id: "pmpt_nobody", variables: { city } }, OpenAI.NotFoundError, 404, "preset_not_found", /Preset not found: @preset\/pmpt_nobody/],
  ["an unknown version", { id, version: "9", variables: { city } }, OpenAI.NotFoundError, 404, "preset_version_not_found", /@9/],
]) {
  for (const stream of [false, true]) {
    await check(`responses.create with ${name}${stream ? ", streaming" : ""}: ${type.name}`, async () => {
      const err = await failure(() => client.responses.create({ prompt, stream }));
      assert.ok(err instanceof type, `got ${err.name}: ${err.message}`);
      assert.equal(err.status, status);
      assert.equal(err.code, status);
      assert.equal(err.type, cause);
      assert.match(err.message, message);
      assert.ok(!err.message.includes("Łódź"), "the error has a value");
      assert.match(err.requestID, /^[0-9a-f]{8}-/);
    });
  }
}

await check("images.generate with an unknown preset: NotFoundError", async () => {
  const err = await failure(() => client.images.generate({ model: "@preset/nobody", prompt: "A sight." }));
  assert.ok(err instanceof OpenAI.NotFoundError, `got ${err.name}: ${err.message}`);
  assert.match(err.message, /Preset not found: @preset\/nobody/);
});

await check("nothing of the refused requests reached the service", async () => {
  assert.equal(await count(), before);
});

await check("the service's error: RateLimitError", async () => {
  const err = await failure(() => client.responses.create({ model: "acme/overloaded", prompt: { id, version: 1, variables: { city } } }));
  assert.ok(err instanceof OpenAI.RateLimitError, `got ${err.name}: ${err.message}`);
  assert.equal(err.headers.get("x-preset"), `${id}@1`);
});

await check("a request without a prompt goes up as it is", async () => {
  await client.responses.create({ model: "acme/plain", input: "Hello" });
  assert.deepEqual(JSON.parse((await last()).last.body), { model: "acme/plain", input: "Hello" });
});

finish();
