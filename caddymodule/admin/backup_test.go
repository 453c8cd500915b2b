package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

var digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// TestBackupCommand backs up a store that is served, in full and then twice more, and
// serves what is restored of it.
func TestBackupCommand(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			const canary = "CANARY of a prompt"
			s := start(t, standard)
			key, dir := "", t.TempDir()
			file := func(name string) string { return filepath.Join(dir, name) }
			if encrypted {
				key = keyFile(t, keyDigits)
				s.folder = storeFolder(t)
				if err := s.load(s.encrypted(s.address, s.folder, key)); err != nil {
					t.Fatal(err)
				}
			}
			var digest string
			backUp := func(args ...string) {
				t.Helper()
				out, note, err := run(append([]string{"backup", "--address", s.admin}, args...)...)
				if err != nil || out != "" || strings.Count(note, "\n") != 1 || !strings.HasPrefix(note, "Made ") || strings.Contains(note, "\r") {
					t.Fatalf("%v: got %q and %q, %v", args, out, note, err)
				}
				if strings.Contains(note, "not encrypted") == encrypted {
					t.Errorf("encrypted: %t, but it says %s", encrypted, note)
				}
				digest = digests.FindString(note)
			}
			s.manage("POST", "/v1/presets/p/responses", `{"model":"m","instructions":"`+canary+`"}`).want(t, 200)
			k := s.issue(`{"kind":"management"}`)
			backUp(file("full"))
			s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
			s.manage("POST", "/v1/presets/gone/responses?workspace_id=team", `{"model":"m"}`).want(t, 200)
			backUp("--since", file("full"), file("second"))
			s.manage("DELETE", "/v1/workspaces/team", "").want(t, 200)
			s.manage("POST", "/v1/presets/p/responses", `{"model":"m2"}`).want(t, 200)
			// What was in the workspace is removed by and by.
			for i, last := 0, ""; ; i++ {
				backUp("--since", file("second"), file("third"))
				if last == digest {
					break
				}
				last = digest
				if err := os.Remove(file("third")); err != nil || i > 100 {
					t.Fatal(i, err)
				}
				time.Sleep(50 * time.Millisecond)
			}
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

			to := filepath.Join(storeFolder(t), "restored")
			args := []string{"restore", "--folder", to, file("full"), file("second"), file("third")}
			if encrypted {
				args = append(args, "--encryption-key-file", key)
			}
			out, note, err := run(args...)
			if err != nil || out != "" || !strings.HasPrefix(note, "Restored commit ") || digests.FindString(note) != digest {
				t.Fatalf("got %q and %q, %v, want that it was restored with digest %s", out, note, err, digest)
			}
			if err := s.load(s.encrypted(s.address, to, key)); err != nil {
				t.Fatal(err)
			}
			s.manage("GET", "/v1/presets/p", "").want(t, 200, `"version":2`)
			s.manage("GET", "/v1/presets/p/versions/1", "").want(t, 200, canary)
			s.manage("GET", "/v1/workspaces/team", "").want(t, 404)
			s.do("GET", "/v1/presets/p", "", bearer(k.secret)).want(t, 200)
			if out, _, err := run("audit", "--verify", "--address", s.admin); err != nil || !strings.Contains(out, "unbroken") {
				t.Errorf("the audit trail: got %q, %v", out, err)
			}
			if _, _, err := run("backup", "--since", file("third"), file("fourth"), "--address", s.admin); err == nil || !strings.Contains(err.Error(), "it is of another store") {
				t.Errorf("an incremental backup of the restored store since one of the original: got error %v, want that it is refused", err)
			}
			if logs := s.logs(); strings.Contains(logs, canary) || strings.Contains(logs, keyDigits) {
				t.Error("the prompt or the key was logged")
			}
			s.stop()
		})
	}
}

