package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestBackupCommand makes three backups of a live store. It restores the last one and
// serves it.
func TestBackupCommand(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			const canary = "CANARY of a prompt"
			s := start(t, caddytest.Standard)
			key, dir := "", t.TempDir()
			file := func(name string) string { return filepath.Join(dir, name) }
			if encrypted {
				key = storagetest.KeyFile(t, storagetest.KeyDigits)
				s.Folder = caddytest.Folder(t)
				s.load(s.Folder, key)
			}
			var digest string
			backUp := func(args ...string) {
				t.Helper()
				out, note, err := s.run(append([]string{"backup"}, args...)...)
				if err != nil || out != "" || strings.Count(note, "\n") != 1 || !strings.HasPrefix(note, "Made ") || strings.Contains(note, "\r") {
					t.Fatalf("%v: got %q and %q, %v", args, out, note, err)
				}
				if strings.Contains(note, "not encrypted") == encrypted {
					t.Errorf("encrypted: %t, but it says %s", encrypted, note)
				}
				digest = digests.FindString(note)
			}
			s.Manage("POST", "/v1/presets/p/responses", `{"model":"m","instructions":"`+canary+`"}`).Want(t, 200)
			k := s.Issue(`{"kind":"management"}`)
			backUp(file("full"))
			s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
			s.Manage("POST", "/v1/presets/gone/responses?workspace_id=team", `{"model":"m"}`).Want(t, 200)
			backUp(file("second"))
			s.Manage("DELETE", "/v1/workspaces/team", "").Want(t, 200)
			s.Manage("POST", "/v1/presets/p/responses", `{"model":"m2"}`).Want(t, 200)
			// A deleted workspace's records are removed later, in the background. A backup
			// may be taken before, during or after that.
			backUp(file("third"))
			for _, name := range []string{"full", "second", "third"} {
				content, err := os.ReadFile(file(name))
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(content, []byte(canary)) {
					t.Errorf("%s holds the prompt as it is", name)
				}
				if info, err := os.Stat(file(name)); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
					t.Errorf("%s: got mode %v, want 600 (%v)", name, info.Mode(), err)
				}
			}
			if left, _ := filepath.Glob(file("*.partial")); left != nil {
				t.Errorf("%v are left", left)
			}

			to := filepath.Join(caddytest.Folder(t), "restored")
			args := []string{"restore", "--folder", to, file("third")}
			if encrypted {
				args = append(args, "--encryption-key-file", key)
			}
			out, note, err := run(args...)
			if err != nil || out != "" || !strings.HasPrefix(note, "Restored commit ") || digests.FindString(note) != digest {
				t.Fatalf("got %q and %q, %v, want that it was restored with digest %s", out, note, err, digest)
			}
			s.load(to, key)
			s.Manage("GET", "/v1/presets/p", "").Want(t, 200, `"version":2`)
			s.Manage("GET", "/v1/presets/p/versions/1", "").Want(t, 200, canary)
			s.Manage("GET", "/v1/workspaces/team", "").Want(t, 404)
			s.Do("GET", "/v1/presets/p", "", caddytest.Bearer(k.Secret)).Want(t, 200)
			if out, _, err := s.run("audit", "--verify"); err != nil || !strings.Contains(out, "unbroken") {
				t.Errorf("the audit trail: got %q, %v", out, err)
			}
			if logs := s.Logs(); strings.Contains(logs, canary) || strings.Contains(logs, storagetest.KeyDigits) {
				t.Error("the prompt or the key was logged")
			}
			s.Stop()
		})
	}
}

