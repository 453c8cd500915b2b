//go:build faults

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestLinearizable checks linearizability. Several clients create, read, list and designate
// the same presets at once. Each request takes effect at one moment between its beginning
// and its answer. Kills and reloads of the server do not change that.
func TestLinearizable(t *testing.T) {
	begun := time.Now()
	enough := choose(0, 500_000)
	s := newServer(t, options{})
	s.mustStart()
	var all roundTotals
	rounds := 0
	for ; all.requests < enough || !long && time.Since(begun) < 8*time.Second || rounds < 3; rounds++ {
		during := [...]func(progress func() float64){
			func(func() float64) {},
			func(progress func() float64) {
				waitFor(progress, 0.5)
				s.kill()
				s.mustStart()
			},
			func(progress func() float64) {
				for i, moment := range []float64{0.25, 0.5, 0.75} {
					waitFor(progress, moment)
					s.reload(s.caddyfile() + fmt.Sprintf("# %d\n:0 {\nbind 127.0.0.1\nrespond %d\n}\n", rounds, 200+i))
				}
			},
		}[rounds%3]
		r := newRound(t, rounds, choose(4, 8), 4, choose(150, 400), s.site)
		r.run(during)
		all.add(r)
		if verdict := r.check(); verdict != porcupine.Ok {
			t.Errorf("round %d is %s\n%s", rounds, verdict, r.explainFailure())
			break
		}
	}
	if all.writes*10 < all.requests {
		t.Errorf("only %d of %d requests wrote anything, so almost nothing was tested", all.writes, all.requests)
	}
	result(t, "linear", begun, "rounds", rounds, "requests", all.requests, "writes", all.writes, "unknown", all.unknown, "not-modified", all.notModified)
}

// TestLinearizableControl checks that the checker detects faults. A proxy sometimes answers
// as a faulty server would. The same proxy without faults must pass. A single fault may
// stay undetected, because it is often undone before a read. The test repeats rounds until
// it detects one. After 60 undetected rounds the checker counts as blind. One of 25 rounds
// with 3 to 15 faults each went undetected.
func TestLinearizableControl(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	s := newServer(t, options{})
	s.mustStart()
	var figures []any
	rounds := 0
	for _, fault := range []string{"none", "stale", "hidden-write"} {
		proxy := newFaultyProxy(t, s.site, fault)
		verdict := porcupine.Ok
		for tried := 0; verdict == porcupine.Ok && tried < 40; tried++ {
			if fault == "none" && tried == 2 || proxy.faults.Load() >= 60 {
				break
			}
			r := newRound(t, rounds, 4, 4, 150, proxy.url)
			rounds++
			r.run(func(func() float64) {})
			if verdict = r.check(); fault == "none" && verdict != porcupine.Ok {
				t.Errorf("through a proxy that is not faulty: %s\n%s", verdict, r.explainFailure())
			}
		}
		if fault != "none" && verdict != porcupine.Illegal {
			t.Errorf("%s: %d faults, and each history is %s: this run is blind", fault, proxy.faults.Load(), verdict)
		}
		figures = append(figures, fault, fmt.Sprintf("%s(%d faults)", verdict, proxy.faults.Load()))
	}
	result(t, "linear-control", begun, figures...)
}

// waitFor waits until a run has come so far.
func waitFor(progress func() float64, moment float64) {
	wait.Eventually(func() bool { return progress() >= moment })
}

// round is a set of clients that use a few new presets in a separate workspace, with
// their answers. The workspace's list has only these presets.
type round struct {
	t        *testing.T
	sites    []*server     // the servers, perhaps behind a proxy
	pause    time.Duration // between requests; if set, the end of during ends the round
	over     atomic.Bool
	slugs    []string
	place    string // the workspace, as a query
	clients  int    // of each preset
	each     int    // requests of each client
	name     int
	origin   time.Time
	done     atomic.Int64
	tokens   atomic.Int64
	mu       sync.Mutex
	history  map[string][]porcupine.Operation // by slug
	versions map[string]int                   // the numbers of versions by their ids
	roundTotals
}

