//go:build faults && unix

package faults

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// clusterFault is a fault to inject into a cluster.
type clusterFault struct {
	name   string
	writes bool // all unaffected nodes accept writes
	resets bool // nodes may have to read all records again
	slow   bool // long form only: etcdstore has similar tests
	// do causes the fault and ends it. It returns the nodes that it affected.
	do func(r *clusterRun) []int
}

var clusterFaults = []clusterFault{
	{"leader killed", true, false, false, func(r *clusterRun) []int { return r.killMember(r.leader()) }},
	{"follower killed", true, false, false, func(r *clusterRun) []int { return r.killMember(r.follower()) }},
	{"leader stopped", true, false, false, func(r *clusterRun) []int {
		m := r.leader()
		m.signal(syscall.SIGSTOP)
		time.Sleep(3 * time.Second)
		m.signal(syscall.SIGCONT)
		return nil
	}},
	{"leader isolated", true, false, false, func(r *clusterRun) []int {
		m := r.leader()
		m.peers.isolate(m.id)
		time.Sleep(6 * time.Second)
		m.peers.isolate("")
		return nil
	}},
	{"node killed", true, false, false, func(r *clusterRun) []int {
		i := rand.IntN(len(r.nodes))
		r.nodes[i].kill()
		time.Sleep(time.Second)
		r.nodes[i].mustStart()
		return []int{i}
	}},
	{"node stopped", true, false, false, func(r *clusterRun) []int {
		i := rand.IntN(len(r.nodes))
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := r.nodes[i].process.Signal(s); err != nil {
				r.t.Error(err)
			}
			if s == syscall.SIGSTOP {
				time.Sleep(3 * time.Second)
			}
		}
		return []int{i}
	}},
	{"node cut off", true, false, false, func(r *clusterRun) []int { return r.cutOffNode(broken, func() {}) }},
	{"node without an answer", true, false, true, func(r *clusterRun) []int { return r.cutOffNode(silent, func() {}) }},
	{"member without an answer", true, false, true, func(r *clusterRun) []int {
		node, m := rand.IntN(len(r.nodes)), rand.IntN(len(r.members))
		r.links[node][m].set(silent)
		time.Sleep(9 * time.Second)
		r.links[node][m].set(linked)
		return nil // there are two others
	}},
	{"compacted while cut off", true, true, true, func(r *clusterRun) []int {
		return r.cutOffNode(broken, func() { r.members[rand.IntN(len(r.members))].compact() })
	}},
	{"no quorum", false, false, false, (*clusterRun).loseQuorum},
	{"quota full", false, true, true, (*clusterRun).reachQuota},
}

// leader returns the member that leads.
func (r *clusterRun) leader() *member { return r.findMember(true) }

// follower returns a member that does not lead.
func (r *clusterRun) follower() *member { return r.findMember(false) }

func (r *clusterRun) findMember(leads bool) *member {
	r.t.Helper()
	var found *member
	wait.Until(r.t, "etcd has a leader", func() bool {
		for _, i := range rand.Perm(len(r.members)) {
			s, err := r.members[i].status()
			if err == nil && s.Leader != "0" && s.Leader != "" && (s.Leader == s.Header.ID) == leads {
				found = r.members[i]
			}
		}
		return found != nil
	})
	return found
}

// killMember kills a member, and starts it again after a while.
func (r *clusterRun) killMember(m *member) []int {
	m.kill()
	time.Sleep(2500 * time.Millisecond)
	m.start()
	m.ready()
	return nil
}

// cutOffNode cuts a node off from all members for a while, and calls meanwhile during that
// time.
func (r *clusterRun) cutOffNode(how linkState, meanwhile func()) []int {
	i := rand.IntN(len(r.nodes))
	for _, l := range r.links[i] {
		l.set(how)
	}
	time.Sleep(1500 * time.Millisecond)
	meanwhile()
	time.Sleep(1500*time.Millisecond + rand.N(4*time.Second))
	for _, l := range r.links[i] {
		l.set(linked)
	}
	return []int{i}
}

// loseQuorum kills two members for longer than the data in memory stays valid.
func (r *clusterRun) loseQuorum() []int {
	killed := []*member{r.leader(), r.follower()}
	for _, m := range killed {
		m.kill()
	}
	time.Sleep(maxStaleness + 200*time.Millisecond)
	var group sync.WaitGroup
	for i, s := range r.nodes {
		group.Go(func() { // this may take as long as a request to etcd
			if status, _, _ := infer(s, r.load.live[0], inferenceKey); status != http.StatusServiceUnavailable {
				r.t.Errorf("node %d without a quorum answers inference with %d, want 503", i, status)
			}
			if a, err := s.get(r.load.live[0].path("")); err != nil || a.status != http.StatusServiceUnavailable {
				r.t.Errorf("node %d without a quorum answers a read with %s, %v, want 503", i, a, err)
			}
		})
	}
	group.Wait()
	for _, m := range killed {
		m.start()
	}
	for _, m := range killed {
		m.ready()
	}
	return nil
}

// reachQuota fills a member's database to its quota, so that etcd raises an alarm. Then it does
// the operator's repairs.
func (r *clusterRun) reachQuota() []int {
	m := r.follower()
	s, err := m.status()
	if err != nil {
		r.t.Fatal(err)
	}
	size, _ := strconv.ParseInt(s.Size, 10, 64)
	m.kill()
	m.start("--quota-backend-bytes", strconv.FormatInt(size+8<<20, 10))
	m.ready()
	if err := m.fill(); err != nil {
		r.t.Fatal(err)
	}
	for i, s := range r.nodes {
		var a answer
		var err error
		for late := time.Now().Add(30 * time.Second); time.Now().Before(late); { // until all members know of the alarm
			if a, err = s.send(http.MethodPost, "/v1/presets/full/responses", `{"model":"m"}`); err != nil || a.status != http.StatusOK {
				break
			}
		}
		if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			r.t.Errorf("node %d: a write while etcd is full gives %s, %v, want 503", i, a, err)
		}
		if a, err := s.get(r.load.live[0].path("")); err != nil || a.status != http.StatusOK {
			r.t.Errorf("node %d: a read while etcd is full gives %s, %v", i, a, err)
		}
		if status, _, wrong := infer(s, r.load.live[0], inferenceKey); status != http.StatusOK || wrong != "" {
			r.t.Errorf("node %d: inference while etcd is full gives %d %s", i, status, wrong)
		}
		if r.metric(i, "writable") != 0 {
			r.t.Errorf("node %d: the metrics do not tell that etcd is full", i)
		}
	}
	m.mustCall("kv/deleterange", map[string]any{"key": encoded(filler), "range_end": encoded(filler[:len(filler)-1] + "0")})
	m.compact()
	for _, each := range r.members {
		each.mustCall("maintenance/defragment", map[string]any{})
	}
	m.kill()
	m.start()
	m.ready()
	m.disarm()
	return nil
}

// newEcho starts a gateway that answers with the request's body, and returns its address.
func newEcho(t *testing.T) string {
	t.Helper()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(gateway.Close)
	return strings.TrimPrefix(gateway.URL, "http://")
}
