package etcdstore

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// program is the etcd server. shared is a cluster of one member, in which each test has its
// own prefix.
var (
	program string
	shared  *member
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(nowhere{}, nowhere{}, nowhere{}))
	folder, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if program = os.Getenv(servertest.EtcdVariable); program == "" {
		return m.Run()
	}
	client, releaseClient := servertest.ReserveAddress()
	defer releaseClient()
	peer, releasePeer := servertest.ReserveAddress()
	defer releasePeer()
	members, err := launch(folder, []string{client, peer})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = members[0]
	defer shared.kill()
	return m.Run()
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// member is one etcd server.
type member struct {
	address string // for clients
	args    []string
	cmd     *exec.Cmd
	log     string
}

// launch starts a cluster with data in a folder. Each member has two addresses, for its
// clients and for its peers.
func launch(folder string, addresses []string, args ...string) ([]*member, error) {
	size := len(addresses) / 2
	members, peers, names := make([]*member, size), make([]string, size), []string(nil)
	for i := range members {
		members[i], peers[i] = &member{address: addresses[2*i]}, "http://"+addresses[2*i+1]
		names = append(names, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i, m := range members {
		data := filepath.Join(folder, fmt.Sprintf("m%d", i))
		m.log = data + ".log"
		scheme := "http://"
		if strings.Contains(strings.Join(args, " "), "--cert-file") {
			scheme = "https://"
		}
		m.args = append([]string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", data, "--log-level", "error", "--logger", "zap",
			"--listen-client-urls", scheme + m.address, "--advertise-client-urls", scheme + m.address,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i], "--initial-cluster", strings.Join(names, ","),
		}, args...)
		if err := m.start(); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func (m *member) start() error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	m.cmd = exec.Command(program, m.args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	servertest.EndWithTest(m.cmd)
	return m.cmd.Start()
}

// kill ends the server at once.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// cluster starts a cluster of its own for a test.
func cluster(t *testing.T, size int, args ...string) []*member {
	t.Helper()
	needed(t)
	var reserved []string
	for range 2 * size {
		reserved = append(reserved, servertest.FreeAddress(t))
	}
	members, err := launch(t.TempDir(), reserved, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, m := range members {
			m.kill()
			if text, _ := os.ReadFile(m.log); t.Failed() && len(text) > 0 {
				t.Logf("%s: %s", m.address, text[max(0, len(text)-2000):])
			}
		}
	})
	return members
}

func needed(t testing.TB) {
	t.Helper()
	if program == "" {
		t.Skip(servertest.NoEtcd)
	}
}

// sharedAddress returns where the server that tests share listens.
func sharedAddress(t testing.TB) string {
	t.Helper()
	needed(t)
	return shared.address
}

func addresses(members []*member) (all []string) {
	for _, m := range members {
		all = append(all, m.address)
	}
	return all
}

var prefixes sync.Map // of tests

// prefix returns the test's own prefix. Each run of a test has another one.
func prefix(t testing.TB) string {
	own, _ := prefixes.LoadOrStore(t, uuid.NewString()+"/")
	return own.(string)
}

// open opens a store on the shared server by default, and closes it at the end of the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Endpoints == nil {
		o.Endpoints = []string{sharedAddress(t)}
	}
	if o.Prefix == "" {
		o.Prefix = prefix(t)
	}
	// A busy machine may answer late.
	o.RequestTimeout, o.MaxStaleness = cmp.Or(o.RequestTimeout, wait.Limit), cmp.Or(o.MaxStaleness, 2*time.Minute)
	deadline := time.Now().Add(wait.Limit)
	for {
		s, err := Open(t.Context(), o)
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// client returns a client of etcd's, on the shared server by default.
func client(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	if endpoints == nil {
		endpoints = []string{sharedAddress(t)}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: wait.Limit, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
