// Sends inference requests that name a preset with the official OpenRouter client, which
// validates answers. Prints one line per check; exits with 1 on a failure.
//
// sdk_test.go starts the servers, stores the presets of inference_test.go and
// sets the environment.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as errors from "@openrouter/sdk/models/errors";
import { check, client, count, failure, finish, last, tell, upstream, within } from "./harness.mjs";

const inferenceKey = process.env.PRESETS_INFERENCE_KEY;
const managementKey = process.env.PRESETS_MANAGEMENT_KEY;

const inference = client(inferenceKey);
const stranger = client("sk-nobody-knows-this-one");
const manager = client(managementKey);

const userText = "Zażółć “gęślą” jaźń \u{1F600}";
const answerText = `${userText} — done.`;

// payloads returns the data of a stream's events, without the mark of its end.
const payloads = (file) =>
  readFileSync(new URL(`../testdata/openrouter/${file}`, import.meta.url), "utf8")
    .split("\n\n")
    .filter((event) => /^data: (?!\[DONE\])/m.test(event))
    .map((event) => JSON.parse(event.match(/^data: (.*)$/m)[1]));

// readPaced reads a stream to its end. The service sends each event only after the
// previous one was read.
async function readPaced(stream, want, same) {
  const reader = stream.getReader();
  for (const [i, event] of want.entries()) {
    if (i > 0) {
      await tell("/release");
    }
    const { done, value } = await within(reader.read(), `event ${i} while the service paused behind it`);
    assert.ok(!done, `the stream ended before event ${i}`);
    same(value, event);
  }
  await tell("/release"); // the end mark
  assert.ok((await within(reader.read(), "the end of the stream")).done);
}

// The two inference APIs of the client. The client also sends some fields that are not
// set.

const chat = {
  uri: "/v1/chat/completions",
  send: (who, more, options) =>
    who.sdk.chat.send({ chatRequest: { messages: [{ role: "user", content: userText }], ...more } }, options),
  text: (answer) => answer.choices[0].message.content,
  events: payloads("chat.sse"),
  sameEvent: (got, want) => {
    assert.equal(got.id, want.id);
    assert.equal(got.choices[0].delta.content, want.choices[0].delta.content);
    assert.equal(got.choices[0].finishReason, want.choices[0].finish_reason);
    assert.equal(got.usage?.totalTokens, want.usage?.total_tokens);
  },
  eventText: (event) => event.choices[0].delta.content,
  upstream: {
    1: { messages: [{ role: "system", content: "Be brief." }, { role: "user", content: userText }], temperature: 0.1, stream: false },
    2: {
      messages: [{ role: "system", content: "You are a copywriter." }, { role: "user", content: userText }],
      temperature: 0.2, max_completion_tokens: 512, reasoning_effort: "low", verbosity: "low", stream: false,
    },
  },
};

const responses = {
  uri: "/v1/responses",
  send: (who, more, options) => who.sdk.responses.send({ responsesRequest: { input: userText, ...more } }, options),
  text: (answer) => answer.output[0].content[0].text,
  events: payloads("responses.sse"),
  sameEvent: (got, want) => {
    assert.equal(got.type, want.type, JSON.stringify(got));
    assert.equal(got.sequenceNumber, want.sequence_number);
    assert.equal(got.delta, want.delta);
    assert.equal(got.response?.status, want.response?.status);
  },
  eventText: (event) => event.delta ?? "",
  upstream: {
    1: { input: userText, instructions: "Be brief.", temperature: 0.1, service_tier: "auto", store: false, stream: false },
    2: {
      input: userText, instructions: "You are a copywriter.", temperature: 0.2, max_output_tokens: 512,
      reasoning: { effort: "low" }, text: { verbosity: "low" }, service_tier: "auto", store: false, stream: false,
    },
  },
};

