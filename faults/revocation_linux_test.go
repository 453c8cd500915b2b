//go:build faults

package faults

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestRevocation revokes keys on a full disk. The first revocation empties the ballast. Then another program takes all of the reserve. The second revocation holds in the
// server's memory, and is stored once there is space. No restart makes either key valid again.
func TestRevocation(t *testing.T) {
	kinds := []string{"ext4", "tmpfs"}
	if long {
		kinds = append(kinds, "btrfs") // which takes half a minute
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			v := newVolume(t, kind, 400<<20)
			s := newServer(t, options{store: filepath.Join(v.folder, "store")})
			s.mustStart()
			ballast := filepath.Join(s.store, "BALLAST")
			size := func() int64 {
				info, err := os.Stat(ballast)
				if err != nil {
					return -1
				}
				return info.Size()
			}
			wait.Until(t, "there is a ballast", func() bool { return size() > 0 })
			type key struct{ ID, Key string }
			var keys [2]key
			for i := range keys {
				a, err := s.sendAdmin(http.MethodPost, "/presets/keys", "application/json", `{"kind":"management"}`)
				if err != nil || a.status != http.StatusCreated || json.Unmarshal(a.body, &keys[i]) != nil {
					t.Fatal(a, err)
				}
			}
			status := func(k key) int {
				t.Helper()
				a, err := s.send(http.MethodGet, "/v1/workspaces/default", "", "Authorization", "Bearer "+k.Key)
				if err != nil {
					t.Fatal(err)
				}
				return a.status
			}
			revoke := func(k key) string {
				t.Helper()
				if before := status(k); before != http.StatusOK {
					t.Errorf("a live key gives %d", before)
				}
				said, err := s.command("presets", "key", "revoke", k.ID, "--address", s.admin)
				if after := status(k); after != http.StatusUnauthorized {
					t.Errorf("a key that was revoked just now gives %d", after)
				}
				if (err == nil) == strings.Contains(said, "not stored") {
					t.Errorf("the revocation gives %v, and says %s", err, said)
				}
				return said
			}

			v.fillUpTo(8 << 20).Close() // with less, the server would empty the ballast while it is being filled
			if a, err := s.send(http.MethodPost, "/v1/presets/full/responses", `{"model":"m"}`); err != nil || a.status != http.StatusServiceUnavailable {
				t.Errorf("a write on a full disk gives %s, %v", a, err)
			}
			stored := func(times int) func() bool {
				return func() bool { return strings.Count(s.log(), "the revocations of keys are stored now") == times }
			}
			retries := 0
			switch said := revoke(keys[0]); {
			case strings.HasPrefix(said, "Revoked management key "):
			case kind == "btrfs": // the space of the ballast is free at the next commit of the file system
				retries = 1
				wait.Until(t, "the first revocation is stored", stored(retries))
			default:
				t.Errorf("with the reserve, the revocation says %s", said)
			}
			v.fill()
			if said := revoke(keys[1]); !strings.Contains(said, "the key is refused from now on, but its revocation is not stored yet") {
				t.Errorf("without the reserve, the revocation says %s", said)
			}
			v.empty()
			wait.Until(t, "the second revocation is stored", stored(retries+1))
			s.kill()
			s.mustStart()
			for i, k := range keys {
				if got := status(k); got != http.StatusUnauthorized {
					t.Errorf("after a kill and a start, revoked key %d gives %d", i, got)
				}
			}
		})
	}
}
