// Generates clients from openapi.yaml and openapi-admin.yaml with @hey-api/openapi-ts, and with
// openapi-typescript and openapi-fetch. Compiles them with the programs that use them.
// The compiled programs are generated/out/hey.js and generated/out/fetch.js.
//
//   node generate.mjs openapi.yaml openapi-admin.yaml

import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { createClient } from "@hey-api/openapi-ts";

const [api, admin] = process.argv.slice(2);

// run ends the process if a program of an installed package fails.
function run(...args) {
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) {
    process.exit(1);
  }
}

rmSync("generated", { recursive: true, force: true });
mkdirSync("generated");
for (const [file, name] of [[api, "api"], [admin, "admin"]]) {
  await createClient({
    input: file,
    output: { path: `generated/${name}-client`, module: { extension: ".js" } },
    logs: { level: "silent", file: false },
  });
  run("node_modules/openapi-typescript/bin/cli.js", file, "--output", `generated/${name}.d.ts`);
}
for (const program of ["hey.ts", "fetch.ts"]) {
  copyFileSync(program, `generated/${program}`);
}
run("node_modules/typescript/bin/tsc", "--project", ".", "--outDir", "generated/out");