// TestEncryptByBackup encrypts a plain store with a backup and a restore. It changes the
// encryption key the same way.
func TestEncryptByBackup(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).Want(t, 200)
	dir := caddytest.Folder(t)
	file := func(name string) string { return filepath.Join(filepath.Dir(dir), name) }
	first, second := storagetest.KeyFile(t, storagetest.KeyDigits), storagetest.KeyFile(t, strings.Repeat("7", 64))
	s.must("backup", file("plain"))
	must(t, "restore", "--folder", file("one"), "--encryption-key-file", first, file("plain"))
	s.load(file("one"), first)
	s.must("backup", file("encrypted"))
	must(t, "restore", "--folder", file("two"), "--encryption-key-file", second, "--backup-key-file", first, file("encrypted"))
	refuses(t, map[string][]string{"wants --folder": {file("plain")}}, "restore", "--encryption-key-file", first)
	refuses(t, map[string][]string{
		"needs the key of the store":   {file("encrypted")},
		"the key is not the one":       {"--encryption-key-file", second, file("encrypted")},
		"plain: the backup":            {"--backup-key-file", first, file("plain")},
		"--encryption-key-file: ":      {"--encryption-key-file", file("plain"), file("plain")},
		"--backup-key-file: open":      {"--backup-key-file", file("absent"), file("plain")},
		"accepts 1 arg(s), received 0": {},
		"open " + file("absent"):       {file("absent")},
		"accepts 1 arg(s), received 2": {file("plain"), file("plain")},
	}, "restore", "--folder", file("none"))
	if _, err := os.Stat(file("none")); err == nil {
		t.Error("a folder is left")
	}
	s.load(file("two"), second)
	s.Manage("GET", "/v1/presets/p", "").Want(t, 200)
	s.Stop()
}

// TestBackupToPipe writes and reads a backup through pipes.
func TestBackupToPipe(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).Want(t, 200)
	out, note, err := s.run("backup", "-")
	if err != nil || !strings.HasPrefix(note, "Made a backup") {
		t.Fatalf("got %q, %v", note, err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	if _, _, err := admin.RunWith(strings.NewReader(out), "restore", "--folder", to, "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "STORE")); err != nil {
		t.Error(err)
	}
}

// TestBackupToAFullDisk checks that the error is that of the disk, and does not blame the server.
func TestBackupToAFullDisk(t *testing.T) {
	s := start(t, caddytest.Standard)
	for _, room := range []int{0, 10, 500} {
		disk := &fullDisk{room: room}
		if err := admin.BackupInto(s.AdminAddress, disk); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "server") {
			t.Errorf("with room for %d bytes: got %v, want %v alone", room, err, syscall.ENOSPC)
		}
	}
}

// fullDisk is a file on a disk with room for some bytes.
type fullDisk struct{ room int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, syscall.ENOSPC
	}
	f.room -= len(p)
	return len(p), nil
}

func TestBackupRefusals(t *testing.T) {
	s := start(t, caddytest.Standard)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	s.must("backup", file("full"))
	before, err := os.ReadFile(file("full"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("other.partial"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"full exists already":  {file("full")},
		"other.partial exists": {file("other")},
		"no such file":         {file("no/such/folder")},
		"accepts 1 arg":        {},
		"no live store":        {"--store", "other", file("new")},
		"cannot be reached":    {"--address", caddytest.Address(t), file("new")},
	} {
		if !slices.Contains(args, "--address") {
			args = append(args, "--address", s.AdminAddress)
		}
		if _, _, err := run(append([]string{"backup"}, args...)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got error %v, want one with %q", args, err, says)
		}
	}
	if left, _ := filepath.Glob(file("new*")); len(left) != 0 {
		t.Errorf("got files %v, want none", left)
	}
	if after, err := os.ReadFile(file("full")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the backup that was there has changed: %v", err)
	}
}

// startCutting starts a proxy that sends only a part of the admin endpoint's answer.
func (s *server) startCutting(change func(w http.ResponseWriter, whole []byte)) string {
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := caddytest.Client(s.AdminAddress).Get("http://127.0.0.1" + r.URL.String())
		if err != nil {
			panic(err)
		}
		defer response.Body.Close()
		whole, _ := io.ReadAll(response.Body)
		change(w, whole)
	}))
	s.T.Cleanup(cut.Close)
	u, _ := url.Parse(cut.URL)
	return u.Host
}

