package main_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestFolderByReload restores a backup into another folder, which is encrypted, beside the running
// server. Then reloads change the folder to and fro, as docs/backup.md says. Every request to the API
// and with a preset gets its answer meanwhile.
func TestFolderByReload(t *testing.T) {
	tier.Slow(t)
	at := newPlace(t)
	keyFile, backup := at.file(t, "presets.key", strings.Repeat("0123456789abcdef", 4)), filepath.Join(at.home, "plain.backup")
	storage := []string{at.storage("presets"), at.storage("presets-2") + " {\nencryption_key_file " + filepath.ToSlash(keyFile) + "\n}"}
	write := func(n int) string {
		t.Helper()
		return at.write(t, storage[n%2]+"\ninference", "respond {http.request.body}")
	}
	p := at.start(t, write(0))
	management, inference := strings.TrimSpace(p.key(t, "create", "--kind", "management")), strings.TrimSpace(p.key(t, "create", "--kind", "inference"))
	if status, body := p.do(t, http.MethodPost, "/v1/presets/p/responses", management, `{"model":"m"}`); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if _, said, err := p.command("backup", backup); err != nil {
		t.Fatal(err, said)
	}
	if out, err := p.offline("presets", "restore", "--folder", filepath.Join(at.home, "presets-2"), "--encryption-key-file", keyFile, backup); err != nil {
		t.Fatal(err, out)
	}

	ended := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	requests, cut := 0, 0
	for range 2 {
		for _, request := range []struct{ method, path, secret, body, want string }{
			{http.MethodGet, "/v1/presets/p", management, "", `"slug":"p"`},
			{http.MethodPost, "/v1/chat/completions", inference, `{"model":"@preset/p","messages":[]}`, `{"model":"m","messages":[]}`},
		} {
			clients.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					status, body, err := p.try(request.method, request.path, request.secret, request.body)
					mu.Lock()
					if requests++; err != nil {
						cut++
					} else if status != http.StatusOK || !strings.Contains(body, request.want) {
						t.Errorf("%s %s gives %d %s", request.method, request.path, status, body)
					}
					mu.Unlock()
				}
			})
		}
	}
	const reloads = 30
	for n := range reloads {
		if out, err := p.offline("reload", "--config", write(n+1)); err != nil {
			t.Errorf("reload %d: %v\n%s", n, err, out)
		}
		want := filepath.Join(at.home, []string{"presets", "presets-2"}[(n+1)%2]) + ": available\n"
		if out, said, err := p.command("health"); err != nil || out != want {
			t.Errorf("after reload %d: got %s %s, %v, want %s", n, out, said, err, want)
		}
	}
	close(ended)
	clients.Wait()
	t.Logf("RESULT folder: %d reloads, %d requests, %d without an answer since Caddy closed their connection", reloads, requests, cut)
	if cut > requests/100 {
		t.Errorf("%d of %d requests got no answer", cut, requests)
	}
}

// offline runs a command that takes no --address, in the server's environment.
func (p *process) offline(args ...string) (string, error) {
	cmd := exec.Command(p.cmd.Path, args...)
	cmd.Env, cmd.Dir = p.cmd.Env, p.cmd.Dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
