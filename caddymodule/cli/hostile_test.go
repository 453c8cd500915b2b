package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
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

// TestListTakesLittleMemory lists presets of 6 MB.
func TestListTakesLittleMemory(t *testing.T) {
	tier.Slow(t)
	s := start(t, nil)
	const count, size = 600, 10_000
	var most uint64
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		fmt.Fprint(w, `{"data":[`)
		for n := range min(100, count-offset) {
			if n > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `{"id":"%d","slug":"p%d","description":"%s"}`, offset+n, offset+n, strings.Repeat("x", size))
		}
		fmt.Fprintf(w, `],"total_count":%d}`, count)
		if offset%495 == 0 { // the first page and the sixth
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			most = max(most, memory.HeapAlloc)
		}
		return true
	})
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	for _, args := range [][]string{{"presets", "list"}, {"presets", "list", "--json"}} {
		if err := runTo(io.Discard, io.Discard, strings.NewReader(""), args...); err != nil {
			t.Fatal(err)
		}
	}
	if used := int64(most) - int64(memory.HeapAlloc); used > 4<<20 {
		t.Errorf("a list of %d MB takes %d MB, want at most 4", count*size>>20, used>>20)
	}
}
