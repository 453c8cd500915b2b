// Generates a client from openapi.yaml with @hey-api/openapi-ts, and one with
// openapi-typescript and openapi-fetch. Compiles both with the programs that use them.
// The compiled programs are generated/out/hey.js and generated/out/fetch.js.
//
//   node generate.mjs openapi.yaml

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { createClient } from "@hey-api/openapi-ts";

const [file] = process.argv.slice(2);

// run ends the process if a program of an installed package fails.
function run(...args) {
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) {
    process.exit(1);
  }
}

rmSync("generated", { recursive: true, force: true });
mkdirSync("generated");
await createClient({
  input: file,
  output: { path: "generated/client", module: { extension: ".js" } },
  logs: { level: "silent", file: false },
});
run("node_modules/openapi-typescript/bin/cli.js", file, "--output", "generated/schema.d.ts");
for (const program of ["hey.ts", "fetch.ts"]) {
  copyFileSync(program, `generated/${program}`);
}
run("node_modules/typescript/bin/tsc", "--project", ".", "--outDir", "generated/out");
