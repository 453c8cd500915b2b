package schema_test

import (
	"strings"
	"testing"
)

func TestRelations(t *testing.T) {
	tools := func(tools ...string) string { return `{"tools":[` + strings.Join(tools, ",") + `]}` }
	patterns := func(member string, n int) string {
		return `{"plugins":[{"id":"web"},{"id":"auto-router","` + member + `":` + list(n/512, text(512)) + `}]}`
	}
	checkRules(t, schemas(t).ResponsesRequest, []rule{
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
