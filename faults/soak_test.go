//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestSoak loads a server for an hour. Versions come and go. A reload runs each minute, and a
// backup every ten. Memory must not grow.
//
// It runs in the long form, or if PRESETS_SOAK sets a duration, such as 60s. All intervals
// shrink in proportion.
func TestSoak(t *testing.T) {
	begun := time.Now()
	length := time.Hour
	if given := os.Getenv("PRESETS_SOAK"); given != "" {
		var err error
		if length, err = time.ParseDuration(given); err != nil || length < 30*time.Second {
			t.Fatalf("PRESETS_SOAK is %q, want a duration of at least 30s", given)
		}
	} else if !long {
		t.Skip("only in the long form, or with PRESETS_SOAK=60s")
	}
	minute := length / 60
	gateway := fmt.Sprintf("reverse_proxy %s {\ntransport http {\nkeepalive 1s\n}\n}", newGateway(t))
	s := newServer(t, options{presets: soakConfig(0), gateway: gateway})
	s.mustStart()
	w := &soak{server: s, ended: make(chan struct{})}
	for i := range 8 {
		w.group.Go(func() { w.runClient(i) })
	}
	var samples []footprint
	backups, reloads := 0, 0
	next := time.NewTicker(minute)
	defer next.Stop()
	for n := range 60 {
		<-next.C
		samples = append(samples, s.footprint())
		t.Logf("minute %d: %v", n, samples[n])
		s.options.presets = soakConfig(n % 2)
		s.reload(s.caddyfile())
		reloads++
		if n%10 == 9 {
			file := filepath.Join(s.home, "backup-"+strconv.Itoa(n))
			if out, err := s.command("presets", "backup", "--address", s.admin, file); err != nil {
				t.Fatalf("backup: %v\n%s", err, out)
			}
			if info, err := os.Stat(file); err != nil || info.Size() == 0 {
				t.Errorf("the backup is empty: %v", err)
			}
			backups++
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
		}
	}
	close(w.ended)
	w.group.Wait()
	if w.status5xx+w.wrong > 0 {
		t.Errorf("%d answers are server errors, and %d are wrong", w.status5xx, w.wrong)
	}

	var largest footprint
	for _, f := range samples {
		largest.rss = max(largest.rss, f.rss)
		largest.anonymous = max(largest.anonymous, f.anonymous)
		largest.fds = max(largest.fds, f.fds)
		largest.goroutines = max(largest.goroutines, f.goroutines)
	}
	// By now all caches have reached their bounds.
	samples = samples[len(samples)/6:]
	grows := slope(samples) * 60 // per hour, or per PRESETS_SOAK
	// The heap fluctuates by a few percent. A leak of one byte for each request would
	// be 9 %.
	const most = 0.05
	if grows > most {
		t.Errorf("the heap grows by %.2f %% an hour, want at most %.0f %%", 100*grows, 100*most)
	}
	if largest.rss > 512<<20 {
		t.Errorf("the server took %.0f MiB, want at most 512", mib(largest.rss))
	}
	first, last := samples[0], samples[len(samples)-1]
	result(t, "soak", begun, "length", length, "requests", w.requests, "versions", w.versions, "backups", backups, "reloads", reloads,
		"5xx", w.status5xx, "wrong", w.wrong, "transport-failures", w.failures,
		"heap-slope", fmt.Sprintf("%.2f%%/h", 100*grows), "heap", fmt.Sprintf("%.1f->%.1fMiB", mib(first.heap), mib(last.heap)),
		"rss-max", fmt.Sprintf("%.0fMiB", mib(largest.rss)), "anonymous-max", fmt.Sprintf("%.0fMiB", mib(largest.anonymous)),
		"fds", fmt.Sprintf("%d->%d(max %d)", first.fds, last.fds, largest.fds),
		"goroutines", fmt.Sprintf("%d->%d(max %d)", first.goroutines, last.goroutines, largest.goroutines))
}

// soakConfig returns a presets block that differs for each n. A reload begins with an empty
// cache. A cache of this size is full again in a moment, also on a busy machine.
func soakConfig(n int) string {
	return fmt.Sprintf("keep_versions 50\nmax_body_size %dMiB\nmemory 1MiB\ninference", 4+n)
}

// slope returns the heap's relative growth from one sample to the next. It is the median of
// all pairs of samples. So a few samples taken at a bad moment, such as during a flush, do
// not count.
func slope(samples []footprint) float64 {
	var slopes, heaps []float64
	for i, a := range samples {
		heaps = append(heaps, float64(a.heap))
		for j, b := range samples[:i] {
			slopes = append(slopes, float64(a.heap-b.heap)/float64(i-j))
		}
	}
	slices.Sort(slopes)
	slices.Sort(heaps)
	return slopes[len(slopes)/2] / heaps[len(heaps)/2]
}

// soak is a set of clients with their own presets. Each new version removes the oldest
// one.
type soak struct {
	server *server
	ended  chan struct{}
	group  sync.WaitGroup

	mu                                             sync.Mutex
	requests, versions, failures, status5xx, wrong int
}

func (w *soak) runClient(i int) {
	const presets = 4
	// The state of each preset, and its other possible states from writes with an unknown
	// outcome.
	var current [presets]string
	var unknown [presets][]string
	for n := 0; ; n++ {
		select {
		case <-w.ended:
			return
		case <-time.After(4 * time.Millisecond): // the test is not about the disk
		}
		which := rand.IntN(presets)
		slug := fmt.Sprintf("soak-%d-%d", i, which)
		var a answer
		var err error
		wrong := false
		switch dice := rand.IntN(100); {
		case dice < 8 || current[which] == "": // some 300,000 versions in the hour
			token := fmt.Sprintf("w%d-n%d", i, n)
			a, err = w.server.send(http.MethodPost, "/v1/presets/"+slug+"/responses", fmt.Sprintf(`{"model":%q,"instructions":%q}`, token, promptOf(token)))
			if err != nil || a.status != http.StatusOK {
				unknown[which] = append(unknown[which], token)
				break
			}
			current[which] = token
			w.mu.Lock()
			w.versions++
			w.mu.Unlock()
		case dice < 50:
			a, err = w.server.get("/v1/presets/" + slug)
			var body struct{ Data presetText }
			if err == nil && a.status == http.StatusOK && json.Unmarshal(a.body, &body) == nil {
				_, token, whole := readVersion(body.Data.Designated)
				wrong = !whole || token != current[which] && !slices.Contains(unknown[which], token)
			}
		case dice < 60:
			a, err = w.server.get("/v1/presets/" + slug + "/versions?limit=50")
		default:
			a, err = w.server.send(http.MethodPost, "/v1/chat/completions", `{"model":"@preset/`+slug+`","messages":[]}`, "Authorization", "Bearer "+inferenceKey)
			wrong = err == nil && a.header.Get("X-Preset") == ""
		}
		w.mu.Lock()
		w.requests++
		switch {
		case err != nil:
			w.failures++
		case a.status >= 500:
			w.status5xx++
		case wrong || a.status != http.StatusOK:
			if w.wrong++; w.wrong <= 5 {
				w.server.t.Errorf("%s, which is %s or one of %v, gives %s", slug, current[which], unknown[which], a)
			}
		}
		w.mu.Unlock()
	}
}