const styles = [
  { name: "direct", model: "@preset/copywriter", runs: "acme/large", version: 2 },
  { name: "combined", model: "acme/other@preset/copywriter", runs: "acme/other", version: 2 },
  { name: "field", preset: "copywriter", runs: "acme/large", version: 2 },
  { name: "field and model", model: "acme/other", preset: "copywriter", runs: "acme/other", version: 2 },
  { name: "direct, pinned", model: "@preset/copywriter@1", runs: "acme/small", version: 1 },
  { name: "combined, pinned", model: "acme/other@preset/copywriter@1", runs: "acme/other", version: 1 },
  { name: "field, pinned", preset: "copywriter@1", runs: "acme/small", version: 1 },
  { name: "direct, labelled", model: "@preset/copywriter@staging", runs: "acme/small", version: 1 },
  { name: "combined, labelled", model: "acme/other@preset/copywriter@staging", runs: "acme/other", version: 1 },
  { name: "field, labelled", preset: "copywriter@staging", runs: "acme/small", version: 1 },
];

for (const [name, api] of Object.entries({ "chat.send": chat, "responses.send": responses })) {
  for (const { name: style, model, preset, runs, version } of styles) {
    const who = preset ? client(inferenceKey, { fields: { preset } }) : inference;

    await check(`${name}, ${style}`, async () => {
      const answer = await api.send(who, { model });
      assert.equal(api.text(answer), answerText);
      assert.equal(answer.model, runs);
      assert.equal(who.seen.headers.get("x-preset"), `copywriter@${version}`);
      assert.equal(who.seen.headers.get("x-preset-dropped"), null);
      const { uri, body } = await upstream();
      assert.equal(uri, api.uri);
      assert.deepEqual(body, { ...api.upstream[version], model: runs });
    });

    await check(`${name}, ${style}, streaming`, async () => {
      const stream = await within(api.send(who, { model, stream: true }), "the first event");
      let text = "";
      await readPaced(stream, api.events, (got, want) => {
        api.sameEvent(got, want);
        text += api.eventText(got);
      });
      assert.equal(text, answerText);
      assert.equal(who.seen.headers.get("x-preset"), `copywriter@${version}`);
      assert.deepEqual((await upstream()).body, { ...api.upstream[version], model: runs, stream: true });
    });
  }

  await check(`${name} without a preset`, async () => {
    await api.send(inference, { model: "acme/plain" });
    const { body } = await upstream();
    assert.equal(body.model, "acme/plain");
    assert.ok(!("temperature" in body));
    assert.equal(inference.seen.headers.get("x-preset"), null);
    assert.equal((await last()).last.body, inference.seen.sent.toString());
  });

  await check(`${name}: session_id becomes X-Session-Id`, async () => {
    await api.send(inference, { model: "@preset/copywriter", sessionId: "of the body" }, { headers: { "X-Session-Id": "of the header" } });
    const { header, body } = await upstream();
    assert.deepEqual(header["X-Session-Id"], ["of the body"]);
    assert.equal(body.session_id, "of the body");
  });

  await check(`${name}: a dry run shows what goes up`, async () => {
    const before = await count();
    // The client reports that this is not an answer of the API.
    const err = await failure(() => api.send(inference, { model: "@preset/copywriter" }, { headers: { "X-Preset-Dry-Run": "true" } }));
    assert.ok(err instanceof errors.ResponseValidationError, `got ${err}`);
    assert.equal(err.statusCode, 200);
    assert.equal(await count(), before);
    const { data } = err.rawValue;
    await api.send(inference, { model: "@preset/copywriter" });
    const { last: sent } = await last();
    assert.deepEqual([data.method, data.path, data.body], [sent.method, sent.uri, sent.body]);
    assert.deepEqual(data.fields.temperature, { from: "preset", preset: "copywriter", version: 2 });
  });

  await check(`${name}: a client that leaves ends the service's request`, async () => {
    const stream = await within(api.send(inference, { model: "@preset/copywriter", stream: true }), "the first event");
    for await (const event of stream) {
      assert.ok(event);
      break;
    }
    await tell("/hung-up");
  });

  await check(`${name}: an aborted call ends the service's request`, async () => {
    const abort = new AbortController();
    const stream = await within(api.send(inference, { model: "@preset/copywriter", stream: true }, { signal: abort.signal }), "the first event");
    const reader = stream.getReader();
    await within(reader.read(), "the first event");
    abort.abort();
    await tell("/hung-up");
    await assert.rejects(async () => {
      while (!(await reader.read()).done);
    }, { name: "AbortError" });
  });
}

