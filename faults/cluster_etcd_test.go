//go:build faults && unix

package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// member is an etcd server. Other members reach it through a proxy, which knows who
// sends.
type member struct {
	t       *testing.T
	peers   *peers
	client  string // host:port
	peer    string
	proxied string // host:port of the proxy before peer
	id      string
	args    []string
	log     string
	binary  string
	cmd     *exec.Cmd
}

// newMembers starts a cluster of three and waits until it has a leader.
func newMembers(t *testing.T) []*member {
	t.Helper()
	binary, folder := servertest.Etcd(t), t.TempDir()
	p := &peers{requests: map[*peerRequest]bool{}}
	members, names := make([]*member, 3), make([]string, 3)
	for i := range members {
		members[i] = &member{t: t, peers: p, binary: binary, client: freeAddress(t), peer: freeAddress(t), log: filepath.Join(folder, fmt.Sprintf("m%d.log", i))}
		members[i].proxied = p.serve(t, members[i])
		names[i] = fmt.Sprintf("m%d=http://%s", i, members[i].proxied)
	}
	for i, m := range members {
		m.args = []string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(folder, fmt.Sprintf("m%d", i)), "--logger", "zap", "--log-level", "error",
			"--pre-vote=true", // before 3.5, a returning member would force an election
			"--listen-client-urls", "http://" + m.client, "--advertise-client-urls", "http://" + m.client,
			"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.proxied, "--initial-cluster", strings.Join(names, ","),
		}
		m.start()
		t.Cleanup(m.kill)
	}
	for _, m := range members {
		m.ready()
		status, err := m.status()
		if err != nil {
			t.Fatal(err)
		}
		m.id = status.Header.ID
	}
	return members
}

// start starts the process, with additional arguments.
func (m *member) start(more ...string) {
	m.t.Helper()
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.CommandContext(wait.Command(m.t), m.binary, append(slices.Clip(m.args), more...)...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// kill ends the process at once.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

func (m *member) signal(s syscall.Signal) {
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Error(err)
	}
}

// ready waits until the member knows a leader and answers a linearizable read.
func (m *member) ready() {
	m.t.Helper()
	if !wait.Eventually(func() bool { return m.call("kv/range", map[string]any{"key": encoded("x")}, nil) == nil }) {
		text, _ := os.ReadFile(m.log)
		m.t.Fatalf("etcd is not ready:\n%s", text[max(0, len(text)-2000):])
	}
}

// replaceDisk kills the member and removes its folder. Then it does the operator's repair through
// another member: the cluster forgets the member and gets a new one in its place.
func (m *member) replaceDisk(other *member) {
	m.t.Helper()
	m.kill()
	if err := os.RemoveAll(m.args[slices.Index(m.args, "--data-dir")+1]); err != nil {
		m.t.Fatal(err)
	}
	other.mustCall("cluster/member/remove", map[string]any{"ID": m.id})
	var added struct{ Member struct{ ID string } }
	wait.Until(m.t, "etcd takes a new member", func() bool { // it has seen the others for five seconds
		return other.call("cluster/member/add", map[string]any{"peerURLs": []string{"http://" + m.proxied}}, &added) == nil
	})
	m.peers.mu.Lock()
	m.id = added.Member.ID
	m.peers.mu.Unlock()
	m.start("--initial-cluster-state", "existing")
	m.ready()
}

// encoded returns text in Base64, as etcd's JSON gateway expects it.
func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// etcdStatus is a member's own status.
type etcdStatus struct {
	Header struct {
		ID       string `json:"member_id"`
		Revision string
	}
	Leader string
	Size   string `json:"dbSize"`
}

func (m *member) status() (s etcdStatus, err error) {
	err = m.call("maintenance/status", map[string]any{}, &s)
	return s, err
}

var etcdClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}

// patience is how long a member may take for a method. Most take an election at worst. To
// rewrite the whole database takes longer.
func patience(method string) time.Duration {
	switch method {
	case "kv/compaction", "maintenance/defragment":
		return 2 * time.Minute
	}
	return 10 * time.Second
}

// call calls a method of etcd through the member's JSON gateway.
func (m *member) call(method string, request map[string]any, to any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience(method))
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.client+"/v3/"+method, bytes.NewReader(text))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := etcdClient.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", method, response.StatusCode, body)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(body, to)
}

