package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// parameterValues are values for each parameter. The document says which of them are refused.
var parameterValues = []string{
	"", "a", "A", "a-b", "a.b~c_d", "-a", "a/b", ".a", "a-", "é", "a b", "a\tb", "a\nb", "a\u0085b", "a\x7fb", "@a", "a@1",
	"0", "01", "1", "-1", "1e3", "9223372036854775807", "9223372036854775808", "1.5", "12", "101", "true", "false", "maybe", "null", "latest", "LaTeSt", "latest2", "1a", "01a",
	"updated", "name", "slug", "asc", "desc", "active", "disabled", "archived", "all", "summary", "hour", "day", "version", "label", "model", "preset", "key",
	`"a"`, `W/"a"`, "*", ` * `, "*,", `"a", W/"b"`, `"a""b"`, `"a`, `"a" "b"`, `,"a",,"b" ,`, `a, "b"`, `"a",*`, `""`, `w/"a"`, `W/ "a"`,
	"2026-01-02", "now", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(-time.Minute).Format("2006-01-02T15:04:05.123Z07:00"),
	strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("é", 255), strings.Repeat("é", 256),
	strings.Repeat("é", 257), strings.Repeat("é", 500), strings.Repeat("é", 501),
}

// TestOpenAPIParameterValues compares what the document says about each parameter with what the server
// takes: a value that the document refuses gets 400 with the parameter's name, and no other does.
func TestOpenAPIParameterValues(t *testing.T) {
	tier.Slow(t)
	s := start(t, standard+"\ninference {\nusage\n}")
	doc := readDocument(t, apiDocument)
	validator := doc.validator(t)
	operations := doc.operations()
	const chat = `{"model":"m"}`
	tried := make(map[string]bool)
	n := 0
	for _, op := range []struct{ name, method, path, body string }{
		{"preset_list", "GET", "presets", ""},
		{"preset_get", "GET", "presets/{slug}", ""},
		{"preset_update", "PATCH", "presets/{slug}", `{"description":"d"}`},
		{"preset_create_chat", "POST", "presets/{slug}/chat/completions", chat},
		{"preset_diff", "GET", "presets/{slug}/diff", ""},
		{"preset_usage", "GET", "presets/{slug}/usage", ""},
		{"version_list", "GET", "presets/{slug}/versions", ""},
		{"version_get", "GET", "presets/{slug}/versions/{version}", ""},
		{"label_put", "PUT", "presets/{slug}/labels/{label}", `{"version":1}`},
		{"workspace_usage", "GET", "workspaces/{workspace}/usage", ""},
	} {
		for _, reference := range operations[op.name]["parameters"].([]any) {
			pointer := reference.(map[string]any)["$ref"].(string)
			parameter := doc.object(pointer)
			name, place := parameter["name"].(string), parameter["in"].(string)
			rule := validator(pointer + "/schema")
			if tried[pointer+place] && place != "path" {
				continue // it was tried with another operation
			}
			tried[pointer+place] = true
			for _, value := range parameterValues {
				if place == "header" && regexp.MustCompile(`[^\t -~\x80-\xff]|\x7f`).MatchString(value) {
					continue // Go's client sends no such header
				}
				n++
				slug := fmt.Sprint("p", n)
				s.manage("POST", "/v1/presets/"+slug+"/chat/completions?label=a", chat).want(t, 200)
				given := map[string]string{"slug": slug, "version": "1", "label": "b", "workspace": "default", "from": "1", "to": "1"}
				query, headers := make(url.Values), []string(nil)
				if op.name == "preset_diff" {
					query.Set("from", "1")
					query.Set("to", "1")
				}
				switch place {
				case "path":
					given[name] = url.PathEscape(value)
				case "query":
					query.Set(name, value)
				case "header":
					headers = []string{name + ": " + value}
				}
				path := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(op.path, func(segment string) string { return given[strings.Trim(segment, "{}")] })
				if place == "path" && (value == "" || value == "." || strings.ContainsAny(value, "/\t\n\x7f\u0085")) {
					continue // another path
				}
				r := s.manage(op.method, "/v1/"+path+"?"+query.Encode(), op.body, headers...)
				allowed := rule.Validate(asTyped(doc.whole(parameter["schema"].(map[string]any)), value)) == nil || value == "" && parameter["allowEmptyValue"] == true
				switch refused := names(t, r, strings.ToLower(name)); {
				case allowed && refused:
					t.Errorf("%s: %s %s %q is refused, and the document allows it: %s", op.name, place, name, value, r.body)
				case !allowed && !refused && r.status != http.StatusNotFound:
					t.Errorf("%s: %s %s %q gets %d, and the document refuses it", op.name, place, name, value, r.status)
				}
			}
		}
	}
	t.Logf("%d requests", n)
}

// asTyped returns a parameter's text as a value of its schema's type, or as it is.
func asTyped(s map[string]any, text string) any {
	switch {
	case s["type"] == "integer" && regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?$`).MatchString(text):
		return json.Number(text)
	case s["type"] == "boolean" && (text == "true" || text == "false"):
		return text == "true"
	}
	return text
}

// names reports whether an answer refuses a request for a parameter.
func names(t *testing.T, r reply, parameter string) bool {
	t.Helper()
	if r.status != http.StatusBadRequest {
		return false
	}
	var response envelope.API
	if err := json.Unmarshal([]byte(r.body), &response); err != nil || response.Error.Metadata == nil {
		t.Errorf("a refusal names no place: %s", r.body)
		return false
	}
	return slices.ContainsFunc(response.Error.Metadata.Issues, func(i domain.Issue) bool { return i.Path == parameter })
}
