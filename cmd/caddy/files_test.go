package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestExitStatus checks the exit statuses of the commands for files.
func TestExitStatus(t *testing.T) {
	tier.Slow(t)
	const secret = "management-secret-of-the-tests"
	at := newPlace(t)
	p := at.start(t, at.write(t, at.storage("store")+"\nmanagement_key "+secret, ""))
	dir := t.TempDir()
	file := filepath.Join(dir, "default", "mail.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		file   string
		args   []string
		status int
		errOut string
	}{
		{"chat: {model: m}\n", []string{"plan", dir}, 2, ""},
		{"chat: {model: m}\n", []string{"plan", dir, "--json"}, 2, ""},
		{"chat: {model: m}\n", []string{"apply", dir}, 1, "Error: nothing was applied: there is no terminal to ask on; say --yes\n"},
		{"chat: {model: m}\n", []string{"apply", dir, "--yes"}, 0, ""},
		{"chat: {model: m}\n", []string{"plan", dir}, 0, ""},
		{"chat: {model: m}\n", []string{"apply", dir}, 0, ""},
		{"chat: {model: 1}\n", []string{"plan", dir}, 1, "Error: default/mail.yaml:1:15: /chat/model: "},
		{"chat: {model: m}\n", []string{"plan", dir, "--unknown"}, 1, "Error: unknown flag: --unknown\n"},
		{"chat: {model: m}\n", []string{"plan", dir, "--server", "gateway.example.com"}, 1, "Error: listing the workspaces: the server must be an origin"},
		{"chat: {model: m2}\n", []string{"plan", dir, "--markdown"}, 2, ""},
	} {
		if err := os.WriteFile(file, []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		var errOut bytes.Buffer
		cmd := exec.Command(servertest.Caddy(t), append([]string{"presets"}, step.args...)...)
		cmd.Env = append(os.Environ(), "PRESETS_SERVER="+p.url, "PRESETS_KEY="+secret)
		cmd.Stderr = &errOut
		_ = cmd.Run() // a status is no failure
		if status := cmd.ProcessState.ExitCode(); status != step.status || !strings.HasPrefix(errOut.String(), step.errOut) || step.errOut == "" && errOut.Len() > 0 {
			t.Errorf("step %d, %v: got status %d and %q, want %d and %q", i, step.args, status, &errOut, step.status, step.errOut)
		}
	}
}
