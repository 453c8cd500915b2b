package inference

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// documented returns the table of docs/workspaces.md.
func documented() string {
	list := func(spellings []string, form string) string {
		var quoted []string
		for _, s := range spellings {
			quoted = append(quoted, "`"+fmt.Sprintf(form, s)+"`")
		}
		return strings.Join(quoted, ", ")
	}
	var rows strings.Builder
	rows.WriteString("| Tool | Types | Plugin | Fields | Model |\n|---|---|---|---|---|\n")
	for _, t := range serverTools {
		models := list(t.models, "%s") + list(t.variants, "…:%s")
		row := fmt.Sprintf("| `%s` | %s | %s | %s | %s |", t.name, list(t.types, "%s…"), list(t.plugins, "%s"), list(t.fields, "%s"), models)
		rows.WriteString(strings.ReplaceAll(row, "|  |", "| – |") + "\n")
	}
	return strings.ReplaceAll(rows.String(), "|  |", "| – |")
}

func TestServerToolsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/workspaces.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := documented(); !strings.Contains(strings.ReplaceAll(string(page), "\r\n", "\n"), want) {
		t.Errorf("docs/workspaces.md has not the table of serverTools, which is\n%s", want)
	}
}

// A list of models can be as long as a request, so toolOfModel keeps nothing of it.
func TestToolOfALongListOfModels(t *testing.T) {
	for list, want := range map[string]string{
		strings.Repeat("a,", 100_000):                                     "",
		strings.Repeat("a:b,", 100_000) + "a:online":                      "openrouter:web_search",
		"a" + strings.Repeat(":b", 100_000) + " : online ":                "openrouter:web_search",
		"a:online," + strings.Repeat("a,", 100_000) + "openrouter/fusion": "openrouter:fusion",
	} {
		allocations := testing.AllocsPerRun(1, func() {
			if got := toolOfModel(list); got != want {
				t.Errorf("%.20s…: got %q, want %q", list, got, want)
			}
		})
		if allocations > 10 {
			t.Errorf("%.20s…: got %v allocations, want at most 10", list, allocations)
		}
	}
	for model, want := range map[string]string{"online": "", ":online": "openrouter:web_search", "a@Online": "openrouter:web_search", "x/openrouter/fusion": "openrouter:fusion", "xopenrouter/fusion": "", "a:openrouter/fusion": ""} {
		if got := toolOfModel(model); got != want {
			t.Errorf("%s: got %q, want %q", model, got, want)
		}
	}
}

// Every spelling of the table is a use of its tool, in every place.
func TestEverySpellingOfServerTools(t *testing.T) {
	for _, tool := range serverTools {
		bodies := []string{`{"tools":[{"type":"` + tool.name + `"}]}`}
		for _, kind := range tool.types {
			bodies = append(bodies,
				`{"tools":[{"type":"`+kind+`"}]}`, `{"tools":[{"type":"`+kind+`_20260101"}]}`, `{"tools":["`+kind+`"]}`,
				`{"tools":[{"`+kind+`":{}}]}`, `{"tools":[{"`+strings.ToUpper(kind)+`":{}}]}`, `{"tool_choice":{"type":"`+kind+`"}}`)
		}
		for _, id := range tool.plugins {
			bodies = append(bodies, `{"plugins":[{"id":"`+id+`"}]}`, `{"plugins":["`+id+`"]}`)
		}
		for _, field := range tool.fields {
			bodies = append(bodies, `{"`+field+`":{}}`, `{"`+field+`":true}`, `{"`+strings.ToUpper(field)+`":[]}`, `{"extra_body":{"`+field+`":{}}}`, `{"fallbacks":[{"model":"m","`+field+`":[{}]}]}`)
		}
		for _, variant := range tool.variants {
			for _, model := range []string{"a/b:" + variant, "a/b:" + strings.ToUpper(variant), "a:free:" + variant, "a:" + variant + ":free", "a: " + variant + " ", "a:" + variant + "@x", "a:" + variant + ",b", "b:free, a:" + variant + " "} {
				bodies = append(bodies, inPlaces(model)...)
			}
		}
		for _, model := range tool.models {
			for _, model := range []string{model, strings.ToUpper(model), model + ":free", "gateway/" + model, model + ",b", "b:free, " + model + " ,c"} {
				bodies = append(bodies, inPlaces(model)...)
			}
		}
		for _, body := range bodies {
			use, err := usedServerTool([]byte(body), []string{tool.name})
			if use.tool != tool.name || use.place == "" || use.brought || err != nil {
				t.Errorf("%s: got %+v, %v, want a use of %s", body, use, err, tool.name)
			}
			for _, other := range serverTools {
				if other.name == tool.name || other.name == "openrouter:web_search" || other.name == "openrouter:web_fetch" {
					continue // which others may bring
				}
				if use, err := usedServerTool([]byte(body), []string{other.name}); use.tool != "" || err != nil {
					t.Errorf("%s: got a use of %+v, %v, want none", body, use, err)
				}
			}
		}
		for _, brought := range tool.brings {
			for _, body := range bodies {
				if use, err := usedServerTool([]byte(body), []string{brought}); strings.Contains(body, "tool_choice") != (use.tool == "") || err != nil {
					t.Errorf("%s: got a use of %+v, %v, want %s", body, use, err, brought)
				}
			}
		}
	}
}

