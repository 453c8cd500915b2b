// Uses the types that openapi-typescript makes of the documents, with openapi-fetch.
//
//   node generated/out/fetch.js site admin managementKey

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths as adminPaths } from "./admin.js";
import type { components, paths } from "./api.js";

const [site, admin, managementKey] = process.argv.slice(2);

const manager = createClient<paths>({ baseUrl: `${site}/v1`, headers: { Authorization: `Bearer ${managementKey}` } });
const operator = createClient<adminPaths>({ baseUrl: `${admin}/presets` });

type Schemas = components["schemas"];

const tool: Schemas["FunctionTool"] = { type: "function", name: "get_order", parameters: { type: "object" } };
const question: Schemas["ChatMessage"] = { role: "user", content: [{ type: "text", text: "ping" }] };
const turn: Schemas["MessagesMessage"] = { role: "user", content: [{ type: "text", text: "ping" }] };
const item: Schemas["ResponsesItem"] = { role: "user", content: [{ type: "input_text", text: "ping" }] };
// @ts-expect-error content is a text or parts
const wrong: Schemas["ChatMessage"] = { role: "user", content: 5 };
// @ts-expect-error there is no such role
const absent: Schemas["ChatMessage"] = { role: "nobody", content: "ping" };
// @ts-expect-error a block has a type
const blockless: Schemas["MessagesMessage"] = { role: "user", content: [{ text: "ping" }] };
assert.ok(wrong && absent && blockless);
const later: Schemas["ChatMessage"] = { role: "user", content: [{ type: "hologram", hologram: { any: 1 } }] };

const slug = { params: { path: { slug: "fetch" } } };
const created = await manager.POST("/presets/{slug}/chat/completions", {
  ...slug,
  body: { model: "acme/small", temperature: 0.5, messages: [{ role: "system", content: "Be brief." }, question, later] },
});
assert.equal(created.response.status, 200, JSON.stringify(created.error));
assert.equal(created.data?.data.designated_version.system_prompt, "Be brief.");

const read = await manager.GET("/presets/{slug}", slug);
assert.equal(read.data?.data.slug, "fetch");
assert.deepEqual(read.data?.data.designated_version.config, { model: "acme/small", temperature: 0.5 });

const next = await manager.POST("/presets/{slug}/responses", {
  ...slug,
  body: { model: "acme/small", input: [item], tools: [tool], tool_choice: { type: "function", name: "get_order" } },
});
assert.equal(next.data?.data.designated_version.version, 2, JSON.stringify(next.error));
const third = await manager.POST("/presets/{slug}/messages", {
  ...slug,
  body: { model: "acme/small", max_tokens: 5, messages: [turn], system: "Be brief.", thinking: { type: "adaptive", display: "full" } },
});
assert.equal(third.data?.data.designated_version.version, 3, JSON.stringify(third.error));

const list = await manager.GET("/presets", { params: { query: { limit: 10 } } });
assert.ok(list.data?.data.some(({ slug }) => slug === "fetch"));
assert.equal(list.data?.total_count, list.data?.data.length);

const refused = await manager.POST("/presets/{slug}/chat/completions", {
  ...slug,
  // @ts-expect-error temperature is a number
  body: { temperature: "hot" },
});
assert.equal(refused.response.status, 400);
assert.ok(typeof refused.error === "object"); // a 431 has a text
assert.equal(refused.error.error.code, 400);
assert.deepEqual(refused.error.error.metadata?.issues.map(({ path }) => path), ["/temperature"]);

const forbidden = await operator.POST("/keys", { body: { kind: "inference" } });
assert.equal(forbidden.response.status, 403, "fetch without an Origin");
assert.ok(typeof forbidden.error === "object");
assert.match(forbidden.error.error, /origin/);
const origin = { header: { Origin: admin } };
const issued = await operator.POST("/keys", { body: { kind: "inference", name: "fetch" }, params: origin });
assert.equal(issued.response.status, 201, JSON.stringify(issued.error));
const secret: string | undefined = issued.data?.key;
const keys = await operator.GET("/keys", { params: origin });
assert.ok(keys.data?.keys.some(({ name, live }) => name === "fetch" && live));
const spare = await operator.POST("/keys", { body: { kind: "inference" }, params: origin });
const params = { ...origin, path: { key_id: spare.data!.id } };
const revoked = await operator.DELETE("/keys/{key_id}", { params });
assert.equal(revoked.data?.live, false, JSON.stringify(revoked.error));
const stored = await operator.GET("/keys/{key_id}", { params });
assert.equal(stored.data?.live, false, JSON.stringify(stored.error));

const caller = createClient<paths>({ baseUrl: `${site}/v1`, headers: { Authorization: `Bearer ${secret}` } });
const ran = await caller.POST("/chat/completions", { body: { model: "@preset/fetch", messages: [question, later] } });
assert.equal(ran.response.status, 200, JSON.stringify(ran.error));
assert.equal(ran.response.headers.get("X-Preset"), "fetch@3");
assert.ok(typeof ran.data === "object" && "choices" in ran.data && Array.isArray(ran.data.choices));
assert.equal(ran.data.choices[0].message.content, "pong");

const dry = { header: { "X-Preset-Dry-Run": true } };
for (const { data, error } of [
  await caller.POST("/chat/completions", { body: { model: "@preset/fetch", messages: [question] }, params: dry }),
  await caller.POST("/responses", { body: { model: "@preset/fetch", input: [item], instructions: "Think." }, params: dry }),
  await caller.POST("/messages", { body: { model: "@preset/fetch", max_tokens: 5, messages: [turn] }, params: dry }),
]) {
  assert.ok(typeof data === "object" && "data" in data, JSON.stringify(error));
  const { fields, body } = data.data as Schemas["DryRun"];
  assert.equal(fields.model?.from, "preset");
  assert.match(body, /ping/);
}
console.log("all checks passed");
