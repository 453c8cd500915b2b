//go:build faults && unix

package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestClusterBehindBalancer sends requests through docs/cluster/balancer.Caddyfile while eight faults
// hit the cluster one after another. Clients repeat changes as docs/api.md says, and inference as
// official clients do by default. No request fails then, and no acknowledged write is lost.
func TestClusterBehindBalancer(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	r := &clusterRun{cluster: newCluster(t), recorder: newRecorder(t)}
	r.recorder.shared = true
	again := &repeating{kinds: map[string]*repeatingFigures{"inference": {}, "change": {}}}
	front := newBalancer(r.cluster)
	front.client.Transport = again
	front.admin = r.nodes[1].admin // of a node that lives on
	r.waitReady()
	wait.Until(t, "the balancer finds a node", func() bool {
		a, err := r.recorder.createWorkspace(front, "team")
		return err == nil && (a.status == http.StatusCreated || a.status == http.StatusConflict)
	})
	r.load = newClusterLoad([]*server{front, front, front}, r.recorder, "balanced")
	r.load.begin()
	goesOn := func() {
		t.Helper()
		r.load.mu.Lock()
		versions, seen := len(r.load.versions)+20, len(r.load.seen)+200
		r.load.mu.Unlock()
		wait.Until(t, "requests are answered", func() bool {
			r.load.mu.Lock()
			defer r.load.mu.Unlock()
			return len(r.load.versions) >= versions && len(r.load.seen) >= seen
		})
	}
	goesOn()
	for _, fault := range []struct {
		name string
		do   func()
	}{
		{"Caddy killed", func() { r.nodes[0].kill(); goesOn(); r.nodes[0].mustStart() }},
		{"member killed", func() { r.killMember(r.follower()) }},
		{"leader killed", func() { r.killMember(r.leader()) }},
		{"member paused", func() {
			m := r.leader()
			m.signal(syscall.SIGSTOP)
			time.Sleep(3 * time.Second)
			m.signal(syscall.SIGCONT)
		}},
		{"leader isolated", func() {
			m := r.leader()
			m.peers.isolate(m.id)
			time.Sleep(6 * time.Second)
			m.peers.isolate("")
		}},
		{"disk lost", func() { r.follower().replaceDisk(r.leader()) }},
		{"quota full", func() { r.reachQuota() }},
		{"compaction and defragmentation", func() {
			r.leader().compact()
			for _, m := range r.members {
				m.mustCall("maintenance/defragment", map[string]any{})
			}
		}},
	} {
		from := time.Now()
		fault.do()
		r.waitReady()
		goesOn()
		t.Logf("%-30s took=%v %s", fault.name, time.Since(from).Round(100*time.Millisecond), again.take())
	}
	r.load.end()
	for i := range r.nodes {
		r.recorder.verify(r.nodes[i], true)
	}
	for _, failed := range again.failed {
		t.Error(failed)
	}
	for kind, n := range r.load.answers {
		if !slices.Contains([]string{"write 200", "write 201", "inference 200"}, kind) && !strings.Contains(kind, " key ") {
			t.Errorf("%d times the clients got %s", n, kind)
		}
	}
	var oldest time.Duration
	for _, s := range r.load.seen {
		oldest = max(oldest, r.load.staleness(s))
	}
	if oldest > maxStaleness {
		t.Errorf("served data were %v old", oldest)
	}
	result(t, "cluster behind a balancer", begun, append([]any{
		"faults", 8, "acknowledged", r.recorder.acknowledged, "inference", again.all["inference"].requests, "changes", again.all["change"].requests,
		"repeated-inference", again.all["inference"].repeated, "repeated-changes", again.all["change"].repeated, "failed", len(again.failed), "oldest", oldest,
	}, r.recorder.found.figures()...)...)
}

// newBalancer starts the documented load balancer in front of a cluster.
func newBalancer(c *cluster) *server {
	c.t.Helper()
	text, err := os.ReadFile("../docs/cluster/balancer.Caddyfile")
	if err != nil {
		c.t.Fatal(err)
	}
	front := newServer(c.t, options{binary: c.nodes[0].options.binary})
	replacements := []string{"http://:8080 {", front.site + " {\n\tbind 127.0.0.1"}
	for i, node := range c.nodes {
		replacements = append(replacements, fmt.Sprintf("caddy-%c:8080", 'a'+i), strings.TrimPrefix(node.site, "http://"))
	}
	front.write(strings.NewReplacer(replacements...).Replace(string(text)))
	front.mustStart()
	return front
}

// repeating sends requests, and repeats those that fail. A change has the same Idempotency-Key each
// time, and is repeated until it is answered. An inference request is repeated twice.
type repeating struct {
	mu     sync.Mutex
	sent   int // requests, not their repeats
	kinds  map[string]*repeatingFigures
	all    map[string]repeatingFigures
	failed []string
}

// repeatingFigures are of requests since the last take.
type repeatingFigures struct {
	requests, repeated int // repeated requests, not their number of repeats
	longest            time.Duration
}

// take returns the figures since the last time as text, and adds them to all.
func (c *repeating) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]repeatingFigures{}
	}
	text := ""
	for _, kind := range []string{"inference", "change"} {
		f, sum := c.kinds[kind], c.all[kind]
		c.all[kind] = repeatingFigures{sum.requests + f.requests, sum.repeated + f.repeated, max(sum.longest, f.longest)}
		text += fmt.Sprintf(" %s=%d repeated=%d longest=%v", kind, f.requests, f.repeated, f.longest.Round(time.Millisecond))
		*f = repeatingFigures{}
	}
	return text
}

// RoundTrip sends a request until it is answered.
func (c *repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, most, patience := "change", 1000, 2*time.Minute
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		kind, most, patience = "inference", 2, time.Minute
	}
	c.mu.Lock()
	c.sent++
	id := fmt.Sprintf("request-%d", c.sent)
	c.mu.Unlock()
	begun := time.Now()
	for repeats := 0; ; repeats++ {
		again := r.Clone(r.Context())
		var err error
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
		if kind == "change" {
			again.Header.Set("Idempotency-Key", id)
		}
		response, err := c.once(again)
		took := time.Since(begun)
		pause := 500 * time.Millisecond
		outcome := fmt.Sprint(err)
		if err == nil {
			outcome = response.Status
			if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
				pause = time.Duration(seconds) * time.Second
			}
		}
		if answered := err == nil && response.StatusCode < http.StatusInternalServerError; answered || repeats == most || took > patience {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !answered {
				c.failed = append(c.failed, fmt.Sprintf("%s after %d repeats and %v: %s", kind, repeats, took, outcome))
			}
			f := c.kinds[kind]
			f.requests, f.longest = f.requests+1, max(f.longest, took)
			if repeats > 0 {
				f.repeated++
			}
			return response, err
		}
		time.Sleep(pause)
	}
}

// once sends a request and reads the whole answer, because a fault may cut it short.
func (c *repeating) once(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	response, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(strings.NewReader(string(text)))
	return response, err
}
