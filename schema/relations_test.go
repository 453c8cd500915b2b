package schema_test

import (
	"strings"
	"testing"
)

func TestRelations(t *testing.T) {
	const (
		advisor  = `{"type":"openrouter:advisor"}`
		subagent = `{"type":"openrouter:subagent"}`
	)
	named := func(kind, name string) string {
		return `{"parameters":{"model":"m","name":"` + name + `"},"type":"openrouter:` + kind + `"}`
	}
	tools := func(tools ...string) string { return `{"tools":[` + strings.Join(tools, ",") + `]}` }
	patterns := func(member string, n int) string {
		return `{"plugins":[{"id":"web"},{"id":"auto-router","` + member + `":` + list(n/512, text(512)) + `}]}`
	}
	const differ = "must differ from the names of other tools of this type"
	checkRules(t, schemas(t).ResponsesRequest, []rule{
		{"one advisor", tools(advisor), nil},
		{"a named and an unnamed advisor", tools(advisor, named("advisor", "a")), nil},
		{"two names", tools(named("advisor", "a"), named("advisor", "A")), nil},
		{"one name in two kinds", tools(named("advisor", "a"), named("subagent", "a")), nil},
		{"two unnamed subagents", tools(subagent, subagent), nil},
		{"two unnamed advisors", tools(advisor, subagent, advisor), refused("/tools/2: must have a name, as another advisor has none")},
		{"one name twice", tools(named("advisor", "a"), advisor, named("advisor", "a")), refused("/tools/2/parameters/name: " + differ)},
		{"one name twice but for spaces", tools(named("subagent", "a"), named("subagent", " a ")), refused("/tools/1/parameters/name: " + differ)},
		{"a type in escapes", tools(named("advisor", "a"), strings.Replace(named("advisor", "a"), "openrouter", `\u006fpenrouter`, 1)), refused("/tools/1/parameters/name: " + differ)},
		{"a blank name", tools(named("advisor", "  ")), refused("/tools/0/parameters/name: must not be blank")},
		{"functions of one name", tools(`{"type":"function","name":"f","parameters":null}`, `{"type":"function","name":"f","parameters":null}`, advisor), nil},
		{"deferred and found", tools(`{"type":"function","name":"f","parameters":{},"defer_loading":true}`, `{"type":"openrouter:tool_search"}`), nil},
		{"not deferred", tools(`{"type":"function","name":"f","parameters":{},"defer_loading":false}`), nil},
		{"a function's own word", tools(`{"type":"function","name":"f","parameters":{"defer_loading":true}}`), nil},
		{"deferred for good", tools(advisor, `{"defer_loading":true,"type":"function","name":"f","parameters":{}}`), refused("/tools/1/defer_loading: must be false without an openrouter:tool_search tool")},
		{"deferred in a namespace", tools(`{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","defer_loading":true}]}`), refused("/tools/0/tools/0/defer_loading: must be false without an openrouter:tool_search tool")},
		{"beside a wrong type", `{"model":7,"tools":[` + advisor + "," + advisor + `]}`, refused("/model: must be a string", "/tools/1: must have a name, as another advisor has none")},
		{"in a list with a wrong type", tools(advisor, advisor, "7"), refused("/tools/2: must be an object")},
		{"patterns of 65536 characters", patterns("allowed_models", 65536), nil},
		{"patterns of more", patterns("allowed_models", 65536+512), refused("/plugins/1/allowed_models: must have at most 65536 characters in all")},
		{"excluded patterns of more", patterns("excluded_models", 65536+512), refused("/plugins/1/excluded_models: must have at most 65536 characters in all")},
		{"a subagent's server tool", tools(`{"type":"openrouter:subagent","parameters":{"tools":[{"type":"openrouter:web_search"},{"type":"web_search"}]}}`), nil},
		{"a subagent's function", tools(`{"type":"openrouter:subagent","parameters":{"tools":[{"type":"web_search"},{"type":"function"}]}}`), refused("/tools/0/parameters/tools/1/type: must be the type of a server tool")},
		{"20 handles", tools(`{"type":"web_search","x_search":{"allowed_x_handles":` + list(20, `"h"`) + `}}`), nil},
		{"21 handles", tools(`{"type":"web_search","x_search":{"excluded_x_handles":` + list(21, `"h"`) + `}}`), refused("/tools/0/x_search/excluded_x_handles: must have at most 20 items")},
		{"an allowlist", tools(`{"type":"openrouter:bash","parameters":{"environment":{"type":"container_auto","network_policy":{"type":"allowlist","allowed_domains":` + list(50, `"d"`) + `}}}}`), nil},
		{"a long allowlist", tools(`{"type":"openrouter:bash","parameters":{"environment":{"type":"container_auto","network_policy":{"type":"allowlist","allowed_domains":` + list(51, `"d"`) + `}}}}`), refused("/tools/0/parameters/environment/network_policy/allowed_domains: must have at most 50 items")},
		{"an allowlist of nothing", tools(`{"type":"openrouter:bash","parameters":{"environment":{"type":"container_auto","network_policy":{"type":"allowlist"}}}}`), refused("/tools/0/parameters/environment/network_policy/allowed_domains: required")},
		{"no network", tools(`{"type":"openrouter:bash","parameters":{"environment":{"type":"container_auto","network_policy":{"type":"disabled"}}}}`), nil},
	})
}
