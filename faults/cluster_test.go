//go:build faults && unix

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// The promises of a cluster.
const (
	maxStaleness = 5 * time.Second // of data in memory, in any fault
	maxGap       = 5 * time.Second // without a write, with a quorum
	maxLag       = time.Second     // behind other nodes, without a fault
)

// maxTries is the number of tries for a result within a promised time. The short form may
// run on a busy machine. In the long form the first try counts.
var maxTries = choose(3, 1)

// cluster is three etcd servers and three of our servers.
type cluster struct {
	t       *testing.T
	members []*member
	nodes   []*server
	links   [][]*link // from each node to each member
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, members: newMembers(t)}
	binary := filepath.Join(t.TempDir(), "caddy")
	if err := servertest.Build(t, etcdModule, "./cmd/caddy", binary); err != nil {
		t.Fatal(err)
	}
	gateway := newEcho(t)
	for range 3 {
		var links []*link
		var addresses []string
		for _, m := range c.members {
			l := newLink(t, m.client)
			links, addresses = append(links, l), append(addresses, l.address)
		}
		c.links = append(c.links, links)
		node := newServer(t, options{
			binary: binary, storage: "storage etcd " + strings.Join(addresses, " "), global: "metrics\nlog {\nlevel WARN\n}",
			presets: "inference\nhealth /healthz\nauth_failure_limit off", gateway: "reverse_proxy " + gateway,
		})
		node.mustStart()
		c.nodes = append(c.nodes, node)
	}
	return c
}

// waitReady waits until all nodes serve and take writes.
func (c *cluster) waitReady() {
	c.t.Helper()
	for i, s := range c.nodes {
		wait.Until(c.t, fmt.Sprintf("node %d takes writes", i), func() bool {
			a, err := s.send(http.MethodPut, "/v1/presets/none/labels/x", `{"version":1}`) // reaches the committer
			return err == nil && a.status == http.StatusNotFound
		})
	}
}

// metric returns a figure of a node's store.
func (c *cluster) metric(node int, name string) float64 {
	c.t.Helper()
	a, err := sendAdminJSON(c.nodes[node], http.MethodGet, "/metrics", "")
	if err != nil || a.status != http.StatusOK {
		c.t.Fatal(a, err)
	}
	for line := range strings.Lines(string(a.body)) {
		if strings.HasPrefix(line, "caddy_presets_etcd_"+name+"{") {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return value
		}
	}
	c.t.Fatalf("node %d has no metric %s", node, name)
	return 0
}

// clusterRun is a cluster with one fault after another.
type clusterRun struct {
	*cluster
	recorder *recorder
	cycle    int
	all      roundTotals
	load     *clusterLoad
	healed   time.Time

	answers map[string]int
	kinds   map[string]*faultFigures
	resets  int
	missed  int // commits that a node does not know
}

// faultFigures are the worst results of a kind of fault.
type faultFigures struct {
	count                     int
	gap, resumed, equal, lags time.Duration // lags: without a fault
	age                       time.Duration
}

