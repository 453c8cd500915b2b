package admin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestSalvage salvages the damaged store of a server. The server then starts with the new
// store.
func TestSalvage(t *testing.T) {
	tier.Slow(t)
	for name, key := range map[string]string{"plain": "", "encrypted": storagetest.KeyDigits} {
		t.Run(name, func(t *testing.T) {
			var keyFile string
			var flags []string
			if key != "" {
				keyFile = storagetest.KeyFile(t, key)
				flags = []string{"--encryption-key-file", keyFile}
			}
			s := start(t, caddytest.Standard)
			damaged, salvaged := caddytest.Folder(t), filepath.Join(caddytest.Folder(t), "new")
			load := func(folder string) {
				t.Helper()
				s.load(folder, keyFile)
			}
			load(damaged)
			s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
			want := make(map[string]string)
			for n := range 300 {
				slug := fmt.Sprintf("p%d", n%10)
				s.Manage("POST", "/v1/presets/"+slug+"/responses?workspace_id=team", fmt.Sprintf(`{"model":"m%d","instructions":%q}`, n, strings.Repeat("word ", 100))).Want(t, 200)
			}
			for n := range 300 {
				path := fmt.Sprintf("/v1/presets/p%d/versions/%d?workspace_id=team", n%10, n/10+1)
				want[path] = s.Manage("GET", path, "").Body
			}
			_, _, err := run(append(flags, "salvage", damaged, salvaged)...)
			if err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("with a server: got %v", err)
			}
			s.Reload(caddytest.Standard)
			wait.Until(t, "the folder is in use", func() bool {
				_, _, err := run(append(flags, "verify", damaged)...)
				return err == nil
			})
			caddytest.Damage(t, damaged)

			out, _, err := run(append(flags, "salvage", "--json", damaged, salvaged)...)
			if err == nil || !strings.Contains(err.Error(), "not everything") {
				t.Errorf("got %v and %s", err, out)
			}
			var report storage.Salvage
			if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Damaged) == 0 || report.Copied.Versions < 200 {
				t.Fatalf("got %s, %v", out, err)
			}
			if out, _, err := run(append(flags, "verify", salvaged)...); err != nil {
				t.Errorf("the new store: %s, %v", out, err)
			}
			if _, _, err := run(append(flags, "salvage", damaged, salvaged)...); err == nil || !strings.Contains(err.Error(), "not empty") {
				t.Errorf("again: got %v", err)
			}
			out, _, err = run(append(flags, "salvage", damaged, salvaged+"-2")...)
			if err == nil || !strings.Contains(out, "lost: version ") || !strings.Contains(out, ", workspace team") || !strings.Contains(out, "Made the store ") {
				t.Errorf("got %s, %v", out, err)
			}

			load(salvaged)
			lost := 0
			for path, body := range want {
				switch got := s.Manage("GET", path, ""); {
				case got.Status == 404:
					lost++
				case got.Status != 200 || got.Body != body:
					t.Errorf("%s: got %d %.200s, want %.200s", path, got.Status, got.Body, body)
				}
			}
			if lost == 0 || lost+report.Copied.Versions != 300 {
				t.Errorf("%d versions are lost, and %d copied", lost, report.Copied.Versions)
			}
			s.Manage("POST", "/v1/presets/p1/responses?workspace_id=team", `{"model":"new"}`).Want(t, 200, `"version":31,`)
			if out, _, err := s.run("audit", "--verify"); err != nil {
				t.Errorf("the audit trail: %s, %v", out, err)
			}
		})
	}
}