await check("chat.send with a system message of its own", async () => {
  await inference.sdk.chat.send({
    chatRequest: { model: "@preset/copywriter", messages: [{ role: "system", content: "Mine." }, { role: "user", content: userText }] },
  });
  assert.deepEqual((await upstream()).body.messages, [
    { role: "system", content: "You are a copywriter.\n\nMine." },
    { role: "user", content: userText },
  ]);
});

await check("responses.send with instructions of its own", async () => {
  await responses.send(inference, { model: "@preset/copywriter", instructions: "Mine." });
  assert.equal((await upstream()).body.instructions, "You are a copywriter.\n\nMine.");
});

// Tools

const findCustomer = {
  name: "find_customer", description: "Finds a customer.", strict: true,
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false },
};
const sendMail = { name: "send_mail", description: "The request's.", parameters: { type: "object" } };
const weather = { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } };

await check("chat.send with tools: the preset's and the request's", async () => {
  const chatTool = (definition) => ({ type: "function", function: definition });
  for (const toolChoice of [undefined, "auto"]) {
    const answer = await chat.send(inference, { model: "@preset/assistant", tools: [chatTool(sendMail), chatTool(weather)], toolChoice });
    const [call] = answer.choices[0].message.toolCalls;
    assert.equal(call.function.name, "find_customer");
    assert.equal(answer.choices[0].finishReason, "tool_calls");
    const { body } = await upstream();
    assert.deepEqual(body.tools, [chatTool(findCustomer), chatTool(sendMail), chatTool(weather)]);
    assert.equal(body.tool_choice, toolChoice ?? "required");
  }
});

await check("responses.send with tools: the preset's and the request's", async () => {
  const tool = (definition) => ({ type: "function", ...definition });
  for (const toolChoice of [undefined, "auto"]) {
    const answer = await responses.send(inference, { model: "@preset/assistant", tools: [tool(sendMail), tool(weather)], toolChoice });
    assert.equal(answer.output[0].type, "function_call");
    assert.equal(answer.output[0].name, "find_customer");
    const { body } = await upstream();
    assert.deepEqual(body.tools, [tool(findCustomer), tool(sendMail), tool(weather)]);
    assert.equal(body.tool_choice, toolChoice ?? "required");
  }
});

// Large bodies

const image = `data:image/png;base64,${"iVBORw0KGgoAAAAN".repeat((8 << 20) / 16)}`;

await check("chat.send with an image of 8 MiB", async () => {
  await inference.sdk.chat.send({
    chatRequest: {
      model: "@preset/copywriter",
      messages: [{ role: "user", content: [{ type: "text", text: userText }, { type: "image_url", imageUrl: { url: image } }] }],
    },
  });
  const { body } = await upstream();
  assert.equal(body.model, "acme/large");
  assert.equal(body.messages[0].content, "You are a copywriter.");
  assert.ok(body.messages[1].content[1].image_url.url === image, "the image changed on its way");
});

await check("responses.send with an image of 8 MiB", async () => {
  await inference.sdk.responses.send({
    responsesRequest: {
      model: "@preset/copywriter",
      input: [{ role: "user", content: [{ type: "input_text", text: userText }, { type: "input_image", detail: "auto", imageUrl: image }] }],
    },
  });
  const { body } = await upstream();
  assert.equal(body.instructions, "You are a copywriter.");
  assert.ok(body.input[0].content[1].image_url === image, "the image changed on its way");
});

// A change shows at once.

await check("a preset of the client's own serves the next request, and its next version the one after", async () => {
  for (const temperature of [0.5, 0.25, 0]) {
    await manager.sdk.presets.createPresetsResponses({ slug: "own", responsesRequest: { model: "acme/large", temperature } });
    await chat.send(inference, { model: "@preset/own" });
    assert.equal((await upstream()).body.temperature, temperature);
  }
  assert.equal(inference.seen.headers.get("x-preset"), "own@3");
});

// Errors