// TestCluster causes one fault after another in a cluster with three nodes and three etcd
// members. The nodes serve the same data, lose no write and accept writes during a single
// failure. Without a quorum no node serves data that may be stale.
func TestCluster(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	r := &clusterRun{cluster: newCluster(t), recorder: newRecorder(t), answers: map[string]int{}, kinds: map[string]*faultFigures{}}
	r.recorder.shared = true
	if a, err := r.recorder.createWorkspace(r.nodes[0], "team"); err != nil || a.status != http.StatusCreated {
		t.Fatal(a, err)
	}
	kinds := slices.DeleteFunc(slices.Clone(clusterFaults), func(f clusterFault) bool { return f.slow && !long || !isSelected(f.name) })
	if len(kinds) == 0 {
		t.Fatal("PRESETS_CLUSTER leaves no fault")
	}
	count := choose(len(kinds), 100)
	var order []clusterFault
	for len(order) < count {
		for _, i := range rand.Perm(len(kinds)) {
			order = append(order, kinds[i])
		}
	}
	lates := 0
	for _, f := range order[:count] {
		// At the end each node must return every write.
		if deadline, ok := t.Deadline(); ok && time.Until(deadline) < 90*time.Second+time.Since(begun)/4 {
			t.Logf("the time is over after %d of %d faults", r.cycle, count)
			break
		}
		for tried := 1; r.recorder.found.none(); tried++ { // later faults may follow from the first
			late := r.inject(f)
			if late == nil {
				break
			}
			t.Log(late)
			if lates++; tried == maxTries || lates > 2*maxTries {
				t.Errorf("%s: %d times later than promised, and %d faults in total", f.name, tried, lates)
				break
			}
		}
	}
	for i := range r.nodes {
		r.recorder.verify(r.nodes[i], true)
	}
	if out, err := r.nodes[0].command("presets", "audit", "--verify", "--address", r.nodes[0].admin); err != nil || !strings.Contains(out, "unbroken") {
		t.Errorf("the audit trail: %v\n%.500s", err, out)
	}
	var worst faultFigures
	for _, name := range slices.Sorted(maps.Keys(r.kinds)) {
		k := r.kinds[name]
		result(t, "cluster "+name, begun, "count", k.count, "gap", k.gap, "resumed", k.resumed, "equal-after", k.equal, "lag", k.lags, "oldest", k.age)
		worst.gap, worst.equal = max(worst.gap, k.gap), max(worst.equal, k.equal)
		worst.lags, worst.age = max(worst.lags, k.lags), max(worst.age, k.age)
	}
	for _, name := range slices.Sorted(maps.Keys(r.answers)) {
		t.Logf("%s: %d", name, r.answers[name])
	}
	result(t, "cluster", begun, append([]any{
		"faults", r.cycle, "acknowledged", r.recorder.acknowledged, "gap", worst.gap, "equal-after", worst.equal, "lag", worst.lags, "oldest", worst.age,
		"missed", r.missed, "resets", r.resets, "linear-requests", r.all.requests, "linear-writes", r.all.writes, "unknown", r.all.unknown, "refused", r.all.refused,
	}, r.recorder.found.figures()...)...)
}

// isSelected reports whether PRESETS_CLUSTER selects a fault by a part of its name.
func isSelected(name string) bool { return strings.Contains(name, os.Getenv("PRESETS_CLUSTER")) }

// inject causes one fault under load and checks its effects. It returns an error if the
// results are right but late.
func (r *clusterRun) inject(f clusterFault) (late error) {
	t := r.t
	begun := time.Now()
	name := fmt.Sprintf("c%d", r.cycle)
	resets := make([]float64, len(r.nodes))
	for i := range r.nodes {
		resets[i] = r.metric(i, "watch_resets_total")
	}
	var sites []string
	for _, s := range r.nodes {
		sites = append(sites, s.site)
	}
	linear := newRound(t, r.cycle, 3, 3, 1<<30, sites...)
	linear.pause = 20 * time.Millisecond
	r.recorder.workspaces[fmt.Sprintf("linear-%d", r.cycle)] = &recordedWorkspace{}
	r.cycle++

	r.load = newClusterLoad(r.nodes, r.recorder, name)
	l := r.load
	l.begin()
	var injected time.Time
	var affected []int
	linear.run(func(func() float64) {
		time.Sleep(800 * time.Millisecond)
		wait.Eventually(l.hasEnough)
		injected = time.Now()
		affected = f.do(r)
		r.healed = time.Now()
		l.probe()
	})
	ended := time.Now()
	l.end()
	r.waitReady()

	k := r.kinds[f.name]
	if k == nil {
		k = new(faultFigures)
		r.kinds[f.name] = k
	}
	k.count++
	var now faultFigures
	for i := range r.nodes {
		if f.writes && !slices.Contains(affected, i) {
			now.gap = max(now.gap, l.longestGap(i, injected, ended))
		}
		now.resumed = max(now.resumed, l.timeToResume(i, r.healed))
		now.equal = max(now.equal, l.timeToCatchUp(i, r.healed))
	}
	for _, s := range l.seen {
		age := l.staleness(s)
		now.age = max(now.age, age)
		if s.begun.Before(injected) && s.ended.Before(injected) || s.begun.After(r.healed.Add(time.Second)) {
			now.lags = max(now.lags, age)
		}
	}
	k.gap, k.resumed, k.equal = max(k.gap, now.gap), max(k.resumed, now.resumed), max(k.equal, now.equal)
	k.lags, k.age = max(k.lags, now.lags), max(k.age, now.age)
	for kind, n := range l.answers {
		r.answers[kind] += n
	}
	if now.gap > maxGap || now.resumed > maxGap {
		late = fmt.Errorf("%s: an unaffected node accepted no write for %v; writes resumed after %v", f.name, now.gap, now.resumed)
	}
	if now.equal > maxLag {
		late = errors.Join(late, fmt.Errorf("%s: not all nodes served the newest versions until %v after the fault", f.name, now.equal))
	}
	if now.age > maxStaleness {
		t.Errorf("%s: served data were %v old", f.name, now.age)
	}
	if now.lags > maxLag {
		late = errors.Join(late, fmt.Errorf("%s: served data was %v old without a fault", f.name, now.lags))
	}
	if !l.hasEnough() {
		t.Errorf("%s: only %d versions were acknowledged and %d requests resolved, so almost nothing was tested", f.name, len(l.versions), len(l.seen))
	}
	r.check(f, resets)
	r.all.add(linear)
	checked := time.Now()
	verdict := linear.check()
	if verdict != porcupine.Ok {
		t.Errorf("%s: the history is %s\n%s", f.name, verdict, linear.explainFailure())
	}
	t.Logf("%3d %-26s took=%v gap=%v resumed=%v equal-after=%v lag=%v oldest=%v acknowledged=%d linear=%d/%d unknown=%d %s in %v", r.cycle, f.name, time.Since(begun).Round(100*time.Millisecond),
		now.gap.Round(time.Millisecond), now.resumed.Round(time.Millisecond), now.equal.Round(time.Millisecond), now.lags.Round(time.Millisecond), now.age.Round(time.Millisecond),
		len(l.versions), linear.requests, linear.writes, linear.unknown, verdict, time.Since(checked).Round(time.Millisecond))
	return late
}