// TestBackupThatIsCut cuts the connection during a backup. The command fails and leaves no
// backup.
func TestBackupThatIsCut(t *testing.T) {
	s := start(t, caddytest.Standard)
	for what, change := range map[string]func(w http.ResponseWriter, whole []byte){
		"cut":     func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(whole[:len(whole)-1]) },
		"in half": func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(whole[:len(whole)/2]) },
		"aborted": func(w http.ResponseWriter, whole []byte) {
			_, _ = w.Write(whole[:len(whole)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"changed": func(w http.ResponseWriter, whole []byte) { whole[len(whole)/2] ^= 1; _, _ = w.Write(whole) },
		"empty":   func(http.ResponseWriter, []byte) {},
		"more":    func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(append(whole, '\n')) },
	} {
		dir := t.TempDir()
		_, note, err := run("backup", filepath.Join(dir, "b"), "--address", s.startCutting(change))
		if err == nil || !strings.Contains(err.Error(), "an incomplete backup") || strings.Contains(note, "Made") {
			t.Errorf("%s: got %q, %v, want that it is incomplete", what, note, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v are left", what, left)
		}
	}
}

// beginBackup fills a store, requests a backup and reads its first bytes. The backup is
// larger than the connection's buffers.
func (s *server) beginBackup() {
	s.T.Helper()
	s.fillStore(30 << 20)
	conn, err := caddytest.Dial(s.T.Context(), s.AdminAddress)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /presets/backup HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
		s.T.Fatal(err)
	}
}

// TestStalledBackup does not read a backup. The server goes on serving, and the store is still
// closed when no configuration uses it.
func TestStalledBackup(t *testing.T) {
	tier.Race(t)
	s := start(t, caddytest.Standard)
	s.beginBackup()
	inARow := 0
	stalled := func() bool { // the connection's buffers are full
		inARow++
		if !isBlockedOnWrite() {
			inARow = 0
		}
		return inARow == 5
	}
	if !wait.Eventually(stalled) {
		t.Fatal("all was sent to a client that does not read")
	}
	s.Manage("POST", "/v1/presets/meanwhile/responses", `{"model":"m"}`).Want(t, 200)
	s.Stop()
	if !wait.Eventually(func() bool { return caddytest.IsReleased(s.Folder) }) {
		t.Error("the store is still open")
	}
}

// isBlockedOnWrite reports whether a backup waits for its client to read.
func isBlockedOnWrite() bool {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for goroutine := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(goroutine, []byte("[IO wait")) && bytes.Contains(goroutine, []byte("(*stream).Write")) {
			return true
		}
	}
	return false
}

// TestBackupAborts backs up a damaged store. The connection is aborted midway, and the
// server's log has the reason.
func TestBackupAborts(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.fillStore(5 << 20)
	u := use()
	whole := u.Store
	u.Store = failing{whole}
	defer func() { u.Store = whole }()
	dir := t.TempDir()
	_, _, err := run("backup", filepath.Join(dir, "b"), "--address", s.AdminAddress)
	if err == nil || !strings.Contains(err.Error(), "an incomplete backup; its log has the reason") {
		t.Errorf("got error %v, want that it is incomplete", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if !wait.Eventually(func() bool { return strings.Contains(s.Logs(), "a backup ended early") }) {
		t.Error("the log does not tell")
	}
}

// TestBackupMetric checks when the metric of the last backup changes: with each that was sent
// whole. It outlives reloads.
func TestBackupMetric(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.fillStore(5 << 20)
	metric := func() (value string) {
		response, err := caddytest.Client(s.AdminAddress).Get("http://127.0.0.1/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "caddy_presets_last_backup_timestamp_seconds{store=\""+s.Folder+"\"} "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	if got := metric(); got != "" {
		t.Errorf("without a backup: got %s, want none", got)
	}
	u := use()
	whole := u.Store
	u.Store = failing{whole}
	if _, _, err := run("backup", filepath.Join(t.TempDir(), "b"), "--address", s.AdminAddress); err == nil {
		t.Error("a failing backup succeeds")
	}
	u.Store = whole
	if got := metric(); got != "" {
		t.Errorf("after a failed backup: got %s, want none", got)
	}
	from := time.Now().Unix()
	s.must("backup", filepath.Join(t.TempDir(), "b"))
	made := metric()
	if at, err := strconv.ParseFloat(made, 64); err != nil || int64(at) < from || int64(at) > time.Now().Unix() {
		t.Errorf("after a backup: got %q, want the time of now (%v)", made, err)
	}
	s.Reload(caddytest.Standard)
	if got := metric(); got != made {
		t.Errorf("after a reload: got %s, want %s", got, made)
	}
}

// failing is a store whose backups fail midway.
type failing struct{ domain.Store }

func (f failing) Backup(ctx context.Context, w io.Writer) error {
	return f.Store.(engine.Backuper).Backup(ctx, &failingWriter{w, 1 << 20})
}

type failingWriter struct {
	io.Writer
	left int
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, storage.ErrDamaged
	}
	return w.Writer.Write(p)
}
