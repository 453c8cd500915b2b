// What list.mjs and fields.mjs read: the types of the official clients.

import path from "node:path";
import ts from "typescript";

const modules = path.join(import.meta.dirname, "..");
const client = (folder, name, file) => path.join(modules, folder, "node_modules", name, file);
export const openai = (file) => client("openai", "openai", `resources/${file}.d.ts`);
export const anthropic = (file) => client("events", "@anthropic-ai/sdk", `resources/${file}.d.ts`);
export const openrouter = (name) => client("openrouter", "@openrouter/sdk", `esm/models/${name.toLowerCase()}.d.ts`);

// readTypes returns a checker of files, and a function that returns the type that a file exports
// under a name.
export function readTypes(files) {
  const program = ts.createProgram(files, {
    strict: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: [],
  });
  const checker = program.getTypeChecker();
  function exported(file, name) {
    const source = program.getSourceFile(file);
    if (!source) throw new Error(`${file} is missing: npm install in its folder`);
    const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(source));
    const symbol = symbols.find((one) => one.name === name);
    if (!symbol) throw new Error(`${file} has no type ${name}`);
    return checker.getDeclaredTypeOfSymbol(symbol);
  }
  return { checker, exported };
}

export const parts = (type) => (type.isUnion() ? type.types : [type]);
// OpenRouter's client renames members.
export const wireName = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
// isScalar reports whether a type has no members. Clients write string & {} for any string.
export const isScalar = (type) => (type.isIntersection() ? type.types.some(isScalar) : !(type.flags & ts.TypeFlags.Object));
export { ts };
