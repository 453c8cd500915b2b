//go:build faults && unix

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// clusterLoad runs clients at all nodes at once and records their answers. Its slices may
// be read after its end.
type clusterLoad struct {
	nodes    []*server
	recorder *recorder
	name     string
	live     []presetName // their latest version is the designated one
	ended    chan struct{}
	group    sync.WaitGroup
	tokens   atomic.Int64

	mu       sync.Mutex
	acks     [][]time.Time // of each node
	versions []ackedVersion
	seen     []observation
	answers  map[string]int // by their kind and status
	keys     []*churnedKey
}

// ackedVersion is an acknowledged version of a live preset, with its time.
type ackedVersion struct {
	name   presetName
	number int
	at     time.Time
}

// observation is an inference request for a live preset, or with a key that will be
// revoked.
type observation struct {
	node         int
	name         presetName
	key          *churnedKey // nil: a configured key
	begun, ended time.Time
	status       int // 0: no answer
	number       int
}

// churnedKey is a key that is issued and revoked.
type churnedKey struct {
	id, secret string
	revoked    time.Time // when the revocation was acknowledged
}

func newClusterLoad(nodes []*server, r *recorder, name string) *clusterLoad {
	l := &clusterLoad{
		nodes: nodes, recorder: r, name: name, ended: make(chan struct{}),
		acks: make([][]time.Time, len(nodes)), answers: map[string]int{},
	}
	for i := range 3 {
		l.live = append(l.live, presetName{slug: fmt.Sprintf("live-%s-%d", name, i)})
	}
	return l
}

// begin starts the clients. All live presets have a version before it returns.
func (l *clusterLoad) begin() {
	for _, name := range l.live {
		l.create(0, name)
	}
	for node := range l.nodes {
		for i := range 3 {
			l.group.Go(func() { l.repeat(15*time.Millisecond, func(n int) { l.write(node, i, n) }) })
		}
		for range 2 {
			l.group.Go(func() { l.repeat(10*time.Millisecond, func(int) { l.resolve(node) }) })
		}
	}
	l.group.Go(func() { l.repeat(100*time.Millisecond, l.churnKey) })
	l.group.Go(func() { l.repeat(10*time.Millisecond, func(int) { l.tryRevoked() }) })
}

func (l *clusterLoad) repeat(pause time.Duration, do func(n int)) {
	for n := 0; ; n++ {
		select {
		case <-l.ended:
			return
		case <-time.After(pause/2 + rand.N(pause)):
			do(n)
		}
	}
}

// hasEnough reports whether there are enough results for a conclusion.
func (l *clusterLoad) hasEnough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.versions) >= 20 && len(l.seen) >= 200
}

func (l *clusterLoad) end() {
	close(l.ended)
	l.group.Wait()
}

// countAnswer counts an answer to a write.
func (l *clusterLoad) countAnswer(node int, kind string, a answer, err error) (acknowledged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	acknowledged = err == nil && a.status < 300
	if acknowledged {
		l.acks[node] = append(l.acks[node], time.Now())
	}
	l.answers[fmt.Sprint(kind, " ", a.status)]++
	return acknowledged
}

func (l *clusterLoad) create(node int, name presetName) {
	token := fmt.Sprintf("%s-t%d", l.name, l.tokens.Add(1))
	a, err := l.recorder.createVersion(l.nodes[node], name, token)
	if !l.countAnswer(node, "write", a, err) || !slices.Contains(l.live, name) {
		return
	}
	now := time.Now()
	var body struct{ Data presetText }
	if json.Unmarshal(a.body, &body) != nil {
		return // the recorder has reported it
	}
	number, _, _ := readVersion(body.Data.Designated)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.versions = append(l.versions, ackedVersion{name, number, now})
}

// write makes one write: a version of a shared preset, a version of the client's own
// preset, or another change.
func (l *clusterLoad) write(node, i, n int) {
	s, r := l.nodes[node], l.recorder
	name := presetName{slug: fmt.Sprintf("own-%s-%d-%d-%d", l.name, node, i, n/20)}
	if i == 0 {
		name.workspace = "team"
	}
	if i == 1 {
		name = presetName{slug: "shared-" + l.name}
	}
	number, token := r.anyVersion(name)
	switch dice := rand.IntN(100); {
	case dice < 40:
		l.create(node, l.live[rand.IntN(len(l.live))])
	case dice < 45:
		a, err := r.createWorkspace(s, fmt.Sprintf("%s-w%d", l.name, l.tokens.Add(1)))
		l.countAnswer(node, "write", a, err)
	case dice < 55 && number > 0:
		a, err := r.designate(s, name, number, token)
		l.countAnswer(node, "write", a, err)
	case dice < 60 && number > 0:
		a, err := r.label(s, name, "stable", number)
		l.countAnswer(node, "write", a, err)
	default:
		l.create(node, name)
	}
}

// served matches the value of X-Preset.
var served = regexp.MustCompile(`^[^@]+@(\d+)$`)

