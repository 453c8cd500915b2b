package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestCollector sends traces to a collector of OpenTelemetry with the Caddyfile and the environment of
// docs/usage.md. A span has what the preset's request used, and its prompt and answer once the workspace
// broadcasts them.
func TestCollector(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	page := read(t, filepath.Join(root, "docs", "usage.md"))
	caddyfile := regexp.MustCompile(`(?ms)^presets\.example\.com \{\n\ttracing \{.*?^\}\n`).FindString(page)
	environment := regexp.MustCompile(`(?m)^OTEL_EXPORTER_OTLP_ENDPOINT=http://127\.0\.0\.1:4318\n(?:OTEL_\w+=.*\n)+`).FindString(page)
	if caddyfile == "" || environment == "" {
		t.Fatalf("docs/usage.md has the Caddyfile %q and the environment %q", caddyfile, environment)
	}

	s, home := newServer(t)
	binary, address := filepath.Join(home, servertest.Executable("collector")), freeAddress(t)
	run(t, filepath.Join(root, "e2e", "collector"), []string{"GOFLAGS="}, "go", "build", "-o", binary, ".")
	config := filepath.Join(home, "collector.yaml")
	write(t, config, fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
`, address))
	log, err := os.Create(filepath.Join(home, "collected"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(wait.Command(t), binary, "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	servertest.Serve(t, cmd, address)

	for line := range strings.Lines(strings.ReplaceAll(environment, "127.0.0.1:4318", address)) {
		s.env = append(s.env, strings.TrimSpace(line))
	}
	gateway := newUpstream(t)
	s.serve(t, home, "{\nadmin "+s.admin+"\npersist_config off\n}\n"+strings.NewReplacer(
		"presets.example.com {", s.site+" {\nbind 127.0.0.1", "127.0.0.1:4000", gateway.address(),
		"presets {\n", "presets {\nstorage badger "+filepath.ToSlash(filepath.Join(home, "store"))+"\nmanagement_key {env.E2E_MANAGEMENT_KEY}\ninference_key {env.E2E_INFERENCE_KEY}\n",
	).Replace(caddyfile))
	s.manage(t, http.MethodPost, "/v1/presets/p/chat/completions", `{"model": "acme/small"}`)
	ask := func(prompt string) {
		t.Helper()
		if status, answer := s.post(t, "/v1/chat/completions", inferenceKey, `{"model": "@preset/p", "messages": [{"role": "user", "content": "`+prompt+`"}]}`); status != http.StatusOK {
			t.Fatalf("got %d %s", status, answer)
		}
	}
	ask("a prompt that stays here")
	s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"is_observability_broadcast_enabled": true, "io_logging_sampling_rate": 1}`)
	ask("a prompt that is broadcast")

	spans := ""
	wait.Until(t, "the collector has both spans", func() bool {
		spans = read(t, log.Name())
		return strings.Count(spans, "-> gen_ai.prompt.name: Str(p)") >= 2
	})
	for _, want := range []string{
		"-> service.name: Str(caddy-presets)", "-> gen_ai.prompt.version: ", "-> langfuse.trace.name: Str(p)", "-> langfuse.version: Str(1)",
		"a prompt that is broadcast", `"content":"pong"`,
	} {
		if !strings.Contains(spans, want) {
			t.Errorf("the spans lack %s:\n%s", want, spans)
		}
	}
	for _, secret := range []string{"a prompt that stays here", managementKey, inferenceKey} {
		if strings.Contains(spans, secret) {
			t.Errorf("the spans have %q", secret)
		}
	}
}
