package schema_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/caddy-presets/caddy-presets/schema"
)

func TestUpdateWorkspace(t *testing.T) {
	tools := func(tools ...string) string {
		return `{"disabled_server_tools":["` + strings.Join(tools, `","`) + `"]}`
	}
	const form = "must be openrouter: and the name of a tool, in lowercase letters, digits and underscores"
	rules := []rule{
		{"name of 100", `{"name":` + text(100) + `}`, nil},
		{"name of 101", `{"name":` + text(101) + `}`, refused("/name: must be at most 100 characters")},
		{"slug of 51", `{"slug":"` + strings.Repeat("a", 51) + `"}`, refused("/slug: must be at most 50 characters")},
		{"slug with two hyphens", `{"slug":"a--b"}`, refused("/slug: must be lowercase letters and digits, in groups joined by single hyphens")},
		{"rate of 0", `{"io_logging_sampling_rate":0}`, refused("/io_logging_sampling_rate: must be at least 0.0001")},
		{"key id with a fraction", `{"io_logging_api_key_ids":["a",1.5]}`, refused("/io_logging_api_key_ids/1: must be a string or an integer")},
		{"description of 501", `{"description":` + text(501) + `}`, refused("/description: must be at most 500 characters")},
		{"no disabled tools", `{"disabled_server_tools":[]}`, nil},
		{"later tool", tools("openrouter:web_search", "openrouter:later_2"), nil},
		{"disabled tool that is a number", `{"disabled_server_tools":[1]}`, refused("/disabled_server_tools/0: must be a string")},
		{"disabled tool that is null", `{"disabled_server_tools":[null]}`, refused("/disabled_server_tools/0: must be a string")},
		{"disabled tool of nobody", tools("openrouter:web_search", "web_search"), refused("/disabled_server_tools/1: " + form)},
		{"disabled tool of another vendor", tools("acme:web_search"), refused("/disabled_server_tools/0: " + form)},
		{"disabled tool without a name", tools("openrouter:"), refused("/disabled_server_tools/0: " + form)},
		{"disabled tool in capitals", tools("openrouter:Bash"), refused("/disabled_server_tools/0: " + form)},
		{"empty disabled tool", tools(""), refused("/disabled_server_tools/0: " + form)},
		{"disabled tool and a line break", tools(`openrouter:bash\n`), refused("/disabled_server_tools/0: " + form)},
		{"disabled tool of 64", tools("openrouter:" + strings.Repeat("a", 64-11)), nil},
		{"disabled tool of 65", tools("openrouter:" + strings.Repeat("a", 65-11)), refused("/disabled_server_tools/0: must be at most 64 characters")},
		{"64 disabled tools", `{"disabled_server_tools":` + list(64, `"openrouter:a"`) + `}`, nil},
		{"budgets", `{"budgets":{"daily":{"limit_usd":1,"id":"i","created_at":"t","updated_at":null},"weekly":{"limit_usd":2},"monthly":{"limit_usd":3},"lifetime":{"limit_usd":4}}}`, nil},
		{"no budgets", `{"budgets":null}`, nil},
		{"budget of an hour", `{"budgets":{"hourly":{"limit_usd":1}}}`, refused("/budgets/hourly: unknown field")},
		{"budget without a limit", `{"budgets":{"daily":{}}}`, refused("/budgets/daily/limit_usd: required")},
		{"budget that is a number", `{"budgets":{"daily":1}}`, refused("/budgets/daily: must be an object")},
		{"budget with another member", `{"budgets":{"daily":{"limit_usd":1,"limit":2}}}`, refused("/budgets/daily/limit: unknown field")},
		{"budget of nothing", `{"budgets":{"daily":{"limit_usd":0}}}`, refused("/budgets/daily/limit_usd: must be at least 0.000001")},
		{"65 disabled tools", `{"disabled_server_tools":` + list(65, `"openrouter:a"`) + `}`, refused("/disabled_server_tools: must have at most 64 items")},
	}
	s := schemas(t)
	checkRules(t, s.UpdateWorkspace, append(rules, rule{"nothing", `{}`, nil}, rule{"no object", `null`, refused(": must be an object")}))
	for i, r := range rules { // they hold for a creation, too
		for _, required := range []string{"name", "slug"} {
			if !strings.Contains(r.body, `"`+required+`"`) {
				rules[i].body = fmt.Sprintf(`{%q:"s",%s`, required, rules[i].body[1:])
			}
		}
	}
	checkRules(t, s.CreateWorkspace, rules)
}

