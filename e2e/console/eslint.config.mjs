// The rules for the console's modules and for its tests. The types of the modules are
// checked by tsc.

import js from "@eslint/js";

const browser = ["AbortController", "AbortSignal", "Blob", "BroadcastChannel", "CSS", "CustomEvent", "DOMException", "Element", "Event", "EventTarget", "HTMLButtonElement", "HTMLElement", "HTMLTableCellElement", "HTMLTextAreaElement", "Highlight", "MutationObserver", "Node", "NodeFilter", "PerformanceObserver", "PopStateEvent", "Range", "ResizeObserver", "Response", "TextDecoder", "TextDecoderStream", "TextEncoder", "URL", "URLSearchParams", "Worker", "addEventListener", "clearInterval", "clearTimeout", "confirm", "console", "crypto", "dispatchEvent", "document", "fetch", "getComputedStyle", "getSelection", "history", "location", "matchMedia", "navigator", "performance", "queueMicrotask", "removeEventListener", "requestAnimationFrame", "requestIdleCallback", "scheduler", "scrollTo", "sessionStorage", "setInterval", "setTimeout", "structuredClone", "trustedTypes", "window"];
const globals = (names) => Object.fromEntries(names.map((name) => [name, "readonly"]));

const rules = {
  ...js.configs.recommended.rules,
  "no-control-regex": "off", // JSON has such characters
  curly: "error",
  eqeqeq: "error",
  "no-implied-eval": "error",
  "no-eval": "error",
  "no-new-func": "error",
  "no-script-url": "error",
  "no-shadow": "error",
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": "error",
  "prefer-template": "off",
  radix: "error",
};

export default [
  {
    files: ["**/assets/**/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals(browser) },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      ...rules,
      "no-restricted-properties": ["error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML", "srcdoc", "cssText"].map((property) => ({ property, message: "Text stays text." })),
        { object: "document", property: "write" }, { object: "document", property: "cookie" }, { object: "window", property: "localStorage" }],
      "no-restricted-syntax": ["error", { selector: "TemplateElement[value.raw=/\\n\\t/]", message: "The server leaves out tabs at the beginning of lines." },
        { selector: "TemplateElement[value.raw=/ \\u002F\\u002F [^'\"]*\\n/]", message: "The server leaves out comments at the end of lines." }],
      "no-restricted-globals": ["error", "localStorage", "indexedDB", "event", "name", "open", "status"],
    },
  },
  {
    files: ["e2e/console/*.mjs"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals([...browser, "Buffer", "localStorage", "process"]) },
    rules,
  },
];
