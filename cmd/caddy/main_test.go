package main_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servertest.RemoveCaddy()
	os.Exit(code)
}

// place is where a test runs a server.
type place struct{ home, address, admin, grace string }

func newPlace(t *testing.T) place {
	t.Helper()
	return place{t.TempDir(), freeAddress(t), freeAddress(t), "10s"}
}

// write writes the Caddyfile of one site, with the lines of its directive presets and what is behind
// it. It returns the name of the file.
func (at place) write(t *testing.T, presets, behind string) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(at.address)
	text := fmt.Sprintf("{\nadmin %s\ngrace_period %s\n}\nhttp://:%s {\nbind 127.0.0.1\npresets {\n%s\n}\n%s\n}\n", at.admin, at.grace, port, presets, behind)
	return at.file(t, "Caddyfile", text)
}

func (at place) file(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(at.home, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// storage returns the line of a store below the folder.
func (at place) storage(name string) string {
	return "storage badger " + filepath.ToSlash(filepath.Join(at.home, name))
}

// process is a running Caddy.
type process struct {
	*servertest.Process
	cmd   *exec.Cmd
	url   string
	admin string
}

// start runs the binary with a Caddyfile and waits until it answers.
func (at place) start(t *testing.T, caddyfile string, environment ...string) *process {
	t.Helper()
	cmd := exec.Command(servertest.Caddy(t), "run", "--config", caddyfile)
	cmd.Env = append(os.Environ(), append(environment, "HOME="+at.home, "XDG_DATA_HOME="+at.home, "XDG_CONFIG_HOME="+at.home, "CADDY_ADMIN="+at.admin)...)
	cmd.Dir = at.home
	p := &process{servertest.Start(t, cmd), cmd, "http://" + at.address, at.admin}
	if err := p.Listens(at.address); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) do(t *testing.T, method, path, secret, body string) (int, string) {
	t.Helper()
	status, text, err := p.try(method, path, secret, body)
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

func (p *process) try(method, path, secret, body string) (int, string, error) {
	return p.tryAs("", method, path, secret, body)
}

func (p *process) tryAs(host, method, path, secret, body string) (int, string, error) {
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Host = host // if empty, the URL's host is used
	r.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func freeAddress(t *testing.T) string { return servertest.FreeAddress(t) }

// command runs "caddy presets ..." and returns what it prints.
func (p *process) command(args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(p.cmd.Path, append(append([]string{"presets"}, args...), "--address", p.admin)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// key runs "caddy presets key ..." and returns its standard output.
func (p *process) key(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, err := p.command(append([]string{"key"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errOut)
	}
	return out
}

// verify checks the audit trail, and that it continues an earlier head if one is given. It
// returns the head.
func (p *process) verify(t *testing.T, earlier string) (head string) {
	t.Helper()
	args := []string{"audit", "--verify"}
	if earlier != "" {
		args = append(args, "--head", earlier)
	}
	out, errOut, err := p.command(args...)
	if err != nil || !strings.Contains(out, " records, unbroken, head ") {
		t.Fatalf("%v: got %q, %v\n%s", args, out, err, errOut)
	}
	return out[strings.LastIndex(out, " ")+1 : len(out)-1]
}

// TestExample runs the example unchanged except for its echo gateway's port, which may be
// in use. It creates keys and presets, and gets echoes for other requests.
func TestExample(t *testing.T) {
	tier.Slow(t)
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	at := newPlace(t)
	_, port, _ := net.SplitHostPort(freeAddress(t))
	if bytes.Count(example, []byte(":8081")) != 2 {
		t.Fatal("the example's echo gateway has another port")
	}
	caddyfile := at.file(t, "Caddyfile", strings.ReplaceAll(string(example), ":8081", ":"+port))
	host, listening, _ := net.SplitHostPort(at.address)
	p := at.start(t, caddyfile, "PRESETS_HOST="+host, "PRESETS_PORT="+listening, "PRESETS_DATA="+filepath.Join(at.home, "data"))

	secret := p.key(t, "create", "--kind", "management", "--name", "quick start")
	if strings.Count(secret, "\n") != 1 || !strings.HasPrefix(secret, "caddypresets_mgmt_") {
		t.Fatal("standard output is not the key alone on a line")
	}
	secret = strings.TrimSpace(secret)
	status, body := p.do(t, "POST", "/v1/presets/email-copywriter/responses", secret, `{"model":"openai/gpt-5","temperature":0.70,"instructions":"Be brief."}`)
	if status != 200 || !strings.Contains(body, `"config":{"model":"openai/gpt-5","temperature":0.70}`) {
		t.Errorf("got %d %s", status, body)
	}
	inference := strings.TrimSpace(p.key(t, "create", "--kind", "inference"))
	for _, tc := range []struct{ name, model, want string }{
		{"a model", `"openai/gpt-5"`, `{"model": "openai/gpt-5", "messages": [{"role": "user", "content": "{http.request.host}"}]}`},
		{"a preset", `"@preset/email-copywriter"`, `{"model":"openai/gpt-5","messages":[{"role":"system","content":"Be brief."},{"role": "user", "content": "{http.request.host}"}],"temperature":0.70}`},
	} {
		request := `{"model": ` + tc.model + `, "messages": [{"role": "user", "content": "{http.request.host}"}]}`
		if status, body := p.do(t, "POST", "/v1/chat/completions", inference, request); status != 200 || body != tc.want {
			t.Errorf("%s: the echo gateway answers %d %s, want what it should have got, %s", tc.name, status, body, tc.want)
		}
	}
	for _, name := range []string{"localhost:" + listening, at.address, "localhost", "presets.example.com", "[::1]:" + listening} {
		if status, body, err := p.tryAs(name, "GET", "/v1/presets/email-copywriter", secret, ""); err != nil || status != 200 || !strings.Contains(body, `"slug":"email-copywriter"`) {
			t.Errorf("called %s it answers %d %s, %v, want the preset", name, status, body, err)
		}
	}
	if status, body := p.do(t, "POST", "/v1/chat/completions", secret, `{}`); status != 403 {
		t.Errorf("inference with a management key gives %d %s, want 403", status, body)
	}
	if status, body := p.do(t, "GET", "/v1/models", inference, ""); status != 200 || !strings.Contains(body, `"id":"@preset/email-copywriter"`) {
		t.Errorf("the list of models is %d %s, want the preset in it", status, body)
	}
	out, _, err := p.command("audit")
	if err != nil || strings.Count(out, "\n") != 5 || !strings.Contains(out, "preset.create_version") || !strings.Contains(out, "key.create") {
		t.Errorf("audit gives %q, %v, want the workspace, two keys and the preset", out, err)
	}
	p.verify(t, p.verify(t, ""))
	out, errOut, err := p.command("audit", "--verify", "--head", strings.Repeat("1", 64))
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || out != "" || !strings.Contains(errOut, "no record has the hash") {
		t.Errorf("another trail's head: got %q, %q and %v, want exit code 1", out, errOut, err)
	}
	if info, err := os.Stat(filepath.Join(at.home, "data")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder has mode %v, %v, want 0700", info.Mode(), err)
	}
	if strings.Contains(p.Log(), secret) || strings.Contains(p.Log(), inference) {
		t.Error("the log holds a key")
	}
}

// TestExpectedMistakes checks the messages of expected mistakes. A build without etcd names
// the build that has it. A refused command prints only its message. Exit codes tell damage apart.
func TestExpectedMistakes(t *testing.T) {
	tier.Slow(t)
	at := newPlace(t)
	for storage, want := range map[string]string{
		"etcd 127.0.0.1:2379":         "build one as https://github.com/caddy-presets/caddy-presets/blob/main/xcaddy.md says, --with github.com/caddy-presets/caddy-presets/caddymodule/etcd",
		"/var/lib/x":                  "storage badger /var/lib/x",
		"mongo":                       "this build has badger",
		`badger "{$PRESETS_NOT_SET}"`: "(a {$NAME} may not be set in the environment)",
	} {
		out, err := exec.Command(servertest.Caddy(t), "adapt", "--config", at.write(t, "storage "+storage, "")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("storage %s: got %v and\n%s, want %q", storage, err, out, want)
		}
	}
	p := at.start(t, at.write(t, at.storage("store"), ""))
	out, errOut, err := p.command("key", "create", "--kind", "root")
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 || out != "" || !strings.HasPrefix(errOut, "Error: Invalid request parameters: /kind: ") || strings.ContainsAny(errOut, "{}") {
		t.Errorf("got %q, %q and %v, want exit code 1 and the message", out, errOut, err)
	}
	backup := filepath.Join(at.home, "backup")
	if _, errOut, err := p.command("backup", backup); err != nil {
		t.Fatalf("%v: %s", err, errOut)
	}
	whole, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)-200] ^= 1
	for name, want := range map[string]int{backup: 0, at.file(t, "damaged", string(whole)): 10, filepath.Join(at.home, "absent"): 1, filepath.Join(at.home, "Caddyfile"): 1} {
		cmd := exec.Command(servertest.Caddy(t), "presets", "verify", name)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Errorf("verify %s: got %v and %s, want exit code %d", name, err, out, want)
		}
	}
}

// mainVersion returns the version of the main module of the binary, as Go wrote it.
func mainVersion(t *testing.T) string {
	t.Helper()
	info, err := buildinfo.ReadFile(servertest.Caddy(t))
	if err != nil || info.Main.Version == "" {
		t.Fatalf("got version %q, %v", info.Main.Version, err)
	}
	return info.Main.Version
}

// TestModuleCommands checks that commands about modules work or explain their failure. In
// this build our module is the main module.
func TestModuleCommands(t *testing.T) {
	tier.Slow(t)
	for _, test := range []struct {
		args []string
		want string
		exit int
	}{
		{[]string{"list-modules", "--packages"}, "http.handlers.presets.storage.badger", 0},
		{[]string{"build-info"}, "mod\tgithub.com/caddy-presets/caddy-presets\t", 0},
		{[]string{"presets", "version"}, mainVersion(t) + "\n", 0},
		{[]string{"presets", "version", "now"}, "unknown command", 1},
		{[]string{"upgrade"}, "Error: caddy upgrade replaces builds of released modules", 1},
		{[]string{"upgrade", "--keep-backup"}, "Error: caddy upgrade replaces", 1},
		{[]string{"add-package", "example.com/module"}, "Error: caddy add-package replaces", 1},
		{[]string{"remove-package", "github.com/caddy-presets/caddy-presets"}, "Error: caddy remove-package replaces", 1},
		{[]string{"help", "upgrade"}, "caddy upgrade ", 0},
	} {
		cmd := exec.Command(servertest.Caddy(t), test.args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != test.exit || !strings.Contains(string(out), test.want) || strings.Contains(string(out), "panic") {
			t.Errorf("caddy %s: got %v and\n%.2000s\nwant exit code %d and %q", test.args, err, out, test.exit, test.want)
		}
	}
}

// TestKilledServerLosesNothing kills the server with SIGKILL repeatedly. Acknowledged
// writes remain.
func TestKilledServerLosesNothing(t *testing.T) {
	tier.Slow(t)
	const secret = "management-secret-of-the-tests"
	at := newPlace(t)
	caddyfile := at.write(t, at.storage("store")+"\nmanagement_key "+secret+" ann", "")
	const writers = 8
	cycles := 2
	if tier.EveryCase() {
		cycles = 3
	}
	var (
		mu         sync.Mutex
		versions   = map[int]string{} // the versions of the preset that all writers share
		workspaces = map[string]string{}
	)
	issued, head := "", ""
	for cycle := range cycles {
		p := at.start(t, caddyfile)
		head = p.verify(t, head)
		if issued == "" {
			issued = strings.TrimSpace(p.key(t, "create", "--kind", "management"))
		}
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for n := 0; ; n++ {
					marker := fmt.Sprintf("c%d-w%d-n%d", cycle, i, n)
					status, body, err := p.try("POST", "/v1/presets/shared/responses", secret, fmt.Sprintf(`{"model":%q}`, marker))
					if err != nil {
						return // the server was killed
					}
					var preset struct {
						Data struct {
							DesignatedVersion struct{ Version int } `json:"designated_version"`
						}
					}
					if json.Unmarshal([]byte(body), &preset) != nil || status != 200 {
						t.Errorf("got %d %s", status, body)
						return
					}
					mu.Lock()
					if earlier := versions[preset.Data.DesignatedVersion.Version]; earlier != "" {
						t.Errorf("version %d is both %s and %s", preset.Data.DesignatedVersion.Version, earlier, marker)
					}
					versions[preset.Data.DesignatedVersion.Version] = marker
					mu.Unlock()
					status, body, err = p.try("POST", "/v1/workspaces", secret, fmt.Sprintf(`{"name":"n","slug":%q}`, marker))
					if err != nil {
						return
					}
					if status != 201 {
						t.Errorf("got %d %s", status, body)
						return
					}
					mu.Lock()
					workspaces[marker] = body
					mu.Unlock()
				}
			})
		}
		wait.Eventually(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(workspaces) >= writers*(cycle+1) // each follows a version
		})
		p.Kill()
		wg.Wait()
	}

	p := at.start(t, caddyfile)
	p.verify(t, head)
	if len(versions) < writers || len(workspaces) < writers {
		t.Fatalf("only %d versions and %d workspaces were written", len(versions), len(workspaces))
	}
	t.Logf("%d versions and %d workspaces acknowledged over %d kills", len(versions), len(workspaces), cycles)
	for slug, want := range workspaces {
		if status, body := p.do(t, "GET", "/v1/workspaces/"+slug, issued, ""); status != 200 || body != want {
			t.Fatalf("workspace %s: got %d %s, want %s", slug, status, body, want)
		}
	}
	p.Kill()
	store, err := badger.Open(filepath.Join(at.home, "store"), badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	err = store.View(t.Context(), func(r domain.Reader) error {
		home, err := r.WorkspaceID("default")
		if err != nil {
			return err
		}
		preset, err := r.Preset(home, "shared")
		if err != nil {
			return err
		}
		// At each kill, each writer may have stored at most one unacknowledged version.
		if most := len(versions) + writers*cycles; preset.LatestVersion > most || preset.DesignatedVersion != preset.LatestVersion {
			t.Errorf("got %d versions and designated version %d, want at most %d and the latest", preset.LatestVersion, preset.DesignatedVersion, most)
		}
		for number, marker := range versions {
			v, err := r.PresetVersion(preset.State(), number)
			if err != nil {
				return err
			}
			if want := fmt.Sprintf(`{"model":%q}`, marker); string(v.Config) != want {
				t.Errorf("version %d: got %s, want %s", number, v.Config, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil { // an open store removes files
		t.Error(err)
	}
	noneHolds(t, at.home, secret, "Caddyfile")
	noneHolds(t, at.home, issued, "")
}

// noneHolds checks that no file below folder except the named one contains a secret. The
// files include Caddy's autosaved configuration.
func noneHolds(t *testing.T, folder, secret, except string) {
	t.Helper()
	autosaved := false
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == except {
			return err
		}
		autosaved = autosaved || entry.Name() == "autosave.json"
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(secret)) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil || !autosaved {
		t.Errorf("autosaved configuration found: %t, %v", autosaved, err)
	}
}

// TestWebhookAtShutdown checks that a stopping server sends the waiting events of a
// webhook. A receiver that hangs does not keep it longer than its grace period.
func TestWebhookAtShutdown(t *testing.T) {
	tier.Slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs %t", hangs), func(t *testing.T) {
			arrived, release := make(chan struct{}, 10), make(chan struct{})
			var taken atomic.Int32
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is seen
				arrived <- struct{}{}
				select {
				case <-release:
					taken.Add(1)
				case <-r.Context().Done():
				}
			}))
			defer receiver.Close()
			const secret = "management-secret-of-the-tests"
			at := newPlace(t)
			at.grace = "1m" // longer than any wait
			if hangs {
				at.grace = "300ms"
			}
			caddyfile := at.write(t, at.storage("data")+"\nmanagement_key "+secret+"\nwebhook "+receiver.URL+" {\nsecret {env.WEBHOOK_SECRET}\n}", "")
			p := at.start(t, caddyfile, "WEBHOOK_SECRET=webhook-secret-of-the-tests")
			for range 3 {
				if status, body := p.do(t, "POST", "/v1/presets/p/responses", secret, `{}`); status != 200 {
					t.Fatalf("got %d %s", status, body)
				}
			}
			<-arrived // two more wait
			http.DefaultClient.CloseIdleConnections()
			began := time.Now()
			if err := p.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if !hangs {
				wait.Until(t, "the server does not exit", func() bool { return strings.Contains(p.Log(), "exiting; byeee") })
				close(release)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("%v\n%s", err, p.Log())
			}
			dropped := strings.Count(p.Log(), "webhook event dropped")
			if hangs {
				if took := time.Since(began); dropped != 3 || took > 30*time.Second {
					t.Errorf("%d events are logged as dropped after %v, want 3 after 300ms\n%s", dropped, took, p.Log())
				}
			} else if dropped != 0 || taken.Load() != 3 {
				t.Errorf("%d events were taken and %d dropped, want 3 and 0\n%s", taken.Load(), dropped, p.Log())
			}
		})
	}
}
