// Prints the events of streams that official clients have types for, as JSON. Each event has the
// places in it that speak of usage: {dialect: {event: {place: [client]}}}. A place is a path of
// member names, with [] for elements. An event of the chat dialect has no type.

import { anthropic, isScalar, openai, openrouter, parts, readTypes, ts, wireName } from "./types.mjs";

const streams = [
  ["chat", "openai", "ChatCompletionChunk", openai("chat/completions/completions")],
  ["chat", "@openrouter/sdk", "ChatStreamChunk", openrouter("ChatStreamChunk")],
  ["responses", "openai", "ResponseStreamEvent", openai("responses/responses")],
  ["responses", "openai", "BetaResponseStreamEvent", openai("beta/responses/responses")],
  ["responses", "@openrouter/sdk", "StreamEvents", openrouter("StreamEvents")],
  ["messages", "@anthropic-ai/sdk", "RawMessageStreamEvent", anthropic("messages/messages")],
  ["messages", "@anthropic-ai/sdk", "BetaRawMessageStreamEvent", anthropic("beta/messages/messages")],
];

const { checker, exported } = readTypes(streams.map((stream) => stream[3]));

const speaksOfUsage = /usage|cost|byok|(^|_)(cached|thinking|(cache|input|output|prompt|completion|reasoning|total)_[a-z_]*)?tokens$/;

// visit calls found with the path of each scalar below a type that speaks of usage.
function visit(type, place, within, found) {
  for (const part of parts(type)) {
    if (isScalar(part)) {
      if (speaksOfUsage.test(place) && !(part.flags & (ts.TypeFlags.Null | ts.TypeFlags.Undefined))) found(place);
      continue;
    }
    if (within.includes(part)) continue; // a type within itself has nothing new
    const inside = [...within, part];
    if (checker.isArrayType(part) || checker.isTupleType(part)) {
      for (const element of checker.getTypeArguments(part)) visit(element, `${place}[]`, inside, found);
      continue;
    }
    for (const index of checker.getIndexInfosOfType(part)) visit(index.type, `${place}.*`, inside, found);
    for (const member of checker.getPropertiesOfType(part)) {
      const name = wireName(member.name);
      visit(checker.getTypeOfSymbol(member), place ? `${place}.${name}` : name, inside, found);
    }
  }
}

// eventName returns the literal type of an event, or nothing for OpenRouter's unknown ones.
function eventName(event) {
  const type = event.getProperty("type");
  if (!type) return "";
  const literals = parts(checker.getTypeOfSymbol(type));
  if (literals.length !== 1 || !literals[0].isStringLiteral()) throw new Error(`${checker.typeToString(event)} has no single type`);
  return literals[0].value === "UNKNOWN" ? undefined : literals[0].value;
}

const all = {};
for (const [dialect, name, root, file] of streams) {
  for (const event of parts(exported(file, root))) {
    const named = eventName(event);
    if (named === undefined) continue;
    const places = ((all[dialect] ??= {})[named] ??= {});
    visit(event, "", [], (place) => {
      const clients = (places[place] ??= []);
      if (!clients.includes(name)) clients.push(name);
    });
  }
}
console.log(JSON.stringify(all, null, "  "));
