//go:build faults

package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// long selects the long forms of all runs.
var long = os.Getenv("PRESETS_FAULTS") == "long"

// choose returns the number for the selected form.
func choose(inShort, inLong int) int {
	if long {
		return inLong
	}
	return inShort
}

// result logs the figures of a run. figures has names and values in turn. RELIABILITY.md
// quotes these lines.
func result(t *testing.T, name string, begun time.Time, figures ...any) {
	t.Helper()
	var line strings.Builder
	fmt.Fprintf(&line, "RESULT %s:", name)
	for i := 0; i+1 < len(figures); i += 2 {
		fmt.Fprintf(&line, " %v=%v", figures[i], figures[i+1])
	}
	t.Logf("%s took=%s", &line, time.Since(begun).Round(time.Second))
}

// run runs a command. If the command fails, the test fails with its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(wait.Command(t), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The folders of the modules with a cmd/caddy: without and with the engine etcd.
const (
	mainModule = ".."
	etcdModule = "../caddymodule/etcd"
)

func TestMain(m *testing.M) {
	code := m.Run()
	servertest.RemoveCaddy()
	os.Exit(code)
}

// The management key and the inference key in the servers' Caddyfiles.
const (
	managementKey = "faults-management-key-of-the-configuration"
	inferenceKey  = "faults-inference-key-of-the-configuration"
)

// encryptionKey is the key of the servers whose stores are encrypted.
const encryptionKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// gatewayAnswer is the answer of the default gateway.
const gatewayAnswer = "passed on to the gateway"

// options are the differences between servers. The zero value is the usual server.
type options struct {
	binary    string // servertest.Caddy, if empty
	store     string // a folder in the server's home
	encrypted bool   // the store, with encryptionKey
	storage   string // the directive; badger in store
	global    string // more lines for the global options
	presets   string // more lines for the presets block
	gateway   string // the directives after presets; responds with gatewayAnswer
	env       []string
}

// server is a Caddy that can be started, ended and started again, with the same files and
// ports. Its methods are for one goroutine, except send, running and log.
type server struct {
	t       *testing.T
	options options
	home    string // all files of the server, including log and store
	config  string // the Caddyfile
	logFile string // the output of all its processes
	store   string
	site    string // http://host:port
	admin   string // host:port of the admin endpoint
	client  *http.Client

	mu      sync.Mutex
	process *servertest.Process // nil before the first start
	from    int64               // where the output of the present process begins in logFile
}

// newServer makes a server that does not run yet. The test's end kills it.
func newServer(t *testing.T, o options) *server {
	t.Helper()
	home := t.TempDir()
	site := freeAddress(t)
	s := &server{
		t: t, options: o, home: home, site: "http://" + site, admin: freeAddress(t),
		config: filepath.Join(home, "Caddyfile"), logFile: filepath.Join(home, "log"),
		store:  o.store,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}, Timeout: wait.Limit},
	}
	if s.options.binary == "" {
		s.options.binary = servertest.Caddy(t)
	}
	if s.options.gateway == "" {
		s.options.gateway = fmt.Sprintf("respond %q", gatewayAnswer)
	}
	if s.store == "" {
		s.store = filepath.Join(home, "store")
	}
	if s.options.storage == "" {
		s.options.storage = fmt.Sprintf("storage badger %q", filepath.ToSlash(s.store))
		if o.encrypted {
			key := filepath.Join(home, "encryption.key")
			if err := os.WriteFile(key, []byte(encryptionKey), 0o600); err != nil {
				t.Fatal(err)
			}
			s.options.storage += fmt.Sprintf(" {\nencryption_key_file %q\n}", filepath.ToSlash(key))
		}
	}
	s.write(s.caddyfile())
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("what caddy said:\n%s", s.excerpt())
		}
	})
	return s
}

// caddyfile returns the Caddyfile for the options.
func (s *server) caddyfile() string {
	return fmt.Sprintf(`{
	admin %s
	auto_https off
	persist_config off
	grace_period 2s
	%s
}

%s {
	bind 127.0.0.1
	presets {
		%s
		management_key %s ann
		inference_key %s bob
		%s
	}
	%s
}
`, s.admin, s.options.global, s.site, s.options.storage, managementKey, inferenceKey, s.options.presets, s.options.gateway)
}

