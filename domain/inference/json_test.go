package inference

import (
	"strings"
	"testing"
)

// A text that is no object is refused for what is the matter with it, and where.
func TestNotJSON(t *testing.T) {
	nested := func(open, end string, levels int) string {
		return `{"a":` + strings.Repeat(open, levels-1) + "1" + strings.Repeat(end, levels-1) + "}"
	}
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", " ", "ends too early, at byte 0"},
		{"cut in a value", `{"model":"gpt`, "ends too early, at byte 13"},
		{"cut in a name", `{"mod`, "ends too early, at byte 5"},
		{"cut in what is nested", `{"a":[{"b":1},`, "ends too early, at byte 14"},
		{"cut after a member", `{"a":1`, "ends too early, at byte 6"},
		{"no value", `{"a":}`, "not valid JSON at byte 5"},
		{"no such word", `{"a":[nulx]}`, "not valid JSON at byte 9"},
		{"more behind", `{"a":1} x`, "has text after its end at byte 7"},
		{"no object", `[]`, "must be an object"},
		{"arrays at the limit", nested("[", "]", maxDepth), ""},
		{"arrays beyond it", nested("[", "]", maxDepth+1), "must not nest deeper than 10000 levels"},
		{"objects at the limit", nested(`{"a":`, "}", maxDepth), ""},
		{"objects beyond it", nested(`{"a":`, "}", maxDepth+1), "must not nest deeper than 10000 levels"},
		{"a name that says so", `{"exceeded max depth":x}`, "not valid JSON at byte 22"},
	} {
		got := ""
		if _, err := membersOf([]byte(tc.text)); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
