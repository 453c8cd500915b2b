// Checks that a document is valid OpenAPI 3.1. Also checks a client's requests and
// answers against it. Exits with 1 on a failure.
//
//   node check.mjs openapi.yaml [exchanges]
//
// exchanges is the file that openrouter/harness.mjs records.

import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";
import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const [file, exchanges] = process.argv.slice(2);

let failures = 0;

function fail(what, why) {
  failures++;
  console.log(`FAIL  ${what}\n      ${typeof why === "string" ? why : JSON.stringify(why)}`);
}

const validator = new Validator();
const { valid, errors } = await validator.validate(readFileSync(file, "utf8"));
if (!valid) {
  fail(file, errors);
}
const { specification: description } = validator;
if (!/^3\.1\.\d+$/.test(description.openapi)) {
  fail(file, `is OpenAPI ${description.openapi}, want 3.1`);
}

// follow returns the target of a reference within the document.
function follow(object) {
  while (object?.$ref) {
    object = object.$ref.slice(2).split("/").reduce((at, key) => at[key.replaceAll("~1", "/").replaceAll("~0", "~")], description);
  }
  return object;
}

// The validator accepts any object as a schema. This one refuses unknown keywords.
const ajv = new Ajv({ strict: true, strictTypes: false, strictRequired: false, allErrors: true });
addFormats(ajv);
for (const keyword of ["openapi", "info", "servers", "security", "tags", "paths", "components"]) {
  ajv.addKeyword(keyword);
}
ajv.addSchema({ $id: "https://example.com/openapi.yaml", ...description });

const compiled = new Map();

// check validates a value by the schema at a place of the document, and returns the
// errors.
function check(place, value) {
  const pointer = place.map((key) => encodeURIComponent(key.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/");
  if (!compiled.has(pointer)) {
    compiled.set(pointer, ajv.compile({ $ref: `https://example.com/openapi.yaml#/${pointer}` }));
  }
  const validate = compiled.get(pointer);
  return validate(value) ? undefined : ajv.errorsText(validate.errors);
}

// eachSchema calls fn with the place of each schema that is not inside another one.
function eachSchema(object, place, fn) {
  if (object === null || typeof object !== "object") {
    return;
  }
  for (const [key, value] of Object.entries(object)) {
    if (key === "schema" || place.join("/") === "components/schemas") {
      fn([...place, key], value);
    } else {
      eachSchema(value, [...place, key], fn);
    }
  }
}

let schemas = 0;
eachSchema(description, [], (place, schema) => {
  schemas++;
  try {
    if (!ajv.validateSchema(schema)) {
      fail(place.join("/"), ajv.errorsText(ajv.errors));
    }
    check(place);
  } catch (err) {
    fail(place.join("/"), err.message);
  }
});

const methods = ["get", "put", "post", "delete", "patch"];
const operations = Object.entries(description.paths).flatMap(([path, item]) =>
  methods.filter((method) => item[method]).map((method) => ({ path, method, ...item[method] })));

const ids = operations.map(({ operationId }) => operationId);
for (const { path, method, operationId, parameters = [] } of operations) {
  const what = `${method} ${path}`;
  if (!operationId || ids.indexOf(operationId) !== ids.lastIndexOf(operationId)) {
    fail(what, `has the operationId ${operationId}, want one of its own`);
  }
  const inPath = parameters.map(follow).filter((parameter) => parameter.in === "path").map(({ name }) => name);
  const named = [...path.matchAll(/\{(.*?)\}/g)].map(([, name]) => name);
  if (inPath.toSorted().join() !== named.toSorted().join()) {
    fail(what, `describes the variables ${inPath}, has ${named}`);
  }
}
console.log(`${operations.length} operations, ${schemas} schemas`);

// matches tells whether a path matches a template.
function matches(template, path) {
  const want = template.split("/");
  const got = path.split("/");
  return want.length === got.length && want.every((segment, i) => segment === got[i] || segment.startsWith("{") && got[i] !== "");
}

// placeOf returns the place of the JSON schema of an object in the document.
function placeOf(object, place) {
  while (object.$ref) {
    place = object.$ref.slice(2).split("/");
    object = follow(object);
  }
  return object.content?.["application/json"] && [...place, "content", "application/json", "schema"];
}

// compare returns the differences between an exchange and the document.
function compare({ method, path, status, sent, received, headers }) {
  const url = new URL(path, "http://localhost");
  const there = operations.filter((operation) => matches(operation.path, url.pathname));
  const operation = there.find((one) => one.method === method.toLowerCase());
  if (!operation) {
    const want = there.length > 0 ? 405 : 404;
    return status === want ? undefined : `is not described, and the answer is no ${want}`;
  }
  const { responses, requestBody, parameters = [] } = operation;
  const place = ["paths", operation.path, operation.method];
  const described = responses[status];
  if (!described) {
    return "the status is not described";
  }
  const queries = parameters.map(follow).filter((parameter) => parameter.in === "query").map(({ name }) => name);
  const unknown = [...url.searchParams.keys()].filter((name) => !queries.includes(name));
  if (unknown.length > 0) {
    return `the parameters ${unknown} are not described`;
  }
  if (sent && status < 400) {
    const body = requestBody && placeOf(requestBody, [...place, "requestBody"]);
    const wrong = body ? check(body, JSON.parse(sent)) : "a body is not described";
    if (wrong) {
      return `the request's body: ${wrong}`;
    }
  }
  for (const [name, header] of Object.entries(follow(described).headers ?? {})) {
    const value = headers[name.toLowerCase()];
    const { schema } = follow(header);
    if (name === "ETag" && !new RegExp(schema.pattern).test(value)) {
      return `the header ${name} is ${value}`;
    }
  }
  const body = placeOf(described, [...place, "responses", String(status)]);
  if (!body) {
    return received === "" ? undefined : "the answer has a body, which is not described";
  }
  const wrong = check(body, JSON.parse(received));
  return wrong && `the answer's body: ${wrong}`;
}

if (exchanges) {
  const lines = readFileSync(exchanges, "utf8").trim().split("\n");
  const ours = lines.map((line) => JSON.parse(line)).filter(({ path }) => /^\/(presets|workspaces|keys?)([/?]|$)/.test(path));
  if (ours.length === 0) {
    fail(exchanges, "has none");
  }
  for (const exchange of ours) {
    const why = compare(exchange);
    if (why) {
      fail(`${exchange.method} ${exchange.path}: ${exchange.status}`, `${why}\n      ${exchange.sent.slice(0, 500)}\n      ${exchange.received.slice(0, 500)}`);
    }
  }
  console.log(`${ours.length} exchanges`);
}

console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
process.exitCode = failures === 0 ? 0 : 1;
