package etcd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	_ "github.com/caddy-presets/caddy-presets/caddymodule"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
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

// server is a real Caddy in this process, with our sites in front of an upstream that echoes.
type server struct {
	*caddytest.Server
	sites []string // their addresses
}

func newServer(t *testing.T, sites int) *server {
	s := &server{Server: &caddytest.Server{T: t, AdminAddress: caddytest.Address(t), LogFile: filepath.Join(t.TempDir(), "log")}}
	for range sites {
		s.sites = append(s.sites, caddytest.Address(t))
	}
	s.Address = s.sites[0]
	s.Upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Upstream.Close)
	t.Cleanup(s.Stop)
	return s
}

// load loads a configuration in which all sites use a store. The text of one may have more
// options of the directive after it.
func (s *server) load(storage ...string) error {
	var text strings.Builder
	for i, address := range s.sites {
		text.WriteString(s.SiteAt(address, fmt.Sprintf("presets {\nstorage etcd %s\n%s\ninference\n}", storage[i%len(storage)], caddytest.Standard)))
	}
	err := s.Load(text.String())
	for _, address := range s.sites {
		caddytest.Settle(s.T, address)
	}
	return err
}

// want sends a request to a site, checks the status and returns the body.
func (s *server) want(status, site int, secret, method, path, body string) string {
	s.T.Helper()
	got := caddytest.Send(s.T, s.sites[site], method, path, body, caddytest.Bearer(secret))
	if got.Status != status {
		s.T.Errorf("%s %s: got %d %s, want %d", method, path, got.Status, got.Body, status)
	}
	return got.Body
}

// users makes etcd ask for passwords. The user presets has the password "former", and the
// permission for our keys if it may use them. root is a client that may do all.
func (c *cluster) users(mayUse bool) (root *clientv3.Client) {
	c.t.Helper()
	ctx := wait.Context(c.t)
	connect := func(user string) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address}, Username: user, Password: user, Logger: zap.NewNop()})
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { client.Close() })
		return client
	}
	admin := connect("")
	_, err1 := admin.UserAdd(ctx, "root", "root")
	_, err2 := admin.UserGrantRole(ctx, "root", "root")
	_, err3 := admin.UserAdd(ctx, "presets", "former")
	_, err4 := admin.RoleAdd(ctx, "presets")
	_, err5 := admin.UserGrantRole(ctx, "presets", "presets")
	var err6 error
	if mayUse {
		_, err6 = grant(ctx, admin)
	}
	_, err7 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		c.t.Fatal(err)
	}
	return connect("root")
}

const prefix = "caddy-presets/"

// grant gives the role presets the permission for our keys.
func grant(ctx context.Context, admin *clientv3.Client) (*clientv3.AuthRoleGrantPermissionResponse, error) {
	return admin.RoleGrantPermission(ctx, "presets", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
}
