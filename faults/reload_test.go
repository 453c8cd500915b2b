//go:build faults

package faults

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestReload reloads fifty times under load. No request fails, no write is lost, the
// store stays open and nothing leaks. Caddy may close connections while a request arrives.
// These count only if there are more than with a site that gives a fixed answer.
func TestReload(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	blocks, reloads := choose(2, 40), 25
	// Each pending request of an old configuration leaves a connection to the gateway. By
	// default Caddy keeps it for two minutes.
	s := newServer(t, options{presets: reloadConfig(0), gateway: fmt.Sprintf("reverse_proxy %s {\ntransport http {\nkeepalive 1s\n}\n}", newGateway(t))})
	fixed := newServer(t, options{})
	fixedFile := func(n int) string {
		return fmt.Sprintf("{\nadmin %s\nauto_https off\npersist_config off\ngrace_period 2s\n}\n\n%s {\nbind 127.0.0.1\nheader X-Reload %d\nrespond %q\n}\n",
			fixed.admin, fixed.site, n, gatewayAnswer)
	}
	fixed.write(fixedFile(0))
	s.mustStart()
	fixed.mustStart()
	r := newRecorder(t)
	if a, err := r.createWorkspace(s, "team"); err != nil || a.status != http.StatusCreated {
		t.Fatal(a, err)
	}
	reload := func(n int) string {
		s.options.presets = reloadConfig(n % 2)
		return s.caddyfile()
	}

	newTraffic(s, r).during(t, s, reloads, reload) // warm up, so that later growth is a leak
	opened := storeLock(t, s.store)
	before := s.settledFootprint(5*time.Second, func(footprint) bool { return false })
	var ours, control trafficFigures
	for range blocks { // in alternation, because the machine may be busy at times
		ours.add(newTraffic(s, r).during(t, s, reloads, reload))
		control.add(newTraffic(fixed, nil).during(t, fixed, reloads, fixedFile))
	}
	fits := func(f footprint) bool {
		return hasNotGrown(int64(f.fds), int64(before.fds), 0.05) && hasNotGrown(int64(f.goroutines), int64(before.goroutines), 0.05) &&
			hasNotGrown(f.heap, before.heap, 0.05)
	}
	after := s.settledFootprint(30*time.Second, fits)
	t.Logf("before: %v\nafter:  %v", before, after)
	if !fits(after) {
		t.Errorf("%d reloads leave %v, want at most 5 %% above %v", blocks*reloads, after, before)
	}
	if !sameOpening(opened, storeLock(t, s.store)) {
		t.Error("the store was closed and opened again")
	}
	r.verify(s, true)
	t.Logf("ours:    %v\ncontrol: %v", ours, control)
	if ours.status5xx+control.status5xx > 0 || ours.wrong > 0 {
		t.Errorf("%d answers are server errors, and %d are wrong; of the control %d", ours.status5xx, ours.wrong, control.status5xx)
	}
	// Both sites had the same numbers of clients and reloads, so the numbers of requests
	// matter little. The test allows three standard deviations of a difference.
	if most := float64(control.failures) + 3*math.Sqrt(2*float64(control.failures+1)); float64(ours.failures) > most {
		t.Errorf("%d requests got no answer, and %d with a fixed answer", ours.failures, control.failures)
	}
	result(t, "reload", begun, append([]any{
		"reloads", blocks * reloads, "requests", ours.requests, "acknowledged", r.acknowledged, "5xx", ours.status5xx,
		"transport-failures", ours.failures, "control-requests", control.requests, "control-failures", control.failures,
		"fds", fmt.Sprintf("%d->%d", before.fds, after.fds), "goroutines", fmt.Sprintf("%d->%d", before.goroutines, after.goroutines),
		"heap", fmt.Sprintf("%.1f->%.1fMiB", mib(before.heap), mib(after.heap)),
	}, r.found.figures()...)...)
}

// reloadConfig returns a presets block that differs for each n.
func reloadConfig(n int) string {
	return fmt.Sprintf("max_body_size %dMiB\nmemory %dMiB\ninference", 4+n, 32+n)
}

