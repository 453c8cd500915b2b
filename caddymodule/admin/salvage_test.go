package admin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestSalvage salvages the damaged store of a server. The server then starts with the new store,
// whose versions are as they were. The engine's tests compare all that is stored.
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
			s.load(damaged, keyFile)
			s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
			random := rand.New(rand.NewPCG(1, 2)) // nothing compresses such prompts, so the middle of a table is in a version
			for n := range 300 {
				prompt := make([]byte, 4<<10)
				for i := range prompt {
					prompt[i] = byte('0' + random.IntN(64))
				}
				s.Manage("POST", fmt.Sprintf("/v1/presets/p%d/responses?workspace_id=team", n%10), fmt.Sprintf(`{"model":"m%d","instructions":%q}`, n, prompt)).Want(t, 200)
			}
			refuses(t, map[string][]string{"in use": {damaged, salvaged}}, append(flags, "salvage")...)
			s.Reload(caddytest.Standard)
			wait.Until(t, "the folder is in use", func() bool { return caddytest.IsReleased(damaged) })
			caddytest.Damage(t, damaged)

			out, _, err := run(append(flags, "salvage", "--json", damaged, salvaged)...)
			if err == nil || !strings.Contains(err.Error(), "not everything") {
				t.Errorf("got %v and %s", err, out)
			}
			var report storage.Salvage
			if err := json.Unmarshal([]byte(out), &report); err != nil || report.Copied["preset version"] < 200 {
				t.Fatalf("got %s, %v", out, err)
			}
			must(t, append(flags, "verify", salvaged)...)
			refuses(t, map[string][]string{"not empty": {damaged, salvaged}}, append(flags, "salvage")...)
			out, _, err = run(append(flags, "salvage", damaged, salvaged+"-2")...)
			if err == nil || !strings.Contains(out, "lost: file ") || !strings.Contains(out, "lost: version ") || !strings.Contains(out, " team/p") || !strings.Contains(out, "Made the store ") {
				t.Errorf("got %s, %v", out, err)
			}

			s.load(salvaged, keyFile)
			lost := 0
			for n := range 300 {
				switch got := s.Manage("GET", fmt.Sprintf("/v1/presets/p%d/versions/%d?workspace_id=team", n%10, n/10+1), ""); got.Status {
				case 404:
					lost++
				default:
					got.Want(t, 200, fmt.Sprintf(`"model":"m%d"`, n))
				}
			}
			if lost == 0 || lost+report.Copied["preset version"] != 300 {
				t.Errorf("%d versions are lost, and %d copied", lost, report.Copied["preset version"])
			}
			s.Manage("POST", "/v1/presets/p1/responses?workspace_id=team", `{"model":"new"}`).Want(t, 200, `"version":31,`)
			s.must("audit", "--verify")
		})
	}
}
