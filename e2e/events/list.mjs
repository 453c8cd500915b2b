// Prints the events of streams that official clients have types for, as JSON. Each event has the
// places in it that speak of usage: {dialect: {event: {place: [client]}}}. A place is a path of
// member names, with [] for elements. An event of the chat dialect has no type.

import path from "node:path";
import ts from "typescript";

const modules = path.join(import.meta.dirname, "..");
const client = (folder, name, file) => path.join(modules, folder, "node_modules", name, file);
const openai = (file) => client("openai", "openai", `resources/${file}.d.ts`);
const anthropic = (file) => client("events", "@anthropic-ai/sdk", `resources/${file}.d.ts`);
const openrouter = (name) => client("openrouter", "@openrouter/sdk", `esm/models/${name.toLowerCase()}.d.ts`);

const streams = [
  ["chat", "openai", "ChatCompletionChunk", openai("chat/completions/completions")],
  ["chat", "@openrouter/sdk", "ChatStreamChunk", openrouter("ChatStreamChunk")],
  ["responses", "openai", "ResponseStreamEvent", openai("responses/responses")],
  ["responses", "openai", "BetaResponseStreamEvent", openai("beta/responses/responses")],
  ["responses", "@openrouter/sdk", "StreamEvents", openrouter("StreamEvents")],
  ["messages", "@anthropic-ai/sdk", "RawMessageStreamEvent", anthropic("messages/messages")],
  ["messages", "@anthropic-ai/sdk", "BetaRawMessageStreamEvent", anthropic("beta/messages/messages")],
];

const program = ts.createProgram(streams.map((stream) => stream[3]), {
  strict: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: [],
});
const checker = program.getTypeChecker();

// exported returns the type that a file exports under a name.
function exported(file, name) {
  const source = program.getSourceFile(file);
  if (!source) throw new Error(`${file} is missing: npm install in its folder`);
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(source));
  const symbol = symbols.find((one) => one.name === name);
  if (!symbol) throw new Error(`${file} has no type ${name}`);
  return checker.getDeclaredTypeOfSymbol(symbol);
}

const parts = (type) => (type.isUnion() ? type.types : [type]);
// OpenRouter's client renames members.
const wireName = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const speaksOfUsage = /usage|cost|byok|(^|_)(cached|thinking|(cache|input|output|prompt|completion|reasoning|total)_[a-z_]*)?tokens$/;

// isScalar reports whether a type has no members. Clients write string & {} for any string.
const isScalar = (type) => (type.isIntersection() ? type.types.some(isScalar) : !(type.flags & ts.TypeFlags.Object));

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
