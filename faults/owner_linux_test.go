//go:build faults

package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// nobody is the user of the service in TestOwner.
const nobody = 65534

// machine is a machine on which root runs commands for a service of another user.
type machine struct {
	t                     *testing.T
	home                  string // of root, where the service may look
	binary, config, store string
	state, backups        string // folders of the service; the store is in the first, in a folder that is missing
	admin                 string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	servertest.AsRoot(t, "have files of another user")
	home := t.TempDir()
	m := &machine{
		t: t, home: home, config: filepath.Join(home, "Caddyfile"), state: filepath.Join(home, "state"), backups: filepath.Join(home, "backups"),
		store: filepath.Join(home, "state", "below", "presets"), binary: filepath.Join(home, "caddy"),
	}
	m.admin = "unix/" + filepath.Join(m.state, "admin.sock")
	err := errors.Join(
		os.Chmod(filepath.Dir(home), 0o755), os.Chmod(home, 0o755),
		os.WriteFile(m.config, fmt.Appendf(nil, "{\nadmin %s\npersist_config off\n}\nhttp:// {\nbind unix/%s\npresets {\nstorage badger %s\n}\n}\n",
			m.admin, filepath.Join(m.state, "site.sock"), m.store), 0o644),
	)
	for _, folder := range []string{m.state, m.backups} {
		err = errors.Join(err, os.Mkdir(folder, 0o700), os.Chown(folder, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, "install", "-m", "0755", servertest.Caddy(t), m.binary)
	return m
}

// command is a command of a user, in a folder that each may look into.
func (m *machine) command(uid int, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(wait.Command(m.t), m.binary, args...)
	cmd.Dir = m.home
	cmd.Env = append(os.Environ(), "HOME="+m.state, "XDG_DATA_HOME="+m.state, "XDG_CONFIG_HOME="+m.state, "CADDY_ADMIN="+m.admin)
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return cmd
}

// do runs a command, which must succeed, and returns its output.
func (m *machine) do(uid int, args ...string) string {
	m.t.Helper()
	out, err := m.command(uid, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%v as %d: %v\n%s", args, uid, err, out)
	}
	return string(out)
}

// serve starts the server, and waits until it has the store open. end kills it.
func (m *machine) serve(uid int) (end func(), log func() string) {
	m.t.Helper()
	file, err := os.Create(filepath.Join(m.t.TempDir(), "log"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer file.Close()
	log = func() string {
		text, _ := os.ReadFile(file.Name())
		return string(text)
	}
	cmd := m.command(uid, "run", "--config", m.config)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	m.t.Cleanup(end)
	if !wait.Eventually(func() bool {
		return m.command(0, "presets", "health").Run() == nil || strings.Contains(log(), "the store cannot be opened")
	}) {
		m.t.Fatalf("the server of %d does not serve:\n%s", uid, log())
	}
	return end, log
}

// foreign returns the files and folders below some folders that are not the service's.
func (m *machine) foreign(folders ...string) (names []string) {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerror // it was removed meanwhile
			}
			if info, err := os.Lstat(name); err == nil && info.Mode()&fs.ModeSocket == 0 { // Caddy makes the sockets
				if of := info.Sys().(*syscall.Stat_t); of.Uid != nobody || of.Gid != nobody {
					names = append(names, fmt.Sprintf("%s of %d:%d", name, of.Uid, of.Gid))
				}
			}
			return nil
		})
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return names
}

func (m *machine) wantNoForeign(after string) {
	m.t.Helper()
	if names := m.foreign(m.state, m.backups); len(names) > 0 {
		m.t.Errorf("after %s as root, the service does not own %s", after, strings.Join(names, ", "))
	}
}

// TestOwner runs commands and servers as root, on the folders of a service that runs as another user.
// The service can use all files afterwards, and goes on with its rotation of backups.
func TestOwner(t *testing.T) {
	m := newMachine(t)
	m.do(0, "validate", "--config", m.config)
	m.wantNoForeign("caddy validate, which makes the store")
	end, _ := m.serve(nobody)
	m.do(nobody, "presets", "key", "create", "--kind", "management")
	for range 3 {
		m.do(0, "presets", "backup", "--keep", "2", m.backups)
	}
	m.do(0, "presets", "backup", filepath.Join(m.backups, "one.backup"))
	m.wantNoForeign("backups")
	m.do(nobody, "presets", "backup", "--keep", "2", m.backups)
	if names, err := filepath.Glob(filepath.Join(m.backups, "presets-*")); err != nil || len(names) != 2 {
		t.Errorf("the rotation of the service leaves %v, %v, want two backups", names, err)
	}
	end()

	// A lock that is missing is made by whoever comes first, also by a command that only reads.
	for _, command := range [][]string{{"verify"}, {"verify", "--quick"}} {
		if err := os.Remove(filepath.Join(m.store, "STORE-LOCK")); err != nil {
			t.Fatal(err)
		}
		m.do(0, append(append([]string{"presets"}, command...), m.store)...)
		m.wantNoForeign(strings.Join(command, " "))
	}
	m.do(0, "presets", "restore", "--folder", filepath.Join(m.state, "new", "restored"), filepath.Join(m.backups, "one.backup"))
	m.do(0, "presets", "salvage", m.store, filepath.Join(m.state, "newer", "salvaged"))
	m.do(0, "presets", "convert", "openai", filepath.Join(mustAbs(t, mainModule), "caddymodule", "files", "convert", "testdata", "openai", "body.json"), filepath.Join(m.state, "files", "presets"))
	m.wantNoForeign("restore, salvage and convert")

	// A server of root leaves nothing that locks the service out, also if it is killed.
	end, _ = m.serve(0)
	m.do(0, "presets", "key", "create", "--kind", "inference")
	if !wait.Eventually(func() bool { return len(m.foreign(m.store)) == 0 }) {
		t.Fatalf("a server of root keeps %v", m.foreign(m.store))
	}
	end()
	end, _ = m.serve(nobody)
	if out := m.do(nobody, "presets", "key", "list"); strings.Count(out, "live") != 2 {
		t.Errorf("the service has the keys\n%s", out)
	}
	m.do(0, "stop")
	end()
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	absolute, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}

// TestOwnerOfDenied lets the service meet files and folders of root. The error names the one that is
// in the way, and its owner.
func TestOwnerOfDenied(t *testing.T) {
	m := newMachine(t)
	end, _ := m.serve(nobody)
	m.do(nobody, "presets", "backup", filepath.Join(m.backups, "one.backup"))
	closed := filepath.Join(m.home, "closed")
	if err := os.Mkdir(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	const roots = " and is owned by uid 0 (root); this process runs as uid 65534 (nobody)"
	denied := func(names string, args ...string) {
		t.Helper()
		out, err := m.command(nobody, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), names+" has mode ") || !strings.Contains(string(out), roots) {
			t.Errorf("%v gives %v and %s, want the owner of %s", args, err, out, names)
		}
	}
	denied(closed, "presets", "backup", filepath.Join(closed, "a.backup"))
	denied(closed, "presets", "backup", "--keep", "1", closed)
	end()
	denied(closed, "presets", "restore", "--folder", filepath.Join(closed, "a", "b"), filepath.Join(m.backups, "one.backup"))
	taken := func(name string, test func()) {
		t.Helper()
		if err := os.Chown(name, 0, 0); err != nil {
			t.Fatal(err)
		}
		test()
		if err := os.Chown(name, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	taken(filepath.Join(m.backups, "one.backup"), func() {
		denied(filepath.Join(m.backups, "one.backup"), "presets", "verify", filepath.Join(m.backups, "one.backup"))
	})
	for _, pattern := range []string{"STORE", "STORE-LOCK", "SEQUENCE", "MANIFEST", "*.mem", "KEYREGISTRY"} {
		names, err := filepath.Glob(filepath.Join(m.store, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("the store has no %s, %v", pattern, err)
		}
		taken(names[0], func() {
			end, log := m.serve(nobody)
			end()
			if !strings.Contains(log(), names[0]+" has mode ") || !strings.Contains(log(), roots) {
				t.Errorf("with a %s of root, the server does not say so:\n%s", pattern, log())
			}
		})
	}
	taken(m.store, func() { denied(m.store, "presets", "verify", m.store) })
	taken(m.state, func() { denied(m.state, "presets", "verify", m.store) })
	end, _ = m.serve(nobody)
	end()
}

// TestOwnerKeepsRootsFiles gives nothing away that only looks as if it was in the folder: links, and
// files with a second name elsewhere.
func TestOwnerKeepsRootsFiles(t *testing.T) {
	m := newMachine(t)
	m.do(0, "validate", "--config", m.config)
	secret := filepath.Join(m.home, "secret")
	if err := errors.Join(
		os.WriteFile(secret, []byte("secret"), 0o600),
		os.Symlink(secret, filepath.Join(m.store, "000001.link")),
		os.Link(secret, filepath.Join(m.store, "000002.link")),
		os.WriteFile(filepath.Join(m.store, "000003.link"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	m.do(0, "presets", "verify", m.store)
	if info, err := os.Stat(secret); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("a file of root outside of the folder was given away: %v", err)
	}
	if info, err := os.Stat(filepath.Join(m.store, "000003.link")); err != nil || info.Sys().(*syscall.Stat_t).Uid != nobody {
		t.Errorf("a file of root in the folder was not given away, so the test proves nothing: %v", err)
	}
}
