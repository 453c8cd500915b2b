package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// budgets are the most allocations that each part of a request may make, some 25 % above
// the actual number. Lower them when a part makes fewer.
var budgets = map[string]int{
	"pass-through beside inference":    3,
	"JSON beside inference":            10,
	"inference without a reference":    10,
	"inference with a reference":       20,
	"inference with a reference, 64KB": 20,
}

// TestBudgets counts the allocations of requests, without those that Caddy makes before our
// handler.
func TestBudgets(t *testing.T) {
	tier.NoRace(t)
	for _, l := range loads(t) {
		t.Run(l.name, func(t *testing.T) {
			budget, ok := budgets[l.name]
			if !ok {
				t.Fatal("has no budget")
			}
			const runs = 100
			for range 200 { // afterwards the caches are filled
				l.serve(t, l.prepare())
			}
			storagetest.CheckAllocations(t, float64(budget), func() float64 {
				before := testing.AllocsPerRun(runs, func() { l.prepare() })
				return testing.AllocsPerRun(runs, func() { l.serve(t, l.prepare()) }) - before
			})
		})
	}
}

// BenchmarkInference measures the same, with the work that Caddy does before.
func BenchmarkInference(b *testing.B) {
	for _, l := range loads(b) {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.serve(b, l.prepare())
			}
		})
	}
}

// load is a repeated operation.
type load struct {
	name    string
	prepare func() *http.Request
	serve   func(testing.TB, *http.Request)
}

func loads(tb testing.TB) []load {
	tb.Helper()
	store := openInMemory(tb)
	h := newMeasuredHandler(tb, store)
	h.Inference = &Inference{Keys: keysRequired} // so that other routes pass
	if err := h.Inference.provision(store, domain.NewMemory(domain.DefaultMemory)); err != nil {
		tb.Fatal(err)
	}
	caller := storePreset(tb, h, "bench", domain.Capture{
		Dialect: domain.Responses, Config: []byte(`{"model":"openai/gpt-5","temperature":0.7,"reasoning":{"effort":"high"}}`), SystemPrompt: new(strings.Repeat("Answer as the support team does. ", 20)),
	})
	requests := []struct{ name, method, path, key, body string }{
		{"pass-through beside inference", "GET", "/v1/other", "of-somebody-else", ""},
		{"JSON beside inference", "POST", "/v1/embeddings", caller, inferenceBody("openai/gpt-5", 2<<10)},
		{"inference without a reference", "POST", "/v1/responses", caller, inferenceBody("openai/gpt-5", 2<<10)},
		{"inference with a reference", "POST", "/v1/responses", caller, inferenceBody("@preset/bench", 2<<10)},
		{"inference with a reference, 64KB", "POST", "/v1/responses", caller, inferenceBody("@preset/bench", 64<<10)},
	}
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	var all []load
	for _, r := range requests {
		template := httptest.NewRequest(r.method, "http://x"+r.path, nil)
		w := &discarded{header: make(http.Header)}
		all = append(all, load{r.name, func() *http.Request {
			got := caddyhttp.PrepareRequest(template, caddy.NewReplacer(), w, nil)
			got.Header = http.Header{"Authorization": {"Bearer " + r.key}}
			if r.body != "" {
				got.Header["Content-Type"] = []string{"application/json"}
				got.Body, got.ContentLength = io.NopCloser(strings.NewReader(r.body)), int64(len(r.body))
			}
			return got
		}, func(tb testing.TB, got *http.Request) {
			clear(w.header)
			w.status = 0
			if err := h.ServeHTTP(w, got, next); err != nil || w.status != 0 {
				tb.Fatalf("got %d, %v, want that it passes", w.status, err)
			}
		}})
	}
	return all
}

// newMeasuredHandler returns a handler over store as Provision makes it, with
// keys as teams have them.
func newMeasuredHandler(tb testing.TB, store domain.Store) *Handler {
	tb.Helper()
	h := newBareHandler(tb, store)
	h.service = domain.NewService(h.metrics.Measure(store))
	h.shared, h.failureLimit = newShared(tb.Name()), limiter.Limit{Most: defaultAuthFailures, Window: defaultAuthFailureWindow}
	for i := range 10 {
		h.keys[domain.HashSecret(fmt.Sprintf("another-secret-%d", i))] = domain.Principal{KeyID: "other"}
	}
	return h
}

// discarded is a ResponseWriter that drops everything.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(status int)      { d.status = status }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }

// inferenceBody is a responses request of about size bytes.
func inferenceBody(model string, size int) string {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)
	const rest = `{"model":"%s","input":[{"role":"user","content":"%s"}],"stream":false,"max_output_tokens":512,"metadata":{"team":"a"}}`
	return fmt.Sprintf(rest, model, text[:size-len(rest)])
}

// BenchmarkUsage measures what usage adds to a request with a preset. The gateway answers
// with 2 KB of JSON or with 200 events.
func BenchmarkUsage(b *testing.B) {
	event := []byte(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"openai/gpt-5","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	response := []byte(`{"id":"c","object":"chat.completion","created":1,"model":"openai/gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("The quick brown fox. ", 90) +
		`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
	store, err := badger.Open(b.TempDir(), badger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	for _, measured := range []*Usage{nil, {}} {
		h := newBareHandler(b, store)
		h.shared = newShared(b.Name())
		if h.Inference = (&Inference{Usage: measured}); measured != nil {
			measured.recording = &usagerecorder.Use{Store: store, Logger: zap.NewNop()}
			h.shared.usage.Start(measured.recording)
			h.shared.usage.Handles.Store(usage.NewHandles(domain.FeedbackSecret{}))
			b.Cleanup(func() { _ = h.shared.usage.End(measured.recording) })
		}
		if err := h.Inference.provision(store, domain.NewMemory(domain.DefaultMemory)); err != nil {
			b.Fatal(err)
		}
		secret := storePreset(b, h, "bench", domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"openai/gpt-5","temperature":0.7}`)})
		for name, of := range map[string]struct {
			mediaType string
			writes    [][]byte
		}{"json": {"application/json", [][]byte{response}}, "events": {"text/event-stream", slices.Repeat([][]byte{event}, 200)}} {
			next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("Content-Type", of.mediaType)
				w.WriteHeader(http.StatusOK)
				for _, p := range of.writes {
					if _, err := w.Write(p); err != nil {
						return err
					}
				}
				_, err := io.Copy(io.Discard, r.Body)
				return err
			})
			b.Run(fmt.Sprintf("%s/usage=%t", name, measured != nil), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r := httptest.NewRequest(http.MethodPost, "http://x"+chatPath, strings.NewReader(`{"model":"@preset/bench","messages":[]}`))
					r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, nil)
					r.Header = http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}
					if err := h.ServeHTTP(&discarded{header: http.Header{}}, r, next); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
