package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
)

// evil is a text that would change what a terminal shows.
const evil = "\u202eevil\x1b]0;title\x07\x1b[2J\r\n\u009b31m\u2066"

// hostile answers with evil in every text.
func hostile(w http.ResponseWriter, r *http.Request) bool {
	quoted, _ := json.Marshal(evil)
	text := string(quoted)
	// json.Marshal escapes some of them. A server need not.
	text = strings.NewReplacer(`\u2028`, "\u2028").Replace(text)
	version := `{"version":1,"dialect":` + text + `,"message":` + text + `,"creator_id":` + text + `,"system_prompt":` + text +
		`,"config":{` + text + `:` + text + `},"labels":[` + text + `],"template":{"variables":[` + text + `],"messages":[` + text + `]}}`
	preset := `{"slug":` + text + `,"name":` + text + `,"description":` + text + `,"status":` + text + `,"managed_by":` + text +
		`,"policy":{` + text + `:` + text + `},"labels":{` + text + `:{"version":1}},"updated_by":` + text +
		`,"designated_version_number":1,"designated_version":` + version + `}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/fails"):
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"error":{"message":%s}}`, text)
	case strings.HasSuffix(r.URL.Path, "/diff"):
		fmt.Fprintf(w, `{"data":{"from":1,"to":2,"config":[{"op":%[1]s,"path":%[1]s,"value":%[1]s}],"system_prompt":%[1]s}}`, text)
	case strings.HasSuffix(r.URL.Path, "/versions"):
		fmt.Fprintf(w, `{"data":[%s],"total_count":1}`, version)
	case strings.Contains(r.URL.Path, "/versions/"):
		fmt.Fprintf(w, `{"data":%s}`, version)
	case strings.HasSuffix(r.URL.Path, "/presets"):
		fmt.Fprintf(w, `{"data":[%s],"total_count":1}`, preset)
	default:
		fmt.Fprintf(w, `{"data":%s}`, preset)
	}
	return true
}

var hostileCommands = []string{
	"list", "show mail", "versions mail", "diff mail 1 2", "show fails",
	"show mail --version 1", "designate mail 1", "label mail live 1", "try mail", "copy mail --to-workspace team --new-version", "copy mail --to-workspace team",
}

// TestHostileServer checks that nothing of an answer reaches a terminal unescaped.
func TestHostileServer(t *testing.T) {
	s := start(t, nil)
	s.before(hostile)
	for i, command := range hostileCommands {
		out, errOut, err := run(words(command)...)
		text := out + errOut + fmt.Sprint(err)
		if at := strings.IndexFunc(text, func(r rune) bool { return terminal.IsUnsafe(r) && r != '\n' }); at >= 0 {
			t.Errorf("%s: got %q, which is not safe at %d", command, text, at)
		}
		if printsText := i < 5; printsText && !strings.Contains(text, "evil") {
			t.Errorf("%s: got %q, want the text in it", command, text)
		}
	}
	// JSON for another program keeps its bytes.
	out := mustRun(t, "show", "mail", "--json")
	if !strings.Contains(out, "\u009b31m") || data[struct{ Name string }](t, out).Name != evil {
		t.Errorf("got %q, want the bytes of the answer", out)
	}
}
