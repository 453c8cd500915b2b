package etcd

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	_ "github.com/caddy-presets/caddy-presets/caddymodule"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/internal/servertest"
	"github.com/caddy-presets/caddy-presets/internal/wait"
)

const (
	managementSecret = "management-secret-of-the-tests"
	inferenceSecret  = "inference-secret-of-the-tests"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// program is the etcd server, empty if there is none.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	home, err := os.MkdirTemp("", "caddy-presets-")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"XDG_DATA_HOME", "AppData"} {
		os.Setenv(name, home)
	}
	program = os.Getenv(servertest.EtcdVariable)
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}

func freeAddress(t *testing.T) string { return servertest.FreeAddress(t) }

// cluster is an etcd server, which may not run yet.
type cluster struct {
	t       *testing.T
	address string
	args    []string
	cmd     *exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if program == "" {
		t.Skip(servertest.NoEtcd)
	}
	c := &cluster{t: t, address: freeAddress(t)}
	client, peer := "http://"+c.address, "http://"+freeAddress(t)
	c.args = []string{
		"--name", "m", "--data-dir", filepath.Join(t.TempDir(), "data"), "--log-level", "error", "--logger", "zap",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "m=" + peer,
	}
	t.Cleanup(c.kill)
	return c
}

// start starts the server and waits until it answers.
func (c *cluster) start() {
	c.t.Helper()
	c.cmd = exec.Command(program, c.args...)
	servertest.EndWithTest(c.cmd)
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address}, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx := wait.Context(c.t)
	if _, err := client.Get(ctx, "x"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// server is a real Caddy in this process, with our sites in front of an upstream.
type server struct {
	t        *testing.T
	admin    string
	sites    []string // their addresses
	logFile  string
	upstream *httptest.Server
}

func newServer(t *testing.T, sites int) *server {
	s := &server{t: t, admin: freeAddress(t), logFile: filepath.Join(t.TempDir(), "log")}
	for range sites {
		s.sites = append(s.sites, freeAddress(t))
	}
	s.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(append([]byte("from the gateway: "), body...))
	}))
	t.Cleanup(s.upstream.Close)
	t.Cleanup(func() { caddytest.Stop(t) })
	return s
}

// load loads a configuration in which all sites use a store. The text of one may have more
// options of the directive after it.
func (s *server) load(storage ...string) error {
	text := fmt.Sprintf("{\nadmin %s\npersist_config off\nmetrics\nlog {\nlevel DEBUG\noutput file %s\n}\n}\n", s.admin, s.logFile)
	for i, address := range s.sites {
		_, port, _ := net.SplitHostPort(address)
		text += fmt.Sprintf("http://:%s {\nbind 127.0.0.1\npresets {\nstorage etcd %s\nmanagement_key %s ann\ninference_key %s bob\ninference\n}\nreverse_proxy %s\n}\n",
			port, storage[i%len(storage)], managementSecret, inferenceSecret, s.upstream.Listener.Addr())
	}
	return s.loadText(text)
}

// loadText loads a Caddyfile, and waits until only its servers listen.
func (s *server) loadText(text string) error {
	config, err := caddytest.Adapt(text)
	if err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	err = caddy.Load(config, true)
	for _, address := range s.sites {
		caddytest.Settle(s.t, address)
	}
	caddytest.SettleAdmin(s.t, s.admin)
	return err
}

func (s *server) do(site int, secret, method, path, body string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.sites[site]+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// want sends a request with do, checks the status and returns the answer.
func (s *server) want(status, site int, secret, method, path, body string) string {
	s.t.Helper()
	got, answer := s.do(site, secret, method, path, body)
	if got != status {
		s.t.Errorf("%s %s: got %d %s, want %d", method, path, got, answer, status)
	}
	return answer
}

func (s *server) logs() string {
	s.t.Helper()
	text, err := os.ReadFile(s.logFile)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

func (s *server) metrics() string {
	s.t.Helper()
	return get(s.t, "http://"+s.admin+"/metrics")
}
