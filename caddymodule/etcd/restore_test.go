package etcd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// presets runs caddy presets as the shell would.
func presets(args ...string) (note string, err error) {
	var output bytes.Buffer
	cmd := &cobra.Command{SilenceUsage: true, SilenceErrors: true}
	caddycmd.Commands()["presets"].CobraFunc(cmd)
	cmd.SetArgs(args)
	cmd.SetOut(&output)
	cmd.SetErr(&output)
	err = cmd.Execute()
	return output.String(), err
}

// TestMove moves a store of the engine Badger to etcd and back, by the commands. The first try is
// cut short. The store is not served then, also after a restart, until it is restored.
func TestMove(t *testing.T) {
	c := newCluster(t)
	c.start()
	s := newServer(t, 1)
	if err := s.load("http://" + c.address); err != nil {
		t.Fatal(err)
	}
	from, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	f := storagetest.Fill(t, from)
	f.Some()
	f.Much()
	var content bytes.Buffer
	if err := from.Backup(t.Context(), &content); err != nil {
		t.Fatal(err)
	}
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("backup"), content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}

	const one = "/v1/presets/prompt/versions/1?workspace_id=last"
	s.want(404, 0, caddytest.ManagementSecret, "GET", one, "")
	s.Admin("POST", "/presets/restore", content.String()[:content.Len()/2]).Want(t, 400)
	s.want(503, 0, caddytest.ManagementSecret, "GET", one, "")
	if err := s.load("http://" + c.address + " {\nrequest_timeout 6s\n}"); err != nil { // as a restart
		t.Fatal(err)
	}
	s.want(503, 0, caddytest.ManagementSecret, "GET", one, "")
	if !strings.Contains(s.Logs(), "restore it again") {
		t.Error("the log does not tell what to do")
	}

	note, err := presets("restore", "--address", s.AdminAddress, file("backup"))
	if err != nil || !strings.HasPrefix(note, "Restored commit ") {
		t.Fatalf("got %q, %v", note, err)
	}
	s.want(200, 0, caddytest.ManagementSecret, "GET", one, "")
	s.want(200, 0, caddytest.ManagementSecret, "GET", "/v1/workspaces/default", "") // which the backup lacks
	if _, err := presets("restore", "--address", s.AdminAddress, file("backup")); err == nil || !strings.Contains(err.Error(), "into a new store only") {
		t.Errorf("restored twice: got error %v", err)
	}
	s.want(200, 0, caddytest.ManagementSecret, "GET", one, "")

	key := storagetest.KeyFile(t, storagetest.KeyDigits)
	for _, args := range [][]string{
		{"verify", "--address", s.AdminAddress},
		{"backup", "--address", s.AdminAddress, "--encryption-key-file", key, "--keep", "3", dir},
		{"backup", "--address", s.AdminAddress, "--encryption-key-file", key, file("back")},
		{"restore", "--folder", file("new"), "--backup-key-file", key, file("back")},
		{"verify", file("new")},
	} {
		if note, err := presets(args...); err != nil {
			t.Errorf("%v: got %q, %v", args, note, err)
		}
	}
	// The store has got the default workspace, and the audit record of that.
	back, err := badger.Open(file("new"), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	storagetest.Fill(t, back).Version("team", "long", "{}")
}