type roundTotals struct{ requests, writes, unknown, refused, notModified int }

// errUnknown is an answer that leaves the outcome of a write open. A server sends it if
// its cluster did not answer.
var errUnknown = errors.New("unknown outcome")

func (a *roundTotals) add(r *round) {
	a.requests += r.requests
	a.writes += r.writes
	a.unknown += r.unknown
	a.refused += r.refused
	a.notModified += r.notModified
}

func newRound(t *testing.T, name, slugs, clients, each int, sites ...string) *round {
	t.Helper()
	r := &round{
		t: t, name: name, clients: clients, each: each, origin: time.Now(),
		place:   fmt.Sprintf("?workspace_id=linear-%d", name),
		history: map[string][]porcupine.Operation{}, versions: map[string]int{},
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}, Timeout: wait.Limit}
	t.Cleanup(client.CloseIdleConnections)
	for _, site := range sites {
		r.sites = append(r.sites, &server{t: t, site: site, client: client})
	}
	for i := range slugs {
		r.slugs = append(r.slugs, fmt.Sprintf("slug-%d", i))
	}
	a, err := r.sites[0].send(http.MethodPost, "/v1/workspaces", fmt.Sprintf(`{"name":"workspace linear-%d","slug":"linear-%[1]d"}`, name))
	if err != nil || a.status != http.StatusCreated {
		t.Fatal(a, err)
	}
	return r
}

// run runs all clients, calls during meanwhile, and waits for the clients.
func (r *round) run(during func(progress func() float64)) {
	total := len(r.slugs) * r.clients * r.each
	var group sync.WaitGroup
	for i := range len(r.slugs) * r.clients {
		group.Go(func() { r.runClient(i) })
	}
	during(func() float64 { return float64(r.done.Load()) / float64(total) })
	r.over.Store(r.pause > 0)
	group.Wait()
}

// The operations on a preset.
type operation string

const (
	create    operation = "create"
	read      operation = "read"
	version   operation = "version"
	versions  operation = "versions"
	listed    operation = "listed" // this preset in a list of presets
	designate operation = "designate"
	archive   operation = "archive"
	restore   operation = "restore"
)

// opInput is the part of one request that concerns one preset.
type opInput struct {
	operation
	token  string // of a create
	number int    // the requested version, or the offset of a page
}

// opOutput is the answer to an opInput.
type opOutput struct {
	unknown bool   // no answer: the request may take effect at any later time
	ok      bool   // false: not found, or a conflict
	number  int    // of the returned version; 0 if its id was never returned before
	token   string // of the returned version, or of a page's versions
	total   int
	id      string // of a version, in a list
}

const tokenLength = 9

// presetState is the state of a preset. It is compared with ==.
type presetState struct {
	tokens     string // of all versions
	designated int    // 0: the preset does not exist
	archived   bool
}

func (p presetState) latest() int   { return len(p.tokens) / tokenLength }
func (p presetState) visible() bool { return p.designated > 0 && !p.archived }

// page returns the tokens of count versions after the first n.
func (p presetState) page(n, count int) string {
	from, to := min(n, p.latest()), min(n+count, p.latest())
	return p.tokens[from*tokenLength : to*tokenLength]
}

// pageLength is the number of versions in a page.
const pageLength = 20

// presets is the model of a preset in the checker's form.
var presets = porcupine.Model{
	Init: func() any { return presetState{} },
	Step: func(state, input, output any) (bool, any) {
		p, in, out := state.(presetState), input.(opInput), output.(opOutput)
		ok := p.step(in, out)
		return ok, p
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(opInput), output.(opOutput)
		return fmt.Sprintf("%s %s%d -> %+v", in.operation, in.token, in.number, out)
	},
}

