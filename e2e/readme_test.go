package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeClients runs README's clients as they are written, except for the address, against the
// server of the quick start.
func TestReadmeClients(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	interpreter := pythonWith(t, filepath.Join("python", "requirements.txt"))
	s := startExample(t)
	key, _ := s.issue(t, "management")
	inference, _ := s.issue(t, "inference")
	status, answer := s.post(t, "/v1/presets/email-copywriter/responses", key, `{"model": "openai/gpt-5-mini", "temperature": 0.70, "input": "Hello"}`)
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, answer)
	}
	readme := strings.ReplaceAll(read(t, filepath.Join(root, "README.md")), "http://127.0.0.1:8080", s.site)
	for language, of := range map[string]struct {
		folder, prints string
		command        []string
	}{
		"js":     {"openrouter", "2\n", []string{node, "--input-type=module", "--eval"}},
		"python": {"python", "openai/gpt-5-mini\n", []string{interpreter, "-c"}},
	} {
		found := regexp.MustCompile("(?ms)^```"+language+"\r?\n(.*?)^```").FindAllStringSubmatch(readme, -1)
		if len(found) != 1 {
			t.Fatalf("README.md has %d blocks of %s, want 1", len(found), language)
		}
		out := run(t, of.folder, []string{"KEY=" + key, "IKEY=" + inference}, of.command[0], append(of.command[1:], found[0][1])...)
		if out != of.prints {
			t.Errorf("README's %s prints %q, want %q", language, out, of.prints)
		}
	}
}