// write replaces the Caddyfile, for the next start or reload.
func (s *server) write(caddyfile string) {
	s.t.Helper()
	if err := os.WriteFile(s.config, []byte(caddyfile), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// environment returns the environment of the server and its commands.
func (s *server) environment() []string {
	return append(append(os.Environ(), "HOME="+s.home, "XDG_DATA_HOME="+s.home, "XDG_CONFIG_HOME="+s.home), s.options.env...)
}

// launch starts the process and does not wait until it listens.
func (s *server) launch() {
	s.t.Helper()
	if s.running() {
		s.t.Fatal("the server runs already")
	}
	log, err := os.OpenFile(s.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	info, err := log.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(wait.Command(s.t), s.options.binary, "run", "--config", s.config)
	cmd.Dir, cmd.Env = s.home, s.environment()
	cmd.Stdout, cmd.Stderr = log, log
	process := servertest.Start(s.t, cmd)
	s.mu.Lock()
	s.process, s.from = process, info.Size()
	s.mu.Unlock()
}

// start starts the process and waits until it listens. If the process ends earlier, the
// error has its output.
func (s *server) start() error {
	s.t.Helper()
	s.launch()
	return s.waitListening()
}

// waitListening waits until the process that was launched listens.
func (s *server) waitListening() error {
	if err := s.process.Listens(strings.TrimPrefix(s.site, "http://")); err != nil {
		return fmt.Errorf("%w:\n%s", err, s.excerpt())
	}
	return nil
}

// mustStart is start, and fails the test if the server does not start.
func (s *server) mustStart() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// running reports whether there is a process.
func (s *server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && s.process.Running()
}

// hasDied reports whether the process has ended or ends within a few seconds. A crashed
// process may need this time to write its stack.
func (s *server) hasDied() bool {
	for range 50 {
		if !s.running() {
			return true
		}
		if a, err := s.get("/"); err == nil && a.status > 0 {
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// kill ends the process at once with SIGKILL, without a cleanup.
func (s *server) kill() {
	if s.process != nil {
		s.process.Kill()
		s.client.CloseIdleConnections()
	}
}

// stop asks the process to end and waits for its end. The error is nil only for a clean
// exit.
func (s *server) stop() error {
	if !s.running() {
		return errors.New("the server does not run")
	}
	defer s.client.CloseIdleConnections()
	return s.process.Stop()
}

// log returns the output of the present process, or of the last one.
func (s *server) log() string {
	s.mu.Lock()
	from := s.from
	s.mu.Unlock()
	text, err := os.ReadFile(s.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text[min(int(from), len(text)):])
}

// crashes are the beginnings of a Go program's crash messages.
var crashes = []string{"panic: ", "fatal error: ", "unexpected fault address", "runtime: out of memory"}

// crash returns the position of a crash message in a log, or -1.
func crash(log string) int {
	first := -1
	for _, words := range crashes {
		if i := strings.Index(log, words); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}

// excerpt returns the beginning of a crash. Without a crash it returns the first errors
// and the end of the log.
func (s *server) excerpt() string {
	const length = 4 << 10
	text := s.log()
	if i := crash(text); i >= 0 {
		return text[i:min(len(text), i+length)]
	}
	var errs strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"level":"error"`) && errs.Len() < length {
			errs.WriteString(line)
		}
	}
	return errs.String() + "[…]\n" + text[max(0, len(text)-length):]
}

// command runs the binary with other arguments, such as "reload", "--config",
// s.config, "--address", s.admin.
func (s *server) command(args ...string) (string, error) {
	cmd := exec.CommandContext(wait.Command(s.t), s.options.binary, args...)
	cmd.Dir, cmd.Env = s.home, s.environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// answer is a completely read HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s", a.status, a.body[:min(len(a.body), 500)])
}

// send sends a request with the management key and reads the answer. headers has names
// and values in turn. An Authorization there replaces the key. send may be called from
// any goroutine.
func (s *server) send(method, path, body string, headers ...string) (answer, error) {
	r, err := http.NewRequest(method, s.site+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+managementKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.do(r)
}

// do sends a request and reads the answer.
func (s *server) do(r *http.Request) (answer, error) {
	response, err := s.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text := new(bytes.Buffer)
	_, err = io.Copy(text, response.Body)
	return answer{response.StatusCode, response.Header, text.Bytes()}, err
}

// get is send for reads.
func (s *server) get(path string) (answer, error) { return s.send(http.MethodGet, path, "") }

func freeAddress(t *testing.T) string { return servertest.FreeAddress(t) }
