package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// openRouter runs a script with the official OpenRouter client for TypeScript,
// its own validation of answers on.
func (s *server) openRouter(t *testing.T, node, script string, env ...string) {
	t.Helper()
	out, errs, err := try(t, "openrouter", append([]string{
		"PRESETS_BASE_URL=" + s.site + "/v1",
		"PRESETS_MANAGEMENT_KEY=" + managementKey,
		"PRESETS_INFERENCE_KEY=" + inferenceKey,
		"OPENROUTER_API_KEY=", // the client's own default
	}, env...), node, script)
	t.Logf("node %s:\n%s%s", script, out, errs)
	if err != nil {
		t.Errorf("node %s: %v", script, err)
	}
}

// findNode returns the path of node, once what it is to run is installed.
func findNode(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		unavailable(t, "node is not installed")
	}
	if _, err := os.Stat(filepath.Join("openrouter", "node_modules", "@openrouter", "sdk", "package.json")); err != nil {
		unavailable(t, "the client is not installed: npm install --prefix e2e/openrouter --ignore-scripts --no-package-lock")
	}
	return node
}

// TestOfficialClient runs the official OpenRouter client against the API that
// stores presets.
func TestOfficialClient(t *testing.T) {
	node := findNode(t)
	gateway := newUpstream(t)
	start(t, gateway).openRouter(t, node, "check.mjs")

	want := []string{"GET /v1/models", "POST /v1/chat/completions"}
	if got := gateway.received(); !slices.Equal(got, want) {
		t.Errorf("the gateway received %q, want %q", got, want)
	}
}

// TestOpenRouter runs the official OpenRouter client against inference requests
// that name a preset.
func TestOpenRouter(t *testing.T) {
	node := findNode(t)
	behind := newService(t, "openrouter")
	s := startWith(t, "inference {\n list_models on\n}", behind.behind())
	s.makePresets(t)
	s.openRouter(t, node, "inference.mjs", "PRESETS_CONTROL_URL="+behind.control(t))
	behind.checkSecrets(t)
}