const refused = [
  { name: "an unknown preset", who: inference, more: { model: "@preset/nobody" }, type: errors.NotFoundResponseError, status: 404, cause: "preset_not_found", message: /^Preset not found: @preset\/nobody$/ },
  { name: "an unknown version", who: inference, more: { model: "acme/other@preset/copywriter@3" }, type: errors.NotFoundResponseError, status: 404, cause: "preset_version_not_found", message: /@preset\/copywriter@3$/ },
  { name: "a malformed reference", who: inference, more: { model: "@preset/" }, type: errors.BadRequestResponseError, status: 400, cause: "invalid_prompt", message: /\/model/ },
  { name: "a reference in models", who: inference, more: { models: ["@preset/copywriter"] }, type: errors.BadRequestResponseError, status: 400, cause: "invalid_prompt", message: /\/models\/0/ },
  { name: "two presets", who: client(inferenceKey, { fields: { preset: "assistant" } }), more: { model: "@preset/copywriter" }, type: errors.BadRequestResponseError, status: 400, cause: "invalid_prompt", message: /\/preset/ },
  { name: "an unknown key", who: stranger, more: { model: "@preset/copywriter" }, type: errors.UnauthorizedResponseError, status: 401, cause: "invalid_api_key", message: /^Invalid credentials$/ },
  { name: "no key", who: client(undefined), more: { model: "@preset/copywriter" }, type: errors.UnauthorizedResponseError, status: 401, cause: "invalid_api_key", message: /^Missing Authentication header$/ },
  { name: "a management key", who: manager, more: { model: "@preset/copywriter" }, type: errors.ForbiddenResponseError, status: 403, cause: "insufficient_permissions", message: /./ },
];

const before = await count();

for (const { name, who, more, type, status, cause, message } of refused) {
  for (const stream of [false, true]) {
    const how = stream ? ", streaming" : "";

    await check(`chat.send with ${name}${how}: ${type.name}`, async () => {
      const err = await failure(() => chat.send(who, { ...more, stream }));
      assert.ok(err instanceof type, `got ${err.name}: ${err.body ?? err.message}`);
      assert.equal(err.statusCode, status);
      assert.equal(err.error.code, status);
      assert.match(err.error.message, message);
    });

    // The client's own error leaves out the type, which its body has.
    await check(`responses.send with ${name}${how}: ${type.name}`, async () => {
      const err = await failure(() => responses.send(who, { ...more, stream }));
      assert.ok(err instanceof type, `got ${err.name}: ${err.body ?? err.message}`);
      assert.equal(err.statusCode, status);
      assert.equal(err.error.code, status);
      assert.match(err.error.message, message);
      assert.equal(JSON.parse(err.body).error.type, cause);
    });
  }
}

await check("nothing of the refused requests reached the service", async () => {
  assert.equal(await count(), before);
});

for (const [name, api] of Object.entries({ "chat.send": chat, "responses.send": responses })) {
  for (const stream of [false, true]) {
    await check(`${name}: the service's error${stream ? ", streaming" : ""}: BadGatewayResponseError`, async () => {
      const err = await failure(() => api.send(inference, { model: "acme/overloaded@preset/copywriter", stream }));
      assert.ok(err instanceof errors.BadGatewayResponseError, `got ${err.name}: ${err.body ?? err.message}`);
      assert.equal(err.statusCode, 502);
      assert.equal(err.error.message, "Provider returned error");
      assert.equal(err.error.metadata.raw, "upstream connect error: acme/overloaded");
      assert.equal(err.headers.get("x-preset"), "copywriter@2");
    });
  }
}

// Models

await check("models.list has the service's models and the presets", async () => {
  const { result } = await inference.sdk.models.list();
  assert.deepEqual(result.data.map(({ id }) => id), ["acme/large", "acme/small", "@preset/assistant", "@preset/copywriter", "@preset/own"]);
  const [large, , assistant] = result.data;
  assert.deepEqual(assistant.pricing, large.pricing);
  assert.deepEqual(assistant.supportedParameters, large.supportedParameters);
  assert.equal(assistant.contextLength, large.contextLength);
  const { header } = await upstream();
  assert.equal(header["Accept-Encoding"]?.[0] ?? "identity", "identity");
});

finish();
