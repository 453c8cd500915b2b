package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// useNewStore makes the server use a new store.
func (s *server) useNewStore() {
	s.T.Helper()
	s.Folder = caddytest.Folder(s.T)
	if err := s.Load(s.Site(caddytest.Standard)); err != nil {
		s.T.Fatal(err)
	}
}

// runImport runs the import command with some standard input.
func (s *server) runImport(stdin io.Reader, args ...string) (note string, err error) {
	s.T.Helper()
	_, note, err = admin.RunWith(stdin, append([]string{"import", "--address", s.AdminAddress}, args...)...)
	return note, err
}

// withoutTimes returns a file without its first and last lines, which contain a time.
func withoutTimes(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	return bytes.Join(lines[1:len(lines)-2], nil)
}

// TestTransferCommands moves a served store to another store and back.
func TestTransferCommands(t *testing.T) {
	const canary = "CANARY of a prompt"
	s := start(t, caddytest.Standard)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m","instructions":"`+canary+`"}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m2"}`).Want(t, 200)
	s.Manage("PUT", "/v1/presets/p/labels/staging", `{"version":1}`).Want(t, 200)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	s.Manage("POST", "/v1/presets/q/responses?workspace_id=team", `{"model":"m"}`, "Idempotency-Key: again").Want(t, 200)
	s.Manage("POST", "/v1/presets/gone/responses", `{"model":"m"}`).Want(t, 200)
	s.Manage("DELETE", "/v1/presets/gone", "").Want(t, 200)
	k, revoked := s.Issue(`{"kind":"management"}`), s.Issue(`{"kind":"inference","workspace":"team"}`)
	if _, _, err := run("key", "revoke", revoked.ID, "--address", s.AdminAddress); err != nil {
		t.Fatal(err)
	}
	list := s.Manage("GET", "/v1/presets", "").Body

	export := func(name string) (digest string) {
		t.Helper()
		out, note, err := run("export", file(name), "--address", s.AdminAddress)
		if err != nil || out != "" || strings.Count(note, "\n") != 1 || !strings.HasPrefix(note, "Exported 2 workspaces, 3 presets, 4 versions, 1 changes of labels, 0 rows of usage, 2 keys") {
			t.Fatalf("got %q and %q, %v", out, note, err)
		}
		if info, err := os.Stat(file(name)); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s: got mode %v, want 600 (%v)", name, info.Mode(), err)
		}
		t.Log(note)
		return digests.FindString(note)
	}
	digest := export("first")
	for _, name := range []string{"second", "third"} {
		s.useNewStore()
		note, err := s.runImport(nil, file("first"))
		if err != nil || strings.Count(note, "\n") != 1 || !strings.HasPrefix(note, "Imported the export of 2") || digests.FindString(note) != digest {
			t.Fatalf("got %q, %v, want digest %s", note, err, digest)
		}
		t.Log(note)
		if got := export(name); got != digest {
			t.Errorf("%s: got digest %s, want %s", name, got, digest)
		}
		if !bytes.Equal(withoutTimes(t, file(name)), withoutTimes(t, file("first"))) {
			t.Errorf("the export of the imported store differs")
		}
	}
	if got := s.Manage("GET", "/v1/presets", "").Body; got != list {
		t.Errorf("got presets %s, want %s", got, list)
	}
	s.Manage("GET", "/v1/presets/p/versions/1", "").Want(t, 200, canary)
	s.Manage("GET", "/v1/presets/p/labels/staging", "").Want(t, 200, `"history_count":1`)
	s.Manage("GET", "/v1/presets/gone", "").Want(t, 404)
	s.Manage("POST", "/v1/presets/q/responses?workspace_id=team", `{"model":"m"}`, "Idempotency-Key: again").Want(t, 200, `"version":1`)
	s.Do("GET", "/v1/presets/p", "", caddytest.Bearer(k.Secret)).Want(t, 200)
	s.Do("GET", "/v1/presets/p", "", caddytest.Bearer(revoked.Secret)).Want(t, 401)
	if out, _, err := run("audit", "--verify", "--address", s.AdminAddress); err != nil || !strings.Contains(out, "unbroken") {
		t.Errorf("the audit trail: got %q, %v", out, err)
	}
	if out, _, err := run("verify", "--address", s.AdminAddress); err != nil {
		t.Errorf("got %q, %v, want that nothing is damaged", out, err)
	}
	if logs := s.Logs(); strings.Contains(logs, canary) {
		t.Error("the prompt was logged")
	}
}

// TestTransferThroughPipes exports and imports through pipes. An import that was cut in a
// pipe continues from a file.
func TestTransferThroughPipes(t *testing.T) {
	tier.Slow(t)
	s := start(t, caddytest.Standard)
	for n := range 300 {
		s.Manage("POST", fmt.Sprintf("/v1/presets/p%d/responses", n), `{"model":"m"}`).Want(t, 200)
	}
	out, note, err := run("export", "-", "--address", s.AdminAddress)
	if err != nil || !strings.HasPrefix(note, "Exported 1 workspaces, 300 presets") {
		t.Fatalf("got %q, %v", note, err)
	}
	// The first line and the last are not counted.
	if got, want := s.Admin("GET", "/presets/export", "").Header.Get("X-Presets-Records"), fmt.Sprint(strings.Count(out, "\n")-2); got != want {
		t.Errorf("got X-Presets-Records %s, want %s", got, want)
	}
	s.useNewStore()
	if note, err := s.runImport(strings.NewReader(out), "-"); err != nil || !strings.HasPrefix(note, "Imported") {
		t.Fatalf("got %q, %v", note, err)
	}

	s.useNewStore()
	_, err = s.runImport(strings.NewReader(out[:len(out)*3/4]), "-")
	if err == nil || !strings.Contains(err.Error(), "lines are stored, and the import is not finished") || !strings.Contains(err.Error(), "it was cut short") {
		t.Fatalf("got error %v, want that the import is not finished", err)
	}
	if _, _, err := run("export", "-", "--address", s.AdminAddress); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("an export of an unfinished import: got error %v, want a refusal", err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if _, _, err := run("backup", backup, "--address", s.AdminAddress); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("a backup of an unfinished import: got error %v, want a refusal", err)
	}
	s.Manage("POST", "/v1/presets/p0/responses", `{"model":"m2"}`).Want(t, 503, "An import into the store is not finished")
	if out, _, err := run("health", "--address", s.AdminAddress); err != nil || !strings.Contains(out, ": available, refuses changes: an import into the store is not finished") {
		t.Errorf("the health of an unfinished import: got %q, %v", out, err)
	}
	if err := s.Load(s.Site(caddytest.Standard)); err != nil { // as a restart
		t.Fatal(err)
	}
	if !strings.Contains(s.Logs(), "an import into the store is not finished") {
		t.Error("the log does not warn of the unfinished import")
	}
	name := filepath.Join(t.TempDir(), "export")
	if err := os.WriteFile(name, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if note, err := s.runImport(nil, name); err != nil || !strings.Contains(note, ", from line ") {
		t.Errorf("got %q, %v, want that the import continues", note, err)
	}
	if _, _, err := run("backup", backup, "--address", s.AdminAddress); err != nil {
		t.Errorf("the import is finished: got error %v of a backup", err)
	}
	s.Manage("POST", "/v1/presets/p0/responses", `{"model":"m2"}`).Want(t, 200)
	s.Manage("GET", "/v1/presets/p299", "").Want(t, 200)
}

func TestTransferRefusals(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.fillStore(3 << 20) // larger than the connection's buffers
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if _, _, err := run("export", file("good"), "--address", s.AdminAddress); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file("good"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"text":          []byte("text\n"),
		"cut":           good[:len(good)-1],
		"newer":         bytes.Replace(good, []byte(`"version":1,`), []byte(`"version":2,`), 1),
		"other.partial": nil,
	} {
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for says, args := range map[string][]string{
		"good exists already":           {"export", file("good")},
		"other.partial exists":          {"export", file("other")},
		"no such file":                  {"export", file("no/such/folder")},
		"absent":                        {"import", file("absent")},
		"is a directory":                {"import", dir},
		"line 1: it is not the begin":   {"import", file("text")},
		"it was cut short":              {"import", file("cut")},
		"this server knows version 1 o": {"import", file("newer")},
		"goes into an empty store":      {"import", file("good")},
		"accepts 1 arg":                 {"import"},
		"no live store":                 {"import", "--store", "other", file("good")},
		"performing request":            {"export", "--address", caddytest.Address(t), file("new")},
	} {
		if !slices.Contains(args, "--address") {
			args = append(args, "--address", s.AdminAddress)
		}
		if _, _, err := run(args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got error %v, want one with %q", args, err, says)
		}
	}
	if _, err := s.runImport(bytes.NewReader(good), "-"); err == nil || !strings.Contains(err.Error(), "goes into an empty store") {
		t.Errorf("got error %v, want that the store is not empty", err)
	}
	if left, _ := filepath.Glob(file("*new*")); len(left) != 1 { // the one written above
		t.Errorf("got files %v, want only the newer one", left)
	}
	s.Admin("POST", "/presets/export", "").Want(t, 405)
}

// TestImportWrongField imports a file with a wrong field and a correct sum. The error names
// the line and the field, and is a client error.
func TestImportWrongField(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).Want(t, 200)
	out, _, err := run("export", "-", "--address", s.AdminAddress)
	if err != nil {
		t.Fatal(err)
	}
	s.useNewStore()
	changed := strings.Replace(out, `"status":"active"`, `"status":"live"`, 1)
	end := strings.LastIndex(changed, `{"end"`)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(changed[:end])))
	changed = changed[:end] + regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(changed[end:], sum)
	_, err = s.runImport(strings.NewReader(changed), "-")
	if err == nil || !strings.Contains(err.Error(), "line 5: /status: must be") || strings.ContainsAny(err.Error(), "{}") {
		t.Errorf("got error %v, want the field", err)
	}
}

// TestExportThatIsCut cuts the connection during an export. The command fails and leaves no
// file.
func TestExportThatIsCut(t *testing.T) {
	s := start(t, caddytest.Standard)
	for what, change := range map[string]func(w http.ResponseWriter, whole []byte){
		"cut":     func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(whole[:len(whole)-1]) },
		"in half": func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(whole[:len(whole)/2]) },
		"changed": func(w http.ResponseWriter, whole []byte) { whole[len(whole)/2] ^= 1; _, _ = w.Write(whole) },
		"more":    func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(append(whole, '\n')) },
	} {
		dir := t.TempDir()
		_, note, err := run("export", filepath.Join(dir, "e"), "--address", s.startCutting(change))
		if err == nil || !strings.Contains(err.Error(), "an incomplete export") || strings.Contains(note, "Exported") {
			t.Errorf("%s: got %q, %v, want that it is incomplete", what, note, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v are left", what, left)
		}
	}
}

// TestImportInterrupted ends the client during an import. A second import continues the
// first.
func TestImportInterrupted(t *testing.T) {
	s := start(t, caddytest.Standard)
	for n := range 300 {
		s.Manage("POST", fmt.Sprintf("/v1/presets/p%d/responses", n), `{"model":"m"}`).Want(t, 200)
	}
	out, _, err := run("export", "-", "--address", s.AdminAddress)
	if err != nil {
		t.Fatal(err)
	}
	s.useNewStore()
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, out[:len(out)/2])
		stop()
		_, _ = io.WriteString(w, out[len(out)/2:])
		w.Close()
	}()
	if err := admin.ImportFrom(ctx, s.AdminAddress, r); err == nil || !strings.HasPrefix(err.Error(), "interrupted") {
		t.Errorf("got error %v, want that it was interrupted", err)
	}
	_, _ = io.Copy(io.Discard, r)
	// The server may not know yet that the client is gone.
	var note string
	if !wait.Eventually(func() bool {
		note, err = s.runImport(strings.NewReader(out), "-")
		return err == nil
	}) {
		t.Fatal(err)
	}
	t.Log(note)
	s.Manage("GET", "/v1/presets/p299", "").Want(t, 200)
}

// TestStalledImport stops sending during an import. The store is still closed when no
// configuration uses it.
func TestStalledImport(t *testing.T) {
	s := start(t, caddytest.Standard)
	conn, err := caddytest.Dial(t.Context(), s.AdminAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /presets/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
	waits := func() bool {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return bytes.Contains(stacks, []byte("(*stream).Read"))
	}
	if !wait.Eventually(waits) {
		t.Fatal("the import was not begun")
	}
	s.Stop()
	if !wait.Eventually(func() bool { return caddytest.IsReleased(s.Folder) }) {
		t.Error("the store is still open")
	}
}

// TestAbandonImport gives an import up that was cut. The store is then used as it is.
func TestAbandonImport(t *testing.T) {
	s := start(t, caddytest.Standard)
	for n := range 300 {
		s.Manage("POST", fmt.Sprintf("/v1/presets/p%d/responses", n), `{"model":"m"}`).Want(t, 200)
	}
	s.Issue(`{"kind":"inference"}`)
	out, _, err := run("export", "-", "--address", s.AdminAddress)
	if err != nil {
		t.Fatal(err)
	}
	s.useNewStore()
	abandon := []string{"import", "--abandon", "--address", s.AdminAddress}
	if out, _, err := run(abandon...); err == nil || out != "" || err.Error() != "no import into the store is unfinished" {
		t.Errorf("without an import: got %q, %v", out, err)
	}
	s.Admin("DELETE", "/presets/import", "").Want(t, 409)
	if _, err := s.runImport(strings.NewReader(out[:len(out)*3/4]), "-"); err == nil {
		t.Fatal("the import was not cut")
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if _, _, err := run("backup", backup, "--address", s.AdminAddress); err == nil || !strings.Contains(err.Error(), "or give it up with import --abandon") {
		t.Errorf("a backup: got error %v", err)
	}
	s.Manage("POST", "/v1/presets/new/responses", `{"model":"m"}`).Want(t, 503)

	said, note, err := run(abandon...)
	if err != nil || note != "" || !strings.HasPrefix(said, "The import is given up. ") {
		t.Fatalf("got %q and %q, %v", said, note, err)
	}
	t.Log(said)
	var missing int
	_, rest, _ := strings.Cut(said, "missing presets: ")
	if _, err := fmt.Sscanf(rest, "%d", &missing); err != nil || missing < 1 || missing > 299 {
		t.Errorf("%d presets are missing, %v", missing, err)
	}
	s.Manage("GET", "/v1/presets?status=all&limit=1", "").Want(t, 200, fmt.Sprintf(`"total_count":%d`, 300-missing))
	for _, line := range []string{"missing workspaces: 0\n", "missing keys: 1\n"} {
		if !strings.Contains(said, line) {
			t.Errorf("it does not say %q", line)
		}
	}
	s.Admin("GET", "/presets/audit?after=300", "").Want(t, 200, `"operation":"store.abandon_import","object":{"kind":"store","id":"`)
	s.Manage("POST", "/v1/presets/new/responses", `{"model":"m"}`).Want(t, 200)
	if _, _, err := run("backup", backup, "--address", s.AdminAddress); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"audit", "--verify", "--address", s.AdminAddress}, {"verify", "--address", s.AdminAddress}, {"verify", backup}} {
		if out, _, err := run(args...); err != nil {
			t.Errorf("%v: got %q, %v", args, out, err)
		}
	}
	if _, err := s.runImport(strings.NewReader(out), "-"); err == nil || !strings.Contains(err.Error(), "an import goes into an empty store") {
		t.Errorf("importing again: got error %v", err)
	}
	if _, _, err := run(append(abandon, "file")...); err == nil || !strings.Contains(err.Error(), "unknown command") && !strings.Contains(err.Error(), "accepts") {
		t.Errorf("with a file: got error %v", err)
	}
}
