// Uses the clients that @hey-api/openapi-ts makes of the documents.
//
//   node generated/out/hey.js site admin managementKey

import assert from "node:assert/strict";
import { createClient as createAdminClient } from "./admin-client/client/index.js";
import { keyCreate, keyGet, keyList, keyRevoke } from "./admin-client/index.js";
import { createClient } from "./api-client/client/index.js";
import {
  inferenceChat, inferenceMessages, inferenceResponses,
  presetCreateChat, presetCreateMessages, presetCreateResponses, presetGet, presetList,
} from "./api-client/index.js";
import type { ChatMessage, FunctionTool, MessagesMessage, ResponsesItem } from "./api-client/index.js";

const [site, admin, managementKey] = process.argv.slice(2);

const manager = createClient({ baseUrl: `${site}/v1`, auth: managementKey });
const operator = createAdminClient({ baseUrl: `${admin}/presets` });

const tool: FunctionTool = { type: "function", name: "get_order", parameters: { type: "object" } };
const question: ChatMessage = { role: "user", content: [{ type: "text", text: "ping" }] };
const turn: MessagesMessage = { role: "user", content: [{ type: "text", text: "ping" }] };
const item: ResponsesItem = { role: "user", content: [{ type: "input_text", text: "ping" }] };
// @ts-expect-error content is a text or parts
const wrong: ChatMessage = { role: "user", content: 5 };
// @ts-expect-error there is no such role
const absent: ChatMessage = { role: "nobody", content: "ping" };
// @ts-expect-error a block has a type
const blockless: MessagesMessage = { role: "user", content: [{ text: "ping" }] };
assert.ok(wrong && absent && blockless);
const later: ChatMessage = { role: "user", content: [{ type: "hologram", hologram: { any: 1 } }] };

const created = await presetCreateChat({
  client: manager, path: { slug: "hey" },
  body: { model: "acme/small", temperature: 0.5, messages: [{ role: "system", content: "Be brief." }, question, later] },
});
assert.equal(created.response.status, 200, JSON.stringify(created.error));
assert.equal(created.data?.data.designated_version.system_prompt, "Be brief.");

const read = await presetGet({ client: manager, path: { slug: "hey" } });
assert.equal(read.data?.data.slug, "hey");
assert.deepEqual(read.data?.data.designated_version.config, { model: "acme/small", temperature: 0.5 });

const next = await presetCreateResponses({
  client: manager, path: { slug: "hey" },
  body: { model: "acme/small", input: [item], tools: [tool], tool_choice: { type: "function", name: "get_order" } },
});
assert.equal(next.data?.data.designated_version.version, 2, JSON.stringify(next.error));
const third = await presetCreateMessages({
  client: manager, path: { slug: "hey" },
  body: { model: "acme/small", max_tokens: 5, messages: [turn], system: "Be brief.", thinking: { type: "adaptive", display: "full" } },
});
assert.equal(third.data?.data.designated_version.version, 3, JSON.stringify(third.error));

const list = await presetList({ client: manager, query: { limit: 10 } });
assert.ok(list.data?.data.some(({ slug }) => slug === "hey"));
assert.equal(list.data?.total_count, list.data?.data.length);

const refused = await presetCreateChat({
  client: manager, path: { slug: "hey" },
  // @ts-expect-error temperature is a number
  body: { temperature: "hot" },
});
assert.equal(refused.response.status, 400);
assert.ok(typeof refused.error === "object" && refused.error.error.code === 400); // a 431 has a text
assert.deepEqual(refused.error.error.metadata?.issues.map(({ path }) => path), ["/temperature"]);

const forbidden = await keyCreate({ client: operator, body: { kind: "inference" } });
assert.equal(forbidden.response.status, 403, "fetch without an Origin");
assert.ok(typeof forbidden.error === "object");
assert.match(forbidden.error.error, /origin/);
const issued = await keyCreate({ client: operator, body: { kind: "inference", name: "hey" }, headers: { Origin: admin } });
assert.equal(issued.response.status, 201, JSON.stringify(issued.error));
const secret: string | undefined = issued.data?.key;
const keys = await keyList({ client: operator, headers: { Origin: admin } });
assert.ok(keys.data?.keys.some(({ name, live }) => name === "hey" && live));
const spare = await keyCreate({ client: operator, body: { kind: "inference" }, headers: { Origin: admin } });
const path = { key_id: spare.data!.id };
const revoked = await keyRevoke({ client: operator, path, headers: { Origin: admin } });
assert.equal(revoked.data?.live, false, JSON.stringify(revoked.error));
const stored = await keyGet({ client: operator, path, headers: { Origin: admin } });
assert.equal(stored.data?.live, false, JSON.stringify(stored.error));

const caller = createClient({ baseUrl: `${site}/v1`, auth: secret });
const ran = await inferenceChat({ client: caller, body: { model: "@preset/hey", messages: [question, later] } });
assert.equal(ran.response.status, 200, JSON.stringify(ran.error));
assert.equal(ran.response.headers.get("X-Preset"), "hey@3");
assert.ok(ran.data && "choices" in ran.data && Array.isArray(ran.data.choices));
assert.equal(ran.data.choices[0].message.content, "pong");

const dry = { "X-Preset-Dry-Run": true };
for (const { data, error } of [
  await inferenceChat({ client: caller, body: { model: "@preset/hey", messages: [question] }, headers: dry }),
  await inferenceResponses({ client: caller, body: { model: "@preset/hey", input: [item], instructions: "Think." }, headers: dry }),
  await inferenceMessages({ client: caller, body: { model: "@preset/hey", max_tokens: 5, messages: [turn] }, headers: dry }),
]) {
  assert.ok(data && "data" in data, JSON.stringify(error));
  const { fields, body } = data.data as { fields: Record<string, { from: string }>; body: string };
  assert.equal(fields.model?.from, "preset");
  assert.match(body, /ping/);
}
console.log("all checks passed");
