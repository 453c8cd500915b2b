package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// complete returns what a shell gets as candidates.
func complete(t *testing.T, line string) string {
	t.Helper()
	var out strings.Builder
	args := append([]string{"__complete", "presets"}, strings.Split(line, " ")...)
	if err := runTo(&out, io.Discard, strings.NewReader(""), args...); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	candidates, _, _ := strings.Cut(out.String(), ":")
	return strings.TrimSpace(strings.ReplaceAll(candidates, "\n", " "))
}

// TestCompletion asks for candidates as shells do.
func TestCompletion(t *testing.T) {
	s := start(t, nil)
	s.fill()
	for line, want := range map[string]string{
		"show ":                                      "email-copywriter old summary tour-guide",
		"show t":                                     "tour-guide",
		"show email-copywriter ":                     "",
		"show email-copywriter --version ":           "canary staging",
		"show email-copywriter --version s":          "staging",
		"show @preset/t":                             "@preset/tour-guide",
		"label @preset/email-copywriter ":            "canary staging",
		"preset restore ":                            "",
		"edit email-copywriter --version ":           "canary staging",
		"versions su":                                "summary",
		"diff email-copywriter 1 ":                   "canary staging",
		"designate email-copywriter ":                "canary staging",
		"designate absent ":                          "",
		"designate .. ":                              "",
		"label email-copywriter ":                    "canary staging",
		"try e":                                      "email-copywriter",
		"list --workspace ":                          "default team",
		"list --workspace te":                        "team",
		"list --status ":                             "active disabled archived all",
		"list --workspace team --sort ":              "updated name slug",
		"show --workspace team ":                     "",
		"show --server ftp://x ":                     "",
		"show --key-file - ":                         "",
		"show --key-file absent.key ":                "",
		"list --order ":                              "asc desc",
		"try --inference-key-file absent email-copy": "",
	} {
		if got := complete(t, line); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	// A failing server gets one request, and the shell gets no error.
	requests := 0
	s.before(func(w http.ResponseWriter, _ *http.Request) bool {
		requests++
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if got := complete(t, "show "); got != "" || requests != 1 {
		t.Errorf("got %q after %d requests, want nothing after one", got, requests)
	}
	// Shells expand candidates. A name that could be a command is none.
	s.before(func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, `{"data":[{"slug":"$(touch evil)"},{"slug":"a\nb"},{"slug":"good"},{"slug":"\u001b[2J"}],"total_count":3}`)
		return true
	})
	for _, line := range []string{"show ", "list --workspace "} {
		if got := complete(t, line); got != "good" {
			t.Errorf("%s: got %q, want the name that is safe", line, got)
		}
	}
}

// TestCompletionEndsInTime checks that a server that does not answer holds up no shell.
func TestCompletionEndsInTime(t *testing.T) {
	s := start(t, nil)
	s.before(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done() // the command gives up
		return true
	})
	if got := complete(t, "show "); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