// newGateway starts a gateway that answers with the length of the request's body. It
// returns its address.
func newGateway(t *testing.T) string {
	t.Helper()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"length":%d}`, n)
	}))
	t.Cleanup(gateway.Close)
	return strings.TrimPrefix(gateway.URL, "http://")
}

// traffic sends all kinds of requests, over kept-alive and over new connections.
type traffic struct {
	server, fresh *server // the same server, with different HTTP clients
	recorder      *recorder
	ended         chan struct{}
	group         sync.WaitGroup
	number        int64

	mu      sync.Mutex
	figures trafficFigures
}

type trafficFigures struct {
	requests, failures, status5xx, wrong int
	kinds                                map[string]int // of failures
}

func (f *trafficFigures) add(g trafficFigures) {
	f.requests += g.requests
	f.failures += g.failures
	f.status5xx += g.status5xx
	f.wrong += g.wrong
	if f.kinds == nil {
		f.kinds = map[string]int{}
	}
	for kind, n := range g.kinds {
		f.kinds[kind] += n
	}
}

func (f trafficFigures) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests, %d failures, %d of status 5xx, %d wrong", f.requests, f.failures, f.status5xx, f.wrong)
	for _, kind := range slices.Sorted(maps.Keys(f.kinds)) {
		fmt.Fprintf(&text, "\n  %5d %s", f.kinds[kind], kind)
	}
	return text.String()
}

var trafficNumber atomic.Int64

// newTraffic returns the load for a server. Without a recorder the server gives a fixed
// answer.
func newTraffic(s *server, r *recorder) *traffic {
	return &traffic{
		server: s, recorder: r, ended: make(chan struct{}), number: trafficNumber.Add(1),
		fresh:   &server{t: s.t, site: s.site, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Limit}},
		figures: trafficFigures{kinds: map[string]int{}},
	}
}

// during reloads a server again and again under the load.
func (l *traffic) during(t *testing.T, s *server, reloads int, configuration func(n int) string) trafficFigures {
	t.Helper()
	for i := range 12 {
		l.group.Go(func() { l.runClient(i, l.server, 0) })
	}
	for i := range 4 {
		// Limit the rate: each new connection leaves a port that cannot be used for a
		// minute.
		l.group.Go(func() { l.runClient(12+i, l.fresh, 10*time.Millisecond) })
	}
	for n := range reloads {
		time.Sleep(10 * time.Millisecond)
		s.reload(configuration(n + 1))
	}
	close(l.ended)
	l.group.Wait()
	return l.figures
}

// runClient is one client.
func (l *traffic) runClient(i int, s *server, pause time.Duration) {
	for n := 0; ; n++ {
		select {
		case <-l.ended:
			return
		case <-time.After(pause):
		}
		slug := "own-" + strconv.Itoa(i%6)
		var a answer
		var err error
		right := true
		switch dice := rand.IntN(100); {
		case dice < 20 || n == 0:
			token := fmt.Sprintf("r%d-w%d-n%d", l.number, i, n)
			if l.recorder != nil {
				a, err = l.recorder.createVersion(s, presetName{slug: slug}, token)
			} else {
				a, err = s.send(http.MethodPost, "/v1/presets/"+slug+"/responses", fmt.Sprintf(`{"model":%q,"instructions":%q}`, token, promptOf(token)))
			}
		case dice < 60:
			a, err = s.get("/v1/presets/" + slug)
		case dice < 80:
			a, err = s.send(http.MethodPost, "/v1/chat/completions", `{"model":"@preset/`+slug+`","messages":[]}`, "Authorization", "Bearer "+inferenceKey)
			right = l.recorder == nil || a.header.Get("X-Preset") != ""
		default:
			a, err = s.send(http.MethodPost, "/v1/embeddings", `{"model":"m","input":"x"}`, "Authorization", "Bearer "+inferenceKey)
			right = l.recorder == nil || string(a.body) == `{"length":25}`
		}
		l.mu.Lock()
		l.figures.requests++
		switch {
		case err != nil:
			l.figures.failures++
			l.figures.kinds[kindOf(err)]++
		case a.status >= 500:
			l.figures.status5xx++
			l.figures.kinds[a.String()]++
		case a.status != http.StatusOK || !right:
			l.figures.wrong++
			l.figures.kinds[a.String()]++
		}
		l.mu.Unlock()
	}
}

// kindOf returns an error's text without its variable parts.
func kindOf(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
}