// infer sends an inference request with a preset, and returns the version that served it.
func infer(s *server, name presetName, key string) (status, number int, wrong string) {
	a, err := s.send(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"model":"@preset/%s","messages":[]}`, name.slug), "Authorization", "Bearer "+key)
	if err != nil {
		return 0, 0, ""
	}
	if a.status != http.StatusOK {
		return a.status, 0, ""
	}
	var sent struct {
		Model    string
		Messages []struct{ Content string }
	}
	if found := served.FindStringSubmatch(a.header.Get("X-Preset")); found != nil {
		number, _ = strconv.Atoi(found[1])
	}
	if json.Unmarshal(a.body, &sent) != nil || number < 1 || len(sent.Messages) != 1 || sent.Messages[0].Content != promptOf(sent.Model) {
		return a.status, number, fmt.Sprintf("%s by %s, with %d messages: …%q", a.header.Get("X-Preset"), sent.Model, len(sent.Messages), a.body[max(0, len(a.body)-100):])
	}
	return a.status, number, ""
}

func (l *clusterLoad) resolve(node int) {
	l.observe(observation{node: node, name: l.live[rand.IntN(len(l.live))]})
}

// observe sends a request and records its answer.
func (l *clusterLoad) observe(s observation) {
	secret := inferenceKey
	if s.key != nil {
		secret = s.key.secret
	}
	var wrong string
	s.begun = time.Now()
	s.status, s.number, wrong = infer(l.nodes[s.node], s.name, secret)
	s.ended = time.Now()
	if wrong != "" {
		l.recorder.fault(&l.recorder.found.torn, "%s is resolved to %s", s.name.slug, wrong)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, s)
	kind := "inference "
	if s.key != nil {
		kind = "revoked key "
	}
	l.answers[kind+strconv.Itoa(s.status)]++
}

// sendAdminJSON sends a JSON body to a node's admin endpoint, from any goroutine.
func sendAdminJSON(s *server, method, path, body string) (answer, error) {
	r, err := http.NewRequest(method, "http://"+s.admin+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	return s.do(r)
}

// churnKey issues a key at one node, waits until another node accepts it, and revokes it at
// any node.
func (l *clusterLoad) churnKey(int) {
	at := func() *server { return l.nodes[rand.IntN(len(l.nodes))] }
	a, err := sendAdminJSON(at(), http.MethodPost, "/presets/keys", `{"kind":"inference","name":"churned"}`)
	var made struct{ ID, Key string }
	if err != nil || a.status != http.StatusCreated || json.Unmarshal(a.body, &made) != nil {
		return
	}
	k := &churnedKey{id: made.ID, secret: made.Key}
	if status, _, _ := infer(at(), l.live[0], k.secret); status != http.StatusOK {
		l.mu.Lock()
		l.answers["new key "+strconv.Itoa(status)]++
		l.mu.Unlock()
	}
	a, err = sendAdminJSON(at(), http.MethodDelete, "/presets/keys/"+k.id, "")
	if err != nil || a.status != http.StatusOK {
		return // the key may be valid or not
	}
	k.revoked = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, k)
}

// tryRevoked tries one of the latest revoked keys.
func (l *clusterLoad) tryRevoked() {
	l.mu.Lock()
	last := l.keys[max(0, len(l.keys)-5):]
	l.mu.Unlock()
	if len(last) > 0 {
		l.observe(observation{node: rand.IntN(len(l.nodes)), name: l.live[0], key: last[rand.IntN(len(last))]})
	}
}

// longestGap returns the longest time without an acknowledged write at a node.
func (l *clusterLoad) longestGap(node int, from, to time.Time) (longest time.Duration) {
	last := from
	for _, at := range append(slices.Clone(l.acks[node]), to) {
		if at.After(to) {
			at = to
		}
		if at.After(from) {
			longest = max(longest, at.Sub(last))
			last = at
		}
	}
	return longest
}

// timeToResume returns the time from a moment to a node's next acknowledged write.
func (l *clusterLoad) timeToResume(node int, from time.Time) time.Duration {
	for _, at := range l.acks[node] {
		if at.After(from) {
			return at.Sub(from)
		}
	}
	return time.Hour
}

// staleness returns how stale the data of an observation was at the time of its request. It
// counts from the acknowledgement of a later version or of the key's revocation. It is
// zero for current data.
func (l *clusterLoad) staleness(s observation) (oldest time.Duration) {
	if s.status != http.StatusOK {
		return 0
	}
	if s.key != nil {
		return max(0, s.begun.Sub(s.key.revoked))
	}
	for _, v := range l.versions {
		if v.at.After(s.begun) {
			break // they are ordered by time
		}
		if v.name == s.name && v.number > s.number {
			return s.begun.Sub(v.at)
		}
	}
	return 0
}

// newestVersions returns the numbers of the newest versions acknowledged before a moment.
func (l *clusterLoad) newestVersions(before time.Time) map[presetName]int {
	all := map[presetName]int{}
	for _, v := range l.versions {
		if v.at.Before(before) {
			all[v.name] = max(all[v.name], v.number)
		}
	}
	return all
}

// timeToCatchUp returns the time from a moment until a node served only that moment's newest
// versions, or later ones.
func (l *clusterLoad) timeToCatchUp(node int, healed time.Time) time.Duration {
	newest := l.newestVersions(healed)
	first, last := time.Hour, time.Duration(0)
	for _, s := range l.seen {
		switch after := s.ended.Sub(healed); {
		case s.node != node || s.key != nil || after < 0:
		case s.status == http.StatusOK && s.number >= newest[s.name]:
			first = min(first, after)
		case s.begun.After(healed):
			last = max(last, after)
		}
	}
	return max(first, last)
}

// probe asks all nodes repeatedly for a while, also if they do not answer.
func (l *clusterLoad) probe() {
	for range 40 {
		for node := range l.nodes {
			l.group.Go(func() { l.resolve(node) })
		}
		time.Sleep(50 * time.Millisecond)
	}
}
