// Prints the fields of requests that official clients have types for, as JSON: {dialect: {field: [client]}},
// and the types of the tools in them, as {"tools": {type: [client]}}. Fields that become headers are no fields.

import { anthropic, isScalar, openai, openrouter, parts, readTypes, ts, wireName } from "./types.mjs";

const requests = [
  ["chat/completions", "openai", "ChatCompletionCreateParamsBase", openai("chat/completions/completions")],
  ["chat/completions", "@openrouter/sdk", "ChatRequest", openrouter("ChatRequest")],
  ["responses", "openai", "ResponseCreateParamsBase", openai("responses/responses")],
  ["responses", "openai", "ResponseCompactParams", openai("responses/responses")],
  ["responses", "openai", "InputTokenCountParams", openai("responses/input-tokens")],
  ["responses", "openai", "ResponseCreateParamsBase", openai("beta/responses/responses")],
  ["responses", "@openrouter/sdk", "ResponsesRequest", openrouter("ResponsesRequest")],
  ["messages", "@anthropic-ai/sdk", "MessageCreateParamsBase", anthropic("messages/messages")],
  ["messages", "@anthropic-ai/sdk", "MessageCountTokensParams", anthropic("messages/messages")],
  ["messages", "@anthropic-ai/sdk", "MessageCreateParamsBase", anthropic("beta/messages/messages")],
  ["messages", "@anthropic-ai/sdk", "MessageCountTokensParams", anthropic("beta/messages/messages")],
  ["messages", "@openrouter/sdk", "MessagesRequest", openrouter("MessagesRequest")],
  ["images", "openai", "ImageGenerateParamsBase", openai("images")],
  ["images", "@openrouter/sdk", "ImageGenerationRequest", openrouter("ImageGenerationRequest")],
];
const { checker, exported } = readTypes(requests.map((request) => request[3]));

const all = { tools: {} };
function add(kind, name, client) {
  const clients = ((all[kind] ??= {})[name] ??= []);
  if (!clients.includes(client)) clients.push(client);
}
const elements = (type) => parts(type).flatMap((part) => (checker.isArrayType(part) ? parts(checker.getTypeArguments(part)[0]) : []));

for (const [dialect, client, root, file] of requests) {
  for (const member of checker.getPropertiesOfType(exported(file, root))) {
    if (/^Header param/.test(ts.displayPartsToString(member.getDocumentationComment(checker)))) continue;
    const name = client === "@openrouter/sdk" ? wireName(member.name) : member.name;
    add(dialect, name, client);
    if (name !== "tools") continue;
    for (const tool of elements(checker.getTypeOfSymbol(member))) {
      const type = !isScalar(tool) && tool.getProperty("type");
      for (const kind of type ? parts(checker.getTypeOfSymbol(type)) : []) if (kind.isStringLiteral()) add("tools", kind.value, client);
    }
  }
}
console.log(JSON.stringify(all, null, "  "));
