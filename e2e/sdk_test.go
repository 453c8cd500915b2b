package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestOfficialClient runs the official OpenRouter client for TypeScript, with
// its own validation of answers on, against the built binary.
func TestOfficialClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		unavailable(t, "node is not installed")
	}
	if _, err := os.Stat(filepath.Join("openrouter", "node_modules", "@openrouter", "sdk", "package.json")); err != nil {
		unavailable(t, "the client is not installed: npm install --prefix e2e/openrouter --ignore-scripts --no-package-lock")
	}
	gateway := newUpstream(t)
	s := start(t, gateway)

	out, errs, err := try(t, "openrouter", []string{
		"PRESETS_BASE_URL=" + s.site + "/v1",
		"PRESETS_MANAGEMENT_KEY=" + managementKey,
		"PRESETS_INFERENCE_KEY=" + inferenceKey,
		"OPENROUTER_API_KEY=", // the client's own default
	}, node, "check.mjs")
	t.Logf("node check.mjs:\n%s%s", out, errs)
	if err != nil {
		t.Errorf("node check.mjs: %v", err)
	}
	want := []string{"GET /v1/models", "POST /v1/chat/completions"}
	if got := gateway.received(); !slices.Equal(got, want) {
		t.Errorf("the gateway received %q, want %q", got, want)
	}
}