func TestUpdatePreset(t *testing.T) {
	checkRules(t, schemas(t).UpdatePreset, []rule{
		{"nothing", `{}`, nil},
		{"all", `{"name":"n","description":"d","status":"disabled"}`, nil},
		{"name of 1", `{"name":"n"}`, nil},
		{"name of 0", `{"name":""}`, refused("/name: must be at least 1 character")},
		{"name of 128", `{"name":` + text(128) + `}`, nil},
		{"name of 129", `{"name":` + text(129) + `}`, refused("/name: must be at most 128 characters")},
		{"description of 500", `{"description":` + text(500) + `}`, nil},
		{"description of 501", `{"description":` + text(501) + `}`, refused("/description: must be at most 500 characters")},
		{"description of 0", `{"description":""}`, nil},
		{"description in two lines", `{"description":"a\tb\nc"}`, nil},
		{"archiving", `{"status":"archived"}`, refused("/status: must be one of active or disabled")},
	})
}

// TestControlCharacters checks that names have no control characters, and that descriptions
// have only those that separate lines and columns.
func TestControlCharacters(t *testing.T) {
	s := schemas(t)
	for c := range rune(0x100) {
		var inName, inDescription []string
		if unicode.IsControl(c) {
			inName = refused("/name: must not have control characters, such as line breaks")
			if c != '\n' && c != '\t' {
				inDescription = refused("/description: must not have control characters, except for line feeds and tabs")
			}
		}
		for _, s := range []*schema.Schema{s.UpdatePreset, s.CreateWorkspace, s.UpdateWorkspace} {
			checkRules(t, s, []rule{
				{fmt.Sprintf("name with %U", c), fmt.Sprintf(`{"slug":"s","name":"a\u%04xb"}`, c), inName},
				{fmt.Sprintf("description with %U", c), fmt.Sprintf(`{"slug":"s","name":"n","description":"a\u%04xb"}`, c), inDescription},
			})
		}
	}
}

func TestDesignateAndLabel(t *testing.T) {
	split := func(shares ...string) string { return `{"split":[` + strings.Join(shares, ",") + `]}` }
	share := func(version, weight string) string { return `{"version":` + version + `,"weight":` + weight + `}` }
	s := schemas(t)
	for _, version := range []rule{
		{"version of 1", `{"version":1}`, nil},
		{"version of 0", `{"version":0}`, refused("/version: must be at least 1")},
		{"version below 0", `{"version":-1}`, refused("/version: must be at least 1")},
		{"version of 1.5", `{"version":1.5}`, refused("/version: must be an integer")},
		{"version as text", `{"version":"1"}`, refused("/version: must be an integer")},
		{"version of null", `{"version":null}`, refused("/version: must be an integer")},
		{"largest version", `{"version":9007199254740991}`, nil},
		{"too large a version", `{"version":9007199254740992}`, refused("/version: must be at most 9007199254740991")},
		{"far too large a version", `{"version":1e308}`, refused("/version: must be at most 9007199254740991")},
	} {
		checkRules(t, s.Designate, []rule{version})
		checkRules(t, s.Label, []rule{version})
	}
	checkRules(t, s.Designate, []rule{
		{"nothing", `{}`, refused("/version: required where there is no label")},
		{"something else", `{"split":[]}`, refused("/version: required where there is no label")},
		{"label", `{"label":"staging"}`, nil},
		{"empty label", `{"label":""}`, refused("/label: must be at least 1 character")},
		{"label of null", `{"label":null}`, refused("/label: must be a string")},
		{"both", `{"version":1,"label":"staging"}`, refused(": must not have both version and label")},
		{"both, one null", `{"version":null,"label":"staging"}`, refused(": must not have both version and label", "/version: must be an integer")},
	})
	checkRules(t, s.Label, []rule{
		{"nothing", `{}`, refused("/version: required where there is no split")},
		{"something else", `{"label":"staging"}`, refused("/version: required where there is no split")},
		{"split", split(share("1", "90"), share("2", "10")), nil},
		{"split of null", `{"split":null}`, refused("/split: must be an array")},
		{"both", `{"version":1,"split":[` + share("1", "1") + `]}`, refused(": must not have both version and split")},
		{"split of 0", split(), refused("/split: must have at least 1 item")},
		{"split of 16", `{"split":` + list(16, share("1", "1")) + `}`, nil},
		{"split of 17", `{"split":` + list(17, share("1", "1")) + `}`, refused("/split: must have at most 16 items")},
		{"empty share", split(`{}`), refused("/split/0/version: required", "/split/0/weight: required")},
		{"share that is a number", split(share("1", "1"), "2"), refused("/split/1: must be an object")},
		{"weight of 0", split(share("1", "0")), nil},
		{"weight of 10000", split(share("1", "10000")), nil},
		{"weight of 10001", split(share("1", "10001")), refused("/split/0/weight: must be at most 10000")},
		{"weight below 0", split(share("1", "-1")), refused("/split/0/weight: must be at least 0")},
		{"weight of 0.5", split(share("1", "0.5")), refused("/split/0/weight: must be an integer")},
		{"version of 0 in a split", split(share("0", "1")), refused("/split/0/version: must be at least 1")},
	})
}