// step applies a request to p and reports whether the answer is possible.
func (p *presetState) step(in opInput, out opOutput) bool {
	latest := p.latest()
	shows := func() bool {
		return out.number == p.designated && out.token == p.page(p.designated-1, 1)
	}
	switch in.operation {
	case create:
		if out.unknown && p.archived {
			return true
		}
		if !out.unknown && !out.ok {
			return p.archived
		}
		if !out.unknown && (p.archived || out.number != latest+1 || out.token != in.token) {
			return false
		}
		p.tokens, p.designated = p.tokens+in.token, latest+1
		return true
	case designate:
		possible := p.visible() && in.number <= latest
		if !out.unknown && out.ok != possible {
			return false
		}
		if possible {
			p.designated = in.number
		}
		return out.unknown || !out.ok || shows()
	case archive, restore:
		if !out.unknown && out.ok != (p.designated > 0) {
			return false
		}
		if p.designated > 0 {
			p.archived = in.operation == archive
		}
		return out.unknown || !out.ok || in.operation == archive || shows()
	case version:
		if there := p.visible() && in.number <= latest; !there || !out.ok {
			return there == out.ok
		}
		return out.number == in.number && out.token == p.page(in.number-1, 1)
	}
	if !p.visible() || !out.ok {
		return p.visible() == out.ok
	}
	switch in.operation {
	case read:
		return shows()
	case versions:
		return out.total == latest && out.token == p.page(in.number, pageLength)
	default: // listed
		return out.number == 0 || out.number == p.designated
	}
}

// runClient is one client.
func (r *round) runClient(i int) {
	c := &client{round: r, slug: r.slugs[i%len(r.slugs)], site: r.sites[i/len(r.slugs)%len(r.sites)], id: i}
	isGone, hasNewer := false, false // at the last answer
	for n := 0; n < r.each && !r.over.Load(); {
		time.Sleep(r.pause)
		in := opInput{operation: restore}
		switch dice := rand.IntN(100); {
		case isGone && dice < 40:
		case hasNewer && dice < 60:
			// Do not wait: some answers come from memory and others from the store.
			in.operation = read
		case dice < 25:
			in = opInput{operation: create, token: fmt.Sprintf("t%08x", r.tokens.Add(1))}
		case dice < 60:
			in.operation = read
		case dice < 64:
			in = opInput{operation: version, number: 1 + rand.IntN(c.latest+2)}
		case dice < 77:
			in = opInput{operation: versions, number: rand.IntN(c.latest + 2)}
		case dice < 79:
			in.operation = listed
		case dice < 95:
			in = opInput{operation: designate, number: 1 + rand.IntN(c.latest+2)}
		case dice < 97:
			in.operation = archive
		}
		out, sent := c.send(in)
		if !sent {
			time.Sleep(5 * time.Millisecond) // no server runs at the moment
			continue
		}
		n++
		r.done.Add(1)
		isGone = !out.ok && !out.unknown
		hasNewer = in.operation == versions && out.total > c.latest
		c.latest = max(c.latest, out.number, out.total)
	}
}

// client is a client of one preset.
type client struct {
	*round
	slug   string
	site   *server
	id     int
	latest int // the highest number of a version seen

	// The preset's entity tag at the last read, and the state with that tag.
	tag   string
	known opOutput
}

