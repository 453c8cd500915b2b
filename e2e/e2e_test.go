// Package e2e is a part of the second tier of tests. It runs the official clients against
// the real binary, built as operators build it. It is a module of its own, so
// caddy-presets does not depend on its requirements. A test without its tool is skipped
// and names the tool. With PRESETS_E2E=required, as in .ci/run, it fails instead.
package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// root is the folder of the main module.
const root = ".."

// run runs a command in a folder and returns its standard output. If the command fails, the
// test fails with its output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	stdout, stderr, err := try(t, dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// try is run for commands that may fail.
func try(t *testing.T, dir string, env []string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(wait.Command(t), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// read returns the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMain(m *testing.M) {
	code := m.Run()
	servertest.RemoveCaddy()
	for _, folder := range []string{pythons.folder, s3Built.folder} {
		if folder != "" {
			_ = os.RemoveAll(folder)
		}
	}
	os.Exit(code)
}

// The servers' keys, the first key's user, and the credentials for the gateway.
const (
	managementKey = "e2e-management-key-of-the-configuration"
	inferenceKey  = "e2e-inference-key-of-the-configuration"
	gatewayKey    = "e2e-key-of-the-operator-at-the-gateway"
)

// server is a running Caddy.
type server struct {
	binary string
	admin  string // host:port of the admin endpoint
	site   string // http://host:port
	env    []string
}

// start runs the built Caddy with the presets handler in front of upstream
// until the test ends.
func start(t *testing.T, upstream *upstream) *server {
	t.Helper()
	return startWith(t, "", "reverse_proxy "+upstream.address())
}

// startWith is start with more lines in the presets block, and with directives after it.
func startWith(t *testing.T, presets, next string) *server {
	t.Helper()
	s, home := newServer(t)
	s.serve(t, home, fmt.Sprintf(`{
	admin %s
	auto_https off
	persist_config off
	grace_period 2s
	metrics
}

%s {
	bind 127.0.0.1
	presets {
		storage badger "%s"
		management_key {env.E2E_MANAGEMENT_KEY} user_e2e
		inference_key {env.E2E_INFERENCE_KEY}
		%s
	}
	%s
}
`, s.admin, s.site, filepath.ToSlash(filepath.Join(home, "store")), presets, next))
	return s
}

// newServer returns a server of the built Caddy that does not run yet, with its home.
func newServer(t *testing.T) (s *server, home string) {
	t.Helper()
	home = t.TempDir()
	return &server{
		binary: servertest.Caddy(t), admin: freeAddress(t), site: "http://" + freeAddress(t),
		env: append(homeOf(home), "E2E_MANAGEMENT_KEY="+managementKey, "E2E_INFERENCE_KEY="+inferenceKey, "E2E_GATEWAY_KEY="+gatewayKey),
	}, home
}

// homeOf returns the variables that make a folder the home of a Caddy.
func homeOf(folder string) []string {
	return []string{"HOME=" + folder, "XDG_DATA_HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "AppData=" + folder}
}

// serve runs a Caddyfile in the server's home until the test ends, and returns the process.
func (s *server) serve(t *testing.T, home, caddyfile string) *exec.Cmd {
	t.Helper()
	config := filepath.Join(home, "Caddyfile")
	write(t, config, caddyfile)
	cmd := exec.CommandContext(wait.Command(t), s.binary, "run", "--config", config)
	cmd.Dir, cmd.Env = home, append(os.Environ(), s.env...)
	servertest.Serve(t, cmd, strings.TrimPrefix(s.site, "http://"))
	return cmd
}

func freeAddress(t *testing.T) string { return servertest.FreeAddress(t) }

// post sends a JSON body with a bearer key and returns the answer's status and
// body.
func (s *server) post(t *testing.T, path, key, body string) (int, string) {
	t.Helper()
	return s.send(t, http.MethodPost, path, key, body)
}

// send is post for any method, and with more headers, which are names and values.
func (s *server) send(t *testing.T, method, path, key, body string, header ...string) (int, string) {
	t.Helper()
	response := sendTo(t, method, s.site+path, key, body, header...)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// sendTo sends a JSON body to a URL with a key, and with more headers, which are names and values. The caller
// closes the body of the response.
func sendTo(t *testing.T, method, url, key, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// manage sends a JSON body as a manager, and fails the test unless that
// succeeds.
func (s *server) manage(t *testing.T, method, path, body string) {
	t.Helper()
	if status, answer := s.send(t, method, path, managementKey, body); status != http.StatusOK {
		t.Fatalf("%s %s: got %d %s, want 200", method, path, status, answer)
	}
}

// upstream is the gateway behind Caddy. It records its requests, and answers as clients
// expect. Headers of its answers repeat the received request.
type upstream struct {
	server *httptest.Server

	mu       sync.Mutex
	requests []string
}

const (
	modelsAnswer = `{"data": [], "links": {"next": null}, "total_count": 0}`
	chatAnswer   = `{"id": "gen-1", "object": "chat.completion", "created": 1, "model": "acme/small", "system_fingerprint": null,` +
		` "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "pong"}}]}`
)

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := new(upstream)
	u.server = httptest.NewServer(u)
	t.Cleanup(u.server.Close)
	return u
}

func (u *upstream) address() string { return u.server.Listener.Addr().String() }

// ServeHTTP answers a request that Caddy passed on.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	u.requests = append(u.requests, r.Method+" "+r.URL.Path)
	u.mu.Unlock()

	answer := chatAnswer
	if r.Method == http.MethodGet {
		answer = modelsAnswer
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Received-Sha256", hexSHA256(body))
	w.Header().Set("X-Received-Authorization", r.Header.Get("Authorization"))
	w.Header().Set("X-Sent-Sha256", hexSHA256([]byte(answer)))
	_, _ = io.WriteString(w, answer)
}

// received returns the method and path of each request, in order.
func (u *upstream) received() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.requests...)
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
