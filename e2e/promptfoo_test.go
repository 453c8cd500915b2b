package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// promptfooConfig finds the documented configuration of promptfoo.
var promptfooConfig = regexp.MustCompile("(?s)```yaml\r?\n(# promptfooconfig.yaml\r?\n.*?)```")

// TestPromptfoo runs the documented gate with promptfoo: a version's settings go up as they are, and
// the gate fails if an answer breaks a rule. It is long because promptfoo has 700 packages.
func TestPromptfoo(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	node := servertest.Node(t, "promptfoo", "promptfoo")
	bodies := make(chan string, 2)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "See you on Monday."}}]}`)
	}))
	t.Cleanup(gateway.Close)
	s := startWith(t, "inference", "reverse_proxy "+gateway.Listener.Addr().String())
	const version = `{"model": "acme/small", "temperature": 0.7, "messages": [{"role": "system", "content": "Write short emails."}]}`
	s.manage(t, http.MethodPost, "/v1/presets/email-copywriter/chat/completions", version)
	s.manage(t, http.MethodPut, "/v1/presets/email-copywriter/labels/staging", `{"version": 1}`)

	found := promptfooConfig.FindStringSubmatch(read(t, filepath.Join(root, "docs", "files.md")))
	if found == nil {
		t.Fatal("docs/files.md has no promptfooconfig.yaml")
	}
	config := strings.Replace(found[1], "https://test.example.com", s.site, 1)
	program, err := filepath.Abs(filepath.Join("promptfoo", "node_modules", "promptfoo", "dist", "src", "entrypoint.js"))
	if err != nil {
		t.Fatal(err)
	}
	eval := func(config string) (output string, err error) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "promptfooconfig.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, err := try(t, folder, []string{
			"OPENAI_API_KEY=" + inferenceKey, "PROMPTFOO_CONFIG_DIR=" + folder, "PROMPTFOO_DISABLE_TELEMETRY=1", "PROMPTFOO_DISABLE_UPDATE=1",
		}, node, program, "eval", "--no-cache")
		return out + errs, err
	}
	if output, err := eval(config); err != nil {
		t.Fatalf("got %v, want that the answer passes\n%s", err, output)
	}
	checkJSON(t, "what went up", <-bodies, `{"model": "acme/small", "temperature": 0.7, "messages": [{"role": "system", "content": "Write short emails."}, {"role": "user", "content": "We open on Monday."}]}`)
	if output, err := eval(strings.Replace(config, "value: monday", "value: tuesday", 1)); err == nil {
		t.Errorf("an answer that breaks a rule passes\n%s", output)
	}
}
