//go:build faults

package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestPower cuts the power under load. Acknowledged writes remain.
func TestPower(t *testing.T) {
	begun := time.Now()
	cuts := choose(3, 50)
	r := newRecorder(t)
	done, err := cutPower(t, r, options{}, cuts, func(*server) {})
	if err != nil {
		t.Error(err)
	}
	if r.acknowledged < 100*cuts {
		t.Errorf("only %d writes were acknowledged, so almost nothing was tested", r.acknowledged)
	}
	result(t, "power", begun, append([]any{"cuts", done, "acknowledged", r.acknowledged}, r.found.figures()...)...)
}

// TestPowerControl cuts the power of a server that does not flush its writes. It must
// lose data, or TestPower would be blind. Our server has no such setting, so the test
// builds one from changed sources.
func TestPowerControl(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	r := newRecorder(t)
	r.report = t.Logf
	noticed := 0
	_, err := cutPower(t, r, options{binary: unsynced(t)}, 5, func(s *server) {
		// The server may detect the loss by the file SEQUENCE. Otherwise the test detects
		// it.
		if a, err := s.get("/v1/presets"); err == nil && a.status == http.StatusServiceUnavailable {
			noticed++
			s.kill()
			if err := os.Remove(filepath.Join(s.store, "SEQUENCE")); err != nil {
				t.Fatal(err)
			}
			s.mustStart()
		}
	})
	if err != nil {
		t.Error(err)
	}
	if r.found.none() {
		t.Error("a server that does not flush lost nothing: this run is blind")
	}
	result(t, "power-control", begun, append([]any{"acknowledged", r.acknowledged, "noticed-by-server", noticed}, r.found.figures()...)...)
}

// cutPower runs a server on a file system and cuts its power repeatedly, until data is
// lost. It returns the number of cuts, and an error if the server did not restart. It calls
// started after each start.
func cutPower(t *testing.T, r *recorder, o options, cuts int, started func(*server)) (done int, err error) {
	t.Helper()
	v := newVolume(t, "ext4", 1<<30)
	o.store = filepath.Join(v.folder, "store")
	s := newServer(t, o)
	for ; ; done++ {
		if err := s.start(); err != nil {
			return done, err
		}
		started(s)
		if done == 0 {
			if a, err := r.createWorkspace(s, "team"); err != nil || a.status != http.StatusCreated {
				t.Fatal(a, err)
			}
		} else {
			r.verify(s, done == cuts)
		}
		if done == cuts || !r.found.none() {
			return done, nil
		}
		var off atomic.Bool
		l := &load{recorder: r, server: s, name: "c" + strconv.Itoa(done), writers: 16, refused: func(a answer) bool {
			if !off.Load() {
				t.Errorf("a write gives %s before the power went", a)
			}
			return false
		}}
		l.begin()
		time.Sleep(300*time.Millisecond + time.Duration(rand.Int64N(int64(1200*time.Millisecond))))
		wait.Eventually(func() bool { return r.count() >= 100*(done+1) })
		off.Store(true)
		if err := r.cut(v.cut); err != nil {
			servertest.Lack(t, "shutdown", "this kernel cannot cut the power of ext4: %v", err)
		}
		// The server runs for a moment without a disk. It must not acknowledge any write
		// now.
		time.Sleep(20 * time.Millisecond)
		s.kill()
		l.end()
		if err := v.unmount(); err != nil {
			t.Fatal(err)
		}
		if err := v.mount(); err != nil { // replays the journal
			t.Fatal(err)
		}
	}
}

// unsynced builds the server with synced writes off. The sources stay unchanged, because
// the compiler gets an overlay for the file with the setting.
func unsynced(t *testing.T) string {
	t.Helper()
	sources, err := filepath.Glob("../storage/badger/*.go")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	replace := map[string]string{}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		on, off := []byte("WithSyncWrites(true)"), []byte("WithSyncWrites(false)")
		if !bytes.Contains(text, on) {
			continue
		}
		name, err := filepath.Abs(source)
		if err != nil {
			t.Fatal(err)
		}
		replace[name] = filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[name], bytes.ReplaceAll(text, on, off), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(replace) == 0 {
		t.Fatal("no source has WithSyncWrites(true)")
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay, binary := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "caddy-unsynced")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := servertest.Build(t, mainModule, "./cmd/caddy", binary, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	return binary
}