// check compares the data of all nodes with the recorded writes and with each other.
func (r *clusterRun) check(f clusterFault, resets []float64) {
	var changed []presetName
	for name, p := range r.recorder.presets {
		if p.changed {
			changed = append(changed, name)
		}
	}
	r.recorder.verify(r.nodes[r.cycle%len(r.nodes)], false)
	for _, name := range changed {
		r.checkSame(name)
	}
	commits := r.metric(0, "commit_number")
	for i := range r.nodes {
		if got := r.metric(i, "commit_number"); got != commits {
			r.missed++
			r.t.Errorf("%s: node %d knows of commit %v, node 0 of %v", f.name, i, got, commits)
		}
		now := r.metric(i, "watch_resets_total")
		if now > resets[i] && !f.resets {
			r.t.Errorf("%s: node %d read all records again, %v times, though nothing was compacted", f.name, i, now-resets[i])
		}
		if now > resets[i] {
			r.resets += int(now - resets[i])
		}
	}
}

// checkSame checks that all nodes show the same preset, and serve it.
func (r *clusterRun) checkSame(name presetName) {
	fault := func(format string, args ...any) {
		r.recorder.fault(&r.recorder.found.torn, format, args...)
	}
	var first string
	for i, s := range r.nodes {
		head, err := s.get(name.path(""))
		if err == nil && head.status == http.StatusNotFound && (i == 0 || first == "none") {
			first = "none"
			continue
		}
		var body struct{ Data presetText }
		if err != nil || head.status != http.StatusOK {
			fault("node %d: %s is %s, %v", i, name.slug, head, err)
			return
		}
		if err := json.Unmarshal(head.body, &body); err != nil {
			fault("node %d: %s is %s, %v", i, name.slug, head, err)
			return
		}
		text := string(head.body)
		for offset := 0; ; offset += 100 {
			page, err := s.get(name.path(fmt.Sprintf("/versions?limit=100&offset=%d", offset)))
			if err != nil || page.status != http.StatusOK {
				fault("node %d: the versions of %s are %s, %v", i, name.slug, page, err)
				return
			}
			var versions struct{ Data []struct{ Version int } }
			if err := json.Unmarshal(page.body, &versions); err != nil || len(versions.Data) == 0 {
				break
			}
			text += string(page.body)
		}
		if first == "" {
			first = text
		}
		if text != first {
			fault("node %d shows another %s than node 0", i, name.slug)
		}
		if name.workspace != "" {
			continue // the key belongs to another workspace
		}
		number, _, _ := readVersion(body.Data.Designated)
		if status, got, wrong := infer(s, name, inferenceKey); status != http.StatusOK || got != number || wrong != "" {
			fault("node %d: inference with %s gives %d, version %d %s, want %d", i, name.slug, status, got, wrong, number)
		}
	}
}