// mustCall is call, and fails the test if the call fails.
func (m *member) mustCall(method string, request map[string]any) {
	m.t.Helper()
	if err := m.call(method, request, nil); err != nil {
		m.t.Error(err)
	}
}

// compact removes all revisions except the latest.
func (m *member) compact() {
	m.t.Helper()
	s, err := m.status()
	if err == nil {
		err = m.call("kv/compaction", map[string]any{"revision": s.Header.Revision, "physical": true}, nil)
	}
	if err != nil && !strings.Contains(err.Error(), "has been compacted") {
		m.t.Error(err)
	}
}

// filler is the prefix of the keys that fill stores.
const filler = "filler/"

// fill fills etcd until it refuses writes.
func (m *member) fill() (err error) {
	value := encoded(strings.Repeat("x", 1<<20))
	for i := range 1000 {
		if err := m.call("kv/put", map[string]any{"key": encoded(filler + strconv.Itoa(i)), "value": value}, nil); err != nil {
			if strings.Contains(err.Error(), "database space exceeded") {
				return nil
			}
			return err
		}
	}
	return errors.New("etcd takes a gigabyte")
}

// disarm ends all alarms.
func (m *member) disarm() {
	m.t.Helper()
	var raised struct {
		Alarms []struct {
			Member string `json:"memberID"`
			Alarm  string
		}
	}
	if err := m.call("maintenance/alarm", map[string]any{"action": "GET"}, &raised); err != nil {
		m.t.Error(err)
	}
	for _, a := range raised.Alarms {
		m.mustCall("maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": a.Member, "alarm": a.Alarm})
	}
}

// peers is the proxies between members.
type peers struct {
	mu       sync.Mutex
	isolated string // the id of a member that is cut off from the others
	requests map[*peerRequest]bool
}

type peerRequest struct {
	from, to string // ids; from is empty if unknown
	end      context.CancelFunc
}

// serve starts the proxy before a member.
func (p *peers) serve(t *testing.T, m *member) (address string) {
	t.Helper()
	address = freeAddress(t)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: m.peer})
		},
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		from, _ := strconv.ParseUint(r.Header.Get("X-Server-From"), 16, 64)
		p.mu.Lock()
		request := &peerRequest{strconv.FormatUint(from, 10), m.id, end}
		cut := p.cut(request)
		p.requests[request] = true
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			delete(p.requests, request)
			p.mu.Unlock()
		}()
		if cut {
			panic(http.ErrAbortHandler)
		}
		_ = http.NewResponseController(w).EnableFullDuplex() // or an early answer ends the request's body
		reverse.ServeHTTP(w, r.WithContext(ctx))
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	return address
}

// cut reports whether a request is from a member that is cut off, or to it. p.mu is held.
func (p *peers) cut(r *peerRequest) bool {
	return p.isolated != "" && (r.from == p.isolated || r.to == p.isolated)
}

// isolate cuts a member off from the others, none for "".
func (p *peers) isolate(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isolated = id
	for r := range p.requests {
		if p.cut(r) {
			r.end()
		}
	}
}

// link is a TCP proxy between a server of ours and a member.
type link struct {
	address  string
	mu       sync.Mutex
	changed  *sync.Cond
	state    linkState
	conns    map[net.Conn]bool
	listener net.Listener
}

type linkState int

const (
	linked linkState = iota
	broken           // open and new connections end
	silent           // no data arrives until it is linked again
)

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l := &link{address: freeAddress(t), conns: map[net.Conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	var err error
	if l.listener, err = net.Listen("tcp", l.address); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			from, err := l.listener.Accept()
			if err != nil {
				return
			}
			go l.join(from, to)
		}
	}()
	t.Cleanup(func() { l.listener.Close(); l.set(broken) })
	return l
}

func (l *link) set(state linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	if state == broken {
		for conn := range l.conns {
			conn.Close()
		}
	}
	l.changed.Broadcast()
}

// waitLinked waits while the link is silent. It reports whether the link works then.
func (l *link) waitLinked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state == silent {
		l.changed.Wait()
	}
	return l.state == linked
}

func (l *link) join(from net.Conn, address string) {
	defer from.Close()
	if !l.waitLinked() {
		return
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	l.mu.Lock()
	l.conns[from], l.conns[to] = true, true
	l.mu.Unlock()
	pass := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil || !l.waitLinked() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go pass(to, from)
	pass(from, to)
	l.mu.Lock()
	delete(l.conns, from)
	delete(l.conns, to)
	l.mu.Unlock()
}
