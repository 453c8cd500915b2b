package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

func TestCaddyfileAdaptation(t *testing.T) {
	caddytest.Adaptations(t, "../testdata/caddyfile", *update)
}

// TestLiteralSecretsAreHashed checks that no adapted configuration and no error contains a
// literal secret.
func TestLiteralSecretsAreHashed(t *testing.T) {
	const secret = "a-literal-secret-of-a-team"
	for _, directive := range []string{
		"management_key " + secret,
		"inference_key " + secret + " user team",
		"management_key " + secret + " user surplus",
		"inference_key user team x " + secret,
		"management_key x " + secret + " y " + secret,
		"management_key " + secret + "{}",
		"management_key {" + secret,
		"management_key sha256:" + secret,
		"management_key " + secret + " {\n}",
		"webhook " + secret,
		"webhook https://x " + secret,
		"webhook https://user:" + secret + "@x {\nsecret {env.X}\n}",
		"webhook https://x {\nsecret " + secret + "\n}",
		"webhook https://x {\n" + secret + " {env.X}\n}",
		"webhook https://x {\nsecret {env.X} " + secret + "\n}",
		"webhook https://x {\nsecret {env.X} {\n" + secret + "\n}\n}",
	} {
		got := caddytest.Adapted(":80 {\npresets {\n" + directive + "\n}\n}")
		if strings.Contains(got, secret) {
			t.Errorf("%s\nis adapted to\n%s", strings.ReplaceAll(directive, secret, "SECRET"), got)
		}
	}
	if got := caddytest.Adapted(":80 {\npresets {\nmanagement_key " + secret + "\n}\n}"); !strings.Contains(got, "sha256:"+sha256Of(secret)) {
		t.Errorf("got %s, want the hash", got)
	}
}

func FuzzCaddyfile(f *testing.F) {
	f.Add("management_key {env.X} u")
	f.Add("storage badger /x {\n}")
	f.Add("max_body_size 1MiB\nbase_path /x")
	f.Add("preset_creators any }\n{")
	f.Fuzz(func(t *testing.T, body string) {
		const secret = "a-literal-secret-of-a-team"
		if strings.Contains(body, secret) || strings.Contains(body, "import") || strings.Contains(body, "{$") {
			t.Skip()
		}
		if got := caddytest.Adapted(":80 {\npresets {\nmanagement_key " + secret + "\n" + body + "\n}\n}"); strings.Contains(got, secret) {
			t.Errorf("the secret is in %s", got)
		}
	})
}

// TestDocumentedCaddyfiles loads the Caddyfiles of the documents. The module etcd tests
// those with etcd.
func TestDocumentedCaddyfiles(t *testing.T) {
	documents := documentedCaddyfiles(t)
	if len(documents) < 8 {
		t.Errorf("found %d Caddyfiles, want at least 8", len(documents))
	}
	for name, text := range documents {
		if _, err := caddytest.Adapt(text); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
		}
	}
}

// TestDocumentedCaddyfilesLeakNoKey checks that no Caddyfile of the documents logs a key or
// passes one to the gateway.
func TestDocumentedCaddyfilesLeakNoKey(t *testing.T) {
	caddytest.LeaksNoKey(t, documentedCaddyfiles(t), storeFolder)
}

func documentedCaddyfiles(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("PRESETS_UPSTREAM", "127.0.0.1:1")
	return caddytest.DocumentedCaddyfiles(t, "..", false)
}
