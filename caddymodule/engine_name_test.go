package caddymodule

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestUnknownEngineInJSON checks that JSON with an unknown engine gets the same advice as a
// Caddyfile.
func TestUnknownEngineInJSON(t *testing.T) {
	for engine, want := range map[string]string{
		"mongo":      `storage: there is no engine "mongo"; this build has badger`,
		"/var/lib/x": "storage wants the name of an engine before its folder: storage badger /var/lib/x",
	} {
		raw, err := json.Marshal(map[string]any{
			"admin": map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
			"apps": map[string]any{"http": map[string]any{"servers": map[string]any{"s": map[string]any{
				"listen": []string{"unix/" + filepath.Join(t.TempDir(), "s")},
				"routes": []any{map[string]any{"handle": []any{map[string]any{"handler": "presets", "storage": map[string]any{"engine": engine}}}}},
			}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := caddy.Load(raw, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", engine, err, want)
		}
	}
}