// inPlaces returns a request for each place of a model's name.
func inPlaces(model string) (bodies []string) {
	for _, form := range []string{
		`{"model":"%s"}`, `{"Model":"%s"}`, `{"models":["a","%s"]}`, `{"fallbacks":["%s"]}`, `{"fallbacks":[{"model":"%s"}]}`,
		`{"tools":[{"type":"x","parameters":{"model":"%s"}}]}`,
		`{"tools":[{"type":"y","parameters":{"tools":[{"type":"x","parameters":{"model":"%s"}}]}}]}`,
		`{"tools":[{"type":"x","parameters":{"analysis_models":["a","%s"],"tools":[]}}]}`,
		`{"tools":[{"type":"x","parameters":{"allowed_models":["%s"],"tools":[]}}]}`,
		`{"tools":[{"type":"function","model":"%s"}]}`, `{"tools":[{"type":"x","deployment_id":"%s"}]}`,
		`{"tools":[{"type":"x","models":["a","%s"]}]}`, `{"tools":[{"type":"x","Analysis_Models":["%s"]}]}`,
		`{"tools":[{"type":"x","allowed_models":["%s"]}]}`, `{"tools":[{"type":"x","fallbacks":["a",{"model":"%s"}]}]}`,
		`{"plugins":[{"id":"x","models":["%s"]}]}`, `{"plugins":[{"id":"x","fallbacks":["%s"]}]}`, `{"plugins":[{"id":"x","deployment_id":"%s"}]}`,
		`{"plugins":[{"id":"x","parameters":{"model":"%s"}}]}`, `{"plugins":[{"id":"x","parameters":{"analysis_models":["%s"]}}]}`,
		`{"plugins":[{"id":"x","model":"%s","tools":[]}]}`, `{"plugins":[{"id":"x","analysis_models":["%s"]}]}`,
		`{"plugins":[{"id":"auto-router","allowed_models":["a/*","%s"]}]}`, `{"extra_body":{"model":"%s"}}`,
		`{"context_window_fallbacks":[{"a":["%s"]}]}`, `{"content_policy_fallbacks":[{"a":[{"model":"%s"}]}]}`,
		`{"router_settings_override":{"fallbacks":[{"a":["b","%s"]}]}}`,
	} {
		bodies = append(bodies, fmt.Sprintf(form, model))
	}
	return bodies
}

// A tool that is not known can be disabled by its name.
func TestAnUnknownServerTool(t *testing.T) {
	for kind, want := range map[string]bool{
		"openrouter:invented": true, "invented": true, "invented_2": false, "other:invented": false, "openrouter:invented_2": false,
	} {
		use, err := usedServerTool([]byte(`{"tools":[{"type":"`+kind+`"}]}`), []string{"openrouter:invented"})
		if (use.tool != "") != want || err != nil {
			t.Errorf("%s: got %+v, %v, want a use: %t", kind, use, err, want)
		}
	}
}