// What was plain is encrypted by way of a backup, and gets another key in the same way.
func TestEncryptByBackup(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).want(t, 200)
	dir := storeFolder(t)
	file := func(name string) string { return filepath.Join(filepath.Dir(dir), name) }
	first, second := keyFile(t, keyDigits), keyFile(t, strings.Repeat("7", 64))
	for _, args := range [][]string{
		{"backup", "--address", s.admin, file("plain")},
		{"restore", "--folder", file("one"), "--encryption-key-file", first, file("plain")},
	} {
		if _, _, err := run(args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	if err := s.load(s.encrypted(s.address, file("one"), first)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"backup", "--address", s.admin, file("encrypted")},
		{"restore", "--folder", file("two"), "--encryption-key-file", second, "--backup-key-file", first, file("encrypted")},
	} {
		if _, _, err := run(args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	for says, args := range map[string][]string{
		"needs the key of the store":     {file("encrypted")},
		"the key is not the one":         {"--encryption-key-file", second, file("encrypted")},
		"plain: the backup":              {"--backup-key-file", first, file("plain")},
		"--encryption-key-file: ":        {"--encryption-key-file", file("plain"), file("plain")},
		"--backup-key-file: open":        {"--backup-key-file", file("absent"), file("plain")},
		"required flag(s) \"folder\"":    nil,
		"requires at least 1 arg":        {},
		"open " + file("absent"):         {file("absent")},
		"none can follow another backup": {file("plain"), file("plain")},
		"only the first backup":          {file("plain"), "-"},
	} {
		if args == nil {
			args = []string{"restore", file("plain")}
		} else {
			args = append([]string{"restore", "--folder", file("none")}, args...)
		}
		if _, _, err := run(args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got error %v, want one with %q", args, err, says)
		}
		if _, err := os.Stat(file("none")); err == nil {
			t.Errorf("%v: a folder is left", args)
		}
	}
	if err := s.load(s.encrypted(s.address, file("two"), second)); err != nil {
		t.Fatal(err)
	}
	s.manage("GET", "/v1/presets/p", "").want(t, 200)
	s.stop()
}

// A backup may go through pipes.
func TestBackupToPipe(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).want(t, 200)
	out, note, err := run("backup", "-", "--address", s.admin)
	if err != nil || !strings.HasPrefix(note, "Made a full backup") {
		t.Fatalf("got %q, %v", note, err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	cmd := restoreCommand()
	cmd.SetIn(strings.NewReader(out))
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"--folder", to, "-"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "STORE")); err != nil {
		t.Error(err)
	}
}

func TestBackupRefusals(t *testing.T) {
	s := start(t, standard)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if _, _, err := run("backup", file("full"), "--address", s.admin); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file("full"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("other.partial"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("text"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(before, []byte(`"commit":`), []byte(`"commit":9`), 1)
	if err := os.WriteFile(file("newer"), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"full exists already":        {file("full")},
		"other.partial exists":       {file("other")},
		"no such file":               {file("no/such/folder")},
		"it is no backup of presets": {"--since", file("text"), file("new")},
		"absent":                     {"--since", file("absent"), file("new")},
		"newer than the store":       {"--since", file("newer"), file("new")},
		"accepts 1 arg":              {},
		"no live store":              {"--store", "other", file("new")},
		"performing request":         {"--address", freeAddress(t), file("new")},
	} {
		if !slices.Contains(args, "--address") {
			args = append(args, "--address", s.admin)
		}
		if _, _, err := run(append([]string{"backup"}, args...)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got error %v, want one with %q", args, err, says)
		}
	}
	if left, _ := filepath.Glob(file("new*")); len(left) != 1 { // the one written above
		t.Errorf("got files %v, want none but newer", left)
	}
	if after, err := os.ReadFile(file("full")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the backup that was there has changed: %v", err)
	}
	send(t, "GET", "http://"+s.admin+"/presets/backup?since=x", "").want(t, 400, "since: ")
	send(t, "POST", "http://"+s.admin+"/presets/backup", "").want(t, 405)
}

// cutting is a server that answers with less than the admin endpoint does.
func (s *server) cutting(change func(w http.ResponseWriter, whole []byte)) string {
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := http.Get("http://" + s.admin + r.URL.String())
		if err != nil {
			panic(err)
		}
		defer answer.Body.Close()
		whole, _ := io.ReadAll(answer.Body)
		change(w, whole)
	}))
	s.t.Cleanup(cut.Close)
	u, _ := url.Parse(cut.URL)
	return u.Host
}

// A backup that does not arrive to its end is none.
func TestBackupThatIsCut(t *testing.T) {
	s := start(t, standard)
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
		_, note, err := run("backup", filepath.Join(dir, "b"), "--address", s.cutting(change))
		if err == nil || !strings.Contains(err.Error(), "no whole backup") || strings.Contains(note, "Made") {
			t.Errorf("%s: got %q, %v, want that it is no whole backup", what, note, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v are left", what, left)
		}
	}
}

// fillStore stores presets that do not compress, of so many bytes in all.
func (s *server) fillStore(bytes int) {
	s.t.Helper()
	_, live, err := pickStore(httptest.NewRequest("GET", "/", nil))
	if err != nil {
		s.t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 100<<10)
	for n := 0; n < bytes; n += 200 << 10 {
		_, _ = random.Read(noise)
		config, err := json.Marshal(map[string]string{"model": fmt.Sprintf("%x", noise)})
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := live.service.CreatePresetVersion(s.t.Context(), operator, "", "large", domain.Capture{Dialect: domain.Chat, Config: config}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// beginBackup asks for a backup of a store that it fills, larger than what the system
// keeps for a connection, and reads the first of it.
func (s *server) beginBackup() (conn net.Conn, first []byte) {
	s.t.Helper()
	s.fillStore(30 << 20)
	conn, err := net.Dial("tcp", s.admin)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	fmt.Fprintf(conn, "GET /presets/backup HTTP/1.0\r\nHost: %s\r\n\r\n", s.admin)
	first = make([]byte, 1000)
	if _, err := io.ReadFull(conn, first); err != nil {
		s.t.Fatal(err)
	}
	return conn, first
}

// The server goes on serving while a backup is read slowly.
func TestSlowBackup(t *testing.T) {
	s := start(t, standard)
	conn, first := s.beginBackup()
	for range 10 {
		s.manage("POST", "/v1/presets/meanwhile/responses", `{"model":"m"}`).want(t, 200)
	}
	rest, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(append(first, rest...), []byte("\r\n\r\n"))
	_, end, err := badger.CheckBackup(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(body) < 10<<20 {
		t.Errorf("the backup has %d bytes: it may have fitted into what the system keeps for a connection", len(body))
	}
	t.Logf("%d bytes, %d records", len(body), end.Records)
}

// A backup that nobody reads does not keep the store open when it is not used any more.
func TestStalledBackup(t *testing.T) {
	s := start(t, standard)
	s.beginBackup()
	h := onlyHandle(t)
	inARow := 0
	stalled := func() bool { // what the system buffers is full
		inARow++
		if !waitsToWrite() {
			inARow = 0
		}
		return inARow == 5
	}
	if !s.eventually(stalled) {
		t.Fatal("all was sent to a client that does not read")
	}
	s.stop()
	closed := func() bool {
		_, open := folders.InUse()[h]
		return !open
	}
	if !s.eventually(closed) {
		t.Error("the store is still open")
	}
	folders.Turn.Lock() // it is closed before others have their turn, and then its folder may go
	defer folders.Turn.Unlock()
}

// waitsToWrite reports whether a backup waits for its client to read.
func waitsToWrite() bool {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for goroutine := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(goroutine, []byte("[IO wait")) && bytes.Contains(goroutine, []byte("(*answerStream).Write")) {
			return true
		}
	}
	return false
}

// A damaged store aborts the connection midway, and the server's log tells why.
func TestBackupAborts(t *testing.T) {
	s := start(t, standard)
	s.fillStore(5 << 20)
	_, live, err := pickStore(httptest.NewRequest("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	lease := live.store.(*lease)
	live.store = failing{lease}
	defer func() { live.store = lease }()
	dir := t.TempDir()
	_, _, err = run("backup", filepath.Join(dir, "b"), "--address", s.admin)
	if err == nil || !strings.Contains(err.Error(), "no whole backup, its log tells why") {
		t.Errorf("got error %v, want that it is no whole backup", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	if !s.eventually(func() bool { return strings.Contains(s.logs(), "a backup ended early") }) {
		t.Error("the log does not tell")
	}
}

// failing is a store whose backups fail midway.
type failing struct{ *lease }

func (f failing) Backup(ctx context.Context, w io.Writer, base *badger.BackupInfo) (badger.BackupInfo, badger.BackupEnd, error) {
	return f.lease.Backup(ctx, &failingWriter{w, 1 << 20}, base)
}

type failingWriter struct {
	io.Writer
	left int
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, badger.ErrDamaged
	}
	return w.Writer.Write(p)
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 0)
	if _, err := io.Copy(io.Discard, p.watch(strings.NewReader("text"))); err != nil || p.bytes != 4 {
		t.Errorf("got %d bytes, %v, want 4", p.bytes, err)
	}
	p.done()
	if out.Len() > 0 {
		t.Errorf("got %q on what is no terminal, want nothing", out.String())
	}
	synctest.Test(t, func(t *testing.T) { // in which no time passes but where it sleeps
		p := &progress{terminal: &out, start: time.Now(), total: 3 << 20}
		r := p.watch(bytes.NewReader(make([]byte, 3<<20)))
		for range 3 {
			for range 1 << 10 {
				if _, err := io.ReadFull(r, make([]byte, 1<<10)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(progressInterval)
		}
		p.done()
	})
	lines := strings.Split(out.String(), "\r")
	for i, want := range []string{"", "1.0 KiB of 3.0 MiB in 0s", "1.0 MiB of 3.0 MiB in 200ms", "2.0 MiB of 3.0 MiB in 400ms", "", ""} {
		if i >= len(lines) || strings.TrimRight(lines[i], " ") != want {
			t.Fatalf("got %q, want %q at %d", lines, want, i)
		}
	}
}

// A backup that is given up leaves no file.
func TestBackupInterrupted(t *testing.T) {
	s := start(t, standard)
	begun, ended := make(chan struct{}), make(chan struct{})
	stalled := s.cutting(func(w http.ResponseWriter, whole []byte) {
		_, _ = w.Write(whole[:len(whole)/2])
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-ended // the client does not wait for us
	})
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	target := &adminTarget{address: stalled}
	failed := make(chan error)
	go func() {
		failed <- newFile(filepath.Join(dir, "b"), func(file io.Writer) error {
			return target.backupTo(ctx, io.Discard, adminPath+"backup", file)
		})
	}()
	<-begun
	stop()
	err := <-failed
	close(ended)
	if err == nil || err.Error() != "interrupted" {
		t.Errorf("got error %v, want that it was interrupted", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// What is published is whole under its name, or it is not there, and nobody else's
// file is.
func TestPublish(t *testing.T) {
	synced := func(string) error { return nil }
	fails := func(string) error { return errors.New("not synced") }
	for what, tc := range map[string]struct {
		there, want string // empty for no file
		sync        func(string) error
		says        string
	}{
		"a new name":              {"", "whole", synced, ""},
		"a name taken meanwhile":  {"another's", "another's", synced, "exists already"},
		"a folder without a sync": {"", "", fails, "not synced"},
	} {
		dir := t.TempDir()
		partial, name := filepath.Join(dir, "b.partial"), filepath.Join(dir, "b")
		if err := os.WriteFile(partial, []byte("whole"), 0o600); err != nil {
			t.Fatal(err)
		}
		if tc.there != "" {
			if err := os.WriteFile(name, []byte(tc.there), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := publish(partial, name, tc.sync)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got error %v, want %q", what, err, tc.says)
		}
		if got, _ := os.ReadFile(name); string(got) != tc.want {
			t.Errorf("%s: got a file with %q, want %q", what, got, tc.want)
		}
	}
}
