package caddymodule

import (
	"context"
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
// the actual number. Lower them when a part makes fewer. In each answer of ours 8
// allocations are Caddy's request id and its header.
var budgets = map[string]int{
	"match":                              2,
	"look-up of a configured key":        0,
	"look-up of an issued key":           0,
	"GET of a workspace":                 22,
	"GET of a workspace, issued key":     22,
	"GET of a preset":                    26,
	"GET of a page of presets":           27,
	"pass-through":                       0,
	"pass-through beside inference":      3,
	"JSON beside inference":              12,
	"inference without a reference":      10,
	"inference with a reference":         20,
	"inference with a reference, 64KB":   20,
	"POST of a workspace":                380,
	"POST of a version of a preset, 2KB": 508,
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

// BenchmarkRequest measures the same, with the work that Caddy does before.
func BenchmarkRequest(b *testing.B) {
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
	plain, inferring := newMeasuredHandler(tb, store), newMeasuredHandler(tb, store)
	inferring.Inference = &Inference{Keys: keysRequired} // so that other routes pass
	if err := inferring.Inference.provision(store, domain.NewMemory(domain.DefaultMemory)); err != nil {
		tb.Fatal(err)
	}

	boss := domain.By(domain.Principal{KeyID: "k", UserID: "ann", Kind: domain.ManagementKey})
	prompt := strings.Repeat("Answer as the support team does. ", 20)
	if _, err := plain.service.ReleasePresetVersion(tb.Context(), boss, "", "bench", domain.Capture{
		Dialect: domain.Responses, Config: []byte(`{"model":"openai/gpt-5","temperature":0.7,"reasoning":{"effort":"high"}}`), SystemPrompt: &prompt,
	}, domain.Release{}); err != nil {
		tb.Fatal(err)
	}
	issued := func(kind domain.KeyKind) string {
		_, secret, err := plain.service.IssueKey(context.Background(), boss, domain.NewKey{Kind: kind})
		if err != nil {
			tb.Fatal(err)
		}
		return secret
	}
	manager, caller := issued(domain.ManagementKey), issued(domain.InferenceKey)

	n := 0
	newWorkspace := func() string {
		n++
		return fmt.Sprintf(`{"name":"Team %d","slug":"team-%d","description":"of the bench"}`, n, n)
	}
	always := func(body string) func() string { return func() string { return body } }
	requests := []struct {
		name              string
		h                 *Handler
		method, path, key string
		body              func() string
		status            int
	}{
		{"GET of a workspace", plain, "GET", "/v1/workspaces/default", managementSecret, nil, 200},
		{"GET of a workspace, issued key", plain, "GET", "/v1/workspaces/default", manager, nil, 200},
		{"GET of a preset", plain, "GET", "/v1/presets/bench", manager, nil, 200},
		{"GET of a page of presets", plain, "GET", "/v1/presets?limit=50", manager, nil, 200},
		{"pass-through", plain, "GET", "/v1/other", managementSecret, nil, 0},
		{"pass-through beside inference", inferring, "GET", "/v1/other", "of-somebody-else", nil, 0},
		{"JSON beside inference", inferring, "POST", "/v1/embeddings", caller, always(inferenceBody("openai/gpt-5", 2<<10)), 0},
		{"inference without a reference", inferring, "POST", "/v1/responses", caller, always(inferenceBody("openai/gpt-5", 2<<10)), 0},
		{"inference with a reference", inferring, "POST", "/v1/responses", caller, always(inferenceBody("@preset/bench", 2<<10)), 0},
		{"inference with a reference, 64KB", inferring, "POST", "/v1/responses", caller, always(inferenceBody("@preset/bench", 64<<10)), 0},
		{"POST of a workspace", plain, "POST", "/v1/workspaces", managementSecret, newWorkspace, 201},
		{"POST of a version of a preset, 2KB", plain, "POST", "/v1/presets/other/responses", managementSecret, always(inferenceBody("openai/gpt-5", 2<<10)), 200},
	}
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	all := []load{matching(plain), lookingUp("configured", plain, managementSecret), lookingUp("issued", plain, manager)}
	for _, r := range requests {
		template := httptest.NewRequest(r.method, "http://x"+r.path, nil)
		w := &discarded{header: make(http.Header)}
		all = append(all, load{r.name, func() *http.Request {
			got := caddyhttp.PrepareRequest(template, caddy.NewReplacer(), w, nil)
			got.Header = http.Header{"Authorization": {"Bearer " + r.key}}
			if r.body != nil {
				body := r.body()
				got.Header["Content-Type"] = []string{"application/json"}
				got.Body, got.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			}
			return got
		}, func(tb testing.TB, got *http.Request) {
			clear(w.header)
			w.status = 0
			if err := r.h.ServeHTTP(w, got, next); err != nil || w.status != r.status {
				tb.Fatalf("got %d, %v, want %d", w.status, err, r.status)
			}
		}})
	}
	return all
}

func matching(h *Handler) load {
	r := httptest.NewRequest("GET", "http://x/v1/workspaces/default", nil)
	c := h.newCall(nil, r)
	return load{"match", func() *http.Request { return nil }, func(tb testing.TB, _ *http.Request) {
		if err := c.match(); err != nil || c.op.name != "workspace_get" {
			tb.Fatalf("got %q, %v", c.op.name, err)
		}
	}}
}

func lookingUp(kind string, h *Handler, secret string) load {
	c := h.newCall(nil, caddyhttp.PrepareRequest(httptest.NewRequest("GET", "http://x/", nil), caddy.NewReplacer(), nil, nil))
	article := map[string]string{"configured": "a", "issued": "an"}[kind]
	return load{"look-up of " + article + " " + kind + " key", func() *http.Request { return nil }, func(tb testing.TB, _ *http.Request) {
		if _, err := c.identify(secret); err != nil {
			tb.Fatal(err)
		}
	}}
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
		who := domain.Principal{KeyID: "k", UserID: "u", Kind: domain.ManagementKey}
		if _, err := h.service.ReleasePresetVersion(b.Context(), domain.By(who), "", "bench", domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"openai/gpt-5","temperature":0.7}`)}, domain.Release{}); err != nil {
			b.Fatal(err)
		}
		_, secret, err := h.service.IssueKey(b.Context(), domain.By(who), domain.NewKey{Kind: domain.InferenceKey})
		if err != nil {
			b.Fatal(err)
		}
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