func TestWorkspaceReference(t *testing.T) {
	checkRules(t, schemas(t).WorkspaceReference, []rule{
		{"nothing", `{}`, nil},
		{"workspace", `{"workspace_id":"w"}`, nil},
		{"empty workspace", `{"workspace_id":""}`, refused("/workspace_id: must be at least 1 character")},
		{"no object", `[]`, refused(": must be an object")},
	})
}

func TestFeedback(t *testing.T) {
	with := func(member string) string { return `{"request_id":"r","score":1,` + member + `}` }
	checkRules(t, schemas(t).Feedback, []rule{
		{"a request", `{"request_id":"r","score":0.5}`, nil},
		{"a session", `{"session_id":"s","score":-1,"name":"a-b_c.D9"}`, nil},
		{"nothing", `{}`, refused("/score: required", "/session_id: required where there is no request_id")},
		{"no score", `{"request_id":"r"}`, refused("/score: required")},
		{"no request", `{"score":1}`, refused("/session_id: required where there is no request_id")},
		{"both", `{"request_id":"r","session_id":"s","score":1}`, refused(": must not have both request_id and session_id")},
		{"true", `{"request_id":"r","score":true}`, nil},
		{"false", `{"request_id":"r","score":false}`, nil},
		{"largest score", `{"request_id":"r","score":1.0}`, nil},
		{"too large a score", `{"request_id":"r","score":1.01}`, refused("/score: must be at most 1")},
		{"far too large a score", `{"request_id":"r","score":1e308}`, refused("/score: must be at most 1")},
		{"too small a score", `{"request_id":"r","score":-1.01}`, refused("/score: must be at least -1")},
		{"score as text", `{"request_id":"r","score":"1"}`, refused("/score: must be a number or a boolean")},
		{"score of null", `{"request_id":"r","score":null}`, refused("/score: must be a number or a boolean")},
		{"empty request", `{"request_id":"","score":1}`, refused("/request_id: must be at least 1 character")},
		{"long request", `{"request_id":"` + strings.Repeat("r", 1201) + `","score":1}`, refused("/request_id: must be at most 1200 characters")},
		{"request that is a number", `{"request_id":1,"score":1}`, refused("/request_id: must be a string")},
		{"empty session", `{"session_id":"","score":1}`, refused("/session_id: must be at least 1 character")},
		{"long session", `{"session_id":"` + strings.Repeat("ü", 257) + `","score":1}`, refused("/session_id: must be at most 256 characters")},
		{"empty name", with(`"name":""`), refused("/name: must be at least 1 character")},
		{"longest name", with(`"name":"` + strings.Repeat("n", 64) + `"`), nil},
		{"long name", with(`"name":"` + strings.Repeat("n", 65) + `"`), refused("/name: must be at most 64 characters")},
		{"name with a space", with(`"name":"a b"`), refused("/name: must consist of letters, digits, _ . and -")},
		{"name of a line", with(`"name":"a\n"`), refused("/name: must consist of letters, digits, _ . and -")},
		{"name of null", with(`"name":null`), refused("/name: must be a string")},
	})
}
