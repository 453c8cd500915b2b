package servertools

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
	for _, t := range known.ServerTools {
		models := list(t.Models, "%s") + list(t.Variants, "…:%s")
		row := fmt.Sprintf("| `%s` | %s | %s | %s | %s |", t.Name, list(t.Types, "%s"), list(t.Plugins, "%s"), list(t.Fields, "%s"), models)
		rows.WriteString(strings.ReplaceAll(row, "|  |", "| – |") + "\n")
	}
	return strings.ReplaceAll(rows.String(), "|  |", "| – |")
}

func TestServerToolsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/workspaces.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := documented(); !strings.Contains(strings.ReplaceAll(string(page), "\r\n", "\n"), want) {
		t.Errorf("docs/workspaces.md has not the table of the server tools, which is\n%s", want)
	}
}

func TestOfModel(t *testing.T) {
	for model, want := range map[string]string{"online": "", ":online": "openrouter:web_search", "a@Online": "openrouter:web_search", "x/openrouter/fusion": "openrouter:fusion", "xopenrouter/fusion": "", "a:openrouter/fusion": ""} {
		got := ""
		if t := OfModel(model); t != nil {
			got = t.Name
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", model, got, want)
		}
	}
}

func TestOfType(t *testing.T) {
	for kind, want := range map[string]string{
		"web_search": "openrouter:web_search", "web_search_20260318": "openrouter:web_search", "openrouter:web_search": "openrouter:web_search",
		"web_search_preview_2025_03_11": "openrouter:web_search", "computer_use_preview": "openrouter:browser_use", "shell": "openrouter:shell",
		"tool_search_tool_regex_20251119": "openrouter:tool_search", "tool_search_tool_bm25": "openrouter:tool_search",
		"code_execution_20260521": "openrouter:code_interpreter", "mcp_toolset": "openrouter:mcp", "browser_toolset_20260801": "openrouter:browser_use",
	} {
		if got, known := OfType(kind); got.Name != want || !known {
			t.Errorf("%s: got %q, %t, want %q", kind, got.Name, known, want)
		}
	}
	for kind, want := range map[string]string{
		"later": "openrouter:later", "openrouter:later": "openrouter:later", "acme:web_search": "acme:web_search",
		"web_search_x": "openrouter:web_search_x", "_20260101": "openrouter:_20260101", "": "openrouter:",
	} {
		if got, known := OfType(kind); got.Name != want || known {
			t.Errorf("%s: got %q, %t, want %q, unknown", kind, got.Name, known, want)
		}
	}
}