// send sends a request and records it. sent is false if it cannot have reached the server.
func (c *client) send(in opInput) (out opOutput, sent bool) {
	method, path, body := http.MethodGet, "/v1/presets/"+c.slug, ""
	var headers []string
	switch in.operation {
	case create:
		method, path, body = http.MethodPost, path+"/responses", fmt.Sprintf(`{"model":%q,"instructions":%q}`, in.token, promptOf(in.token))
	case read:
		if c.tag != "" && rand.IntN(2) == 0 {
			headers = []string{"If-None-Match", c.tag}
		}
	case version:
		path += fmt.Sprintf("/versions/%d", in.number)
	case versions:
		path += "/versions"
	case listed:
		path = "/v1/presets"
	case designate:
		method, path, body = http.MethodPost, path+"/designate", fmt.Sprintf(`{"version":%d}`, in.number)
	case archive:
		method = http.MethodDelete
	case restore:
		method, path = http.MethodPost, path+"/restore"
	}
	path += c.place
	switch in.operation {
	case versions:
		path += fmt.Sprintf("&offset=%d&limit=%d", in.number, pageLength)
	case listed:
		path += "&limit=100"
	}
	op := porcupine.Operation{ClientId: c.id, Input: in, Call: int64(time.Since(c.origin))}
	a, err := c.site.send(method, path, body, headers...)
	op.Return = int64(time.Since(c.origin))

	writes := method != http.MethodGet
	if err == nil && a.status == http.StatusInternalServerError && writes && len(c.sites) > 1 {
		err = errUnknown
	}
	if refused := new(net.OpError); errors.As(err, &refused) && refused.Op == "dial" {
		return opOutput{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case err != nil && !writes:
		return opOutput{unknown: true}, true // the answer says nothing about the outcome
	case err != nil:
		op.Return = math.MaxInt64
		op.Output = opOutput{unknown: true}
		c.unknown++
		c.writes++
		c.history[c.slug] = append(c.history[c.slug], op)
		return opOutput{unknown: true}, true
	case a.status == http.StatusConflict && !strings.Contains(string(a.body), "archived"):
		return opOutput{unknown: true}, true // too many changes at once: no change was made
	case a.status == http.StatusServiceUnavailable && len(c.sites) > 1:
		c.refused++
		return opOutput{unknown: true}, true // no change was made here, either
	}
	if writes {
		c.writes++
	}
	if in.operation == listed {
		c.recordList(op, a)
		return opOutput{ok: true}, true
	}
	switch a.status {
	case http.StatusOK:
		out, err = readAnswer(in, a, c.versions)
		if in.operation == read {
			c.tag, c.known = a.header.Get("Etag"), out
		}
	case http.StatusNotModified:
		out = c.known
		c.notModified++
	case http.StatusNotFound, http.StatusConflict:
	default:
		err = errors.New("unexpected status")
	}
	if err != nil {
		c.t.Errorf("%s of %s: %v: %s", in.operation, c.slug, err, a)
		return out, true
	}
	op.Output = out
	c.history[c.slug] = append(c.history[c.slug], op)
	return out, true
}

// readAnswer reads an answer about a preset, and records the ids of versions.
func readAnswer(in opInput, a answer, ids map[string]int) (out opOutput, err error) {
	out.ok = true
	var body struct {
		Data       json.RawMessage
		TotalCount int `json:"total_count"`
	}
	if in.operation == archive {
		return out, nil
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		return out, err
	}
	note := func(text json.RawMessage) error {
		number, token, whole := readVersion(text)
		if !whole || len(token) != tokenLength {
			return errors.New("a version is not what was sent")
		}
		var v struct{ ID string }
		if err := json.Unmarshal(text, &v); err != nil {
			return err
		}
		if known, ok := ids[v.ID]; ok && known != number {
			return fmt.Errorf("version %d has the id of version %d", number, known)
		}
		ids[v.ID] = number
		out.number = number
		out.token += token
		return nil
	}
	switch in.operation {
	case versions:
		var page []json.RawMessage
		if err := json.Unmarshal(body.Data, &page); err != nil {
			return out, err
		}
		for i, text := range page {
			if err := note(text); err != nil {
				return out, err
			}
			if out.number != in.number+i+1 {
				return out, fmt.Errorf("version %d is listed at %d", out.number, in.number+i+1)
			}
		}
		out.number, out.total = 0, body.TotalCount
		return out, nil
	case version:
		return out, note(body.Data)
	default:
		var p presetText
		if err := json.Unmarshal(body.Data, &p); err != nil {
			return out, err
		}
		return out, note(p.Designated)
	}
}

// recordList records a list as a read of each preset. The list shows a single moment.
func (c *client) recordList(op porcupine.Operation, a answer) {
	var page struct {
		Data []struct {
			Slug       string
			Designated string `json:"designated_version_id"`
		}
	}
	if err := json.Unmarshal(a.body, &page); err != nil || a.status != http.StatusOK {
		c.t.Errorf("a list is %s, %v", a, err)
		return
	}
	for _, slug := range c.slugs {
		var out opOutput
		for _, p := range page.Data {
			if p.Slug == slug {
				out = opOutput{ok: true, id: p.Designated}
			}
		}
		op.Output = out
		c.history[slug] = append(c.history[slug], op)
	}
}

// check checks each preset's history.
func (r *round) check() porcupine.CheckResult {
	for _, history := range r.history {
		for i, op := range history {
			if out := op.Output.(opOutput); out.id != "" {
				out.number = r.versions[out.id]
				history[i].Output = out
			}
		}
	}
	model := presets
	model.Partition = func([]porcupine.Operation) (parts [][]porcupine.Operation) {
		for _, slug := range r.slugs {
			parts = append(parts, r.history[slug])
		}
		return parts
	}
	return porcupine.CheckOperationsTimeout(model, nil, wait.Limit)
}

// explainFailure explains the first history that is not linearizable.
func (r *round) explainFailure() string {
	for _, slug := range r.slugs {
		if verdict, info := porcupine.CheckOperationsVerbose(presets, r.history[slug], 10*time.Second); verdict != porcupine.Ok {
			return slug + ":\n" + explain(r.history[slug], info)
		}
	}
	return "with more time each history is right"
}

// explain shows the end of the longest valid order of a history. It shows the last requests,
// and the first that does not fit.
func explain(history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var text strings.Builder
	show := func(what string, op porcupine.Operation) {
		fmt.Fprintf(&text, "%s %12d to %12d client %2d %s\n", what, op.Call, op.Return, op.ClientId, presets.DescribeOperation(op.Input, op.Output))
	}
	in := map[[2]int64]bool{}
	for _, op := range longest {
		in[[2]int64{op.Call, op.Return}] = true
	}
	for _, op := range longest[max(0, len(longest)-8):] {
		show("then ", op)
	}
	var rest []porcupine.Operation
	for _, op := range history {
		if !in[[2]int64{op.Call, op.Return}] {
			rest = append(rest, op)
		}
	}
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for _, op := range rest[:min(len(rest), 8)] {
		show("never", op)
	}
	return text.String()
}

// faultyProxy forwards requests and sometimes causes a fault.
type faultyProxy struct {
	url    string
	faults atomic.Int64
}

func newFaultyProxy(t *testing.T, site, fault string) *faultyProxy {
	t.Helper()
	target, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultyProxy{}
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	type kept struct {
		header http.Header
		body   []byte
	}
	var mu sync.Mutex
	seen := map[string][]kept{} // answers to reads of presets, by path
	reverse := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ModifyResponse: func(a *http.Response) error {
			if fault != "stale" || a.Request.Method != http.MethodGet || a.StatusCode != http.StatusOK || strings.Count(a.Request.URL.Path, "/") != 3 {
				return nil
			}
			body, err := io.ReadAll(a.Body)
			a.Body.Close()
			if err != nil {
				return err
			}
			mu.Lock()
			seen[a.Request.URL.Path] = append(seen[a.Request.URL.Path], kept{a.Header.Clone(), body})
			mu.Unlock()
			a.Body = io.NopCloser(strings.NewReader(string(body)))
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault == "stale" && r.Method == http.MethodGet && rand.IntN(50) == 0 {
			mu.Lock()
			before := seen[r.URL.Path]
			mu.Unlock()
			if len(before) > 10 {
				p.faults.Add(1)
				answer := before[len(before)-10] // as a cache without invalidation would do
				w.Header().Set("Etag", answer.header.Get("Etag"))
				w.Write(answer.body)
				return
			}
		}
		_ = http.NewResponseController(w).EnableFullDuplex() // or an early answer ends the request's body
		reverse.ServeHTTP(w, r)
		if fault == "hidden-write" && strings.HasSuffix(r.URL.Path, "/designate") && rand.IntN(50) == 0 {
			// A change that no client made.
			hidden, err := http.NewRequest(http.MethodPost, site+r.URL.RequestURI(), strings.NewReader(`{"version":1}`))
			if err != nil {
				return
			}
			hidden.Header = r.Header.Clone()
			hidden.Header.Del("Content-Length")
			if a, err := transport.RoundTrip(hidden); err == nil {
				if a.StatusCode == http.StatusOK {
					p.faults.Add(1)
				}
				a.Body.Close()
			}
		}
	}))
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	p.url = server.URL
	return p
}
