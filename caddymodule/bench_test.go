package caddymodule

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// inferenceBody is a responses request of about size bytes.
func inferenceBody(model string, size int) string {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)
	const rest = `{"model":"%s","input":[{"role":"user","content":"%s"}],"stream":false,"max_output_tokens":512,"metadata":{"team":"a"}}`
	return fmt.Sprintf(rest, model, text[:size-len(rest)])
}

// BenchmarkInference measures what the handler adds to an inference request on its way to
// the gateway. The next handler only reads the body. "without us" is the next handler
// alone.
func BenchmarkInference(b *testing.B) {
	store, err := badger.Open(b.TempDir(), badger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	h := newInferringHandler(b, store, new(Inference))
	const preset = `{"model":"openai/gpt-5","temperature":0.7,"top_p":0.9,"reasoning":{"effort":"high"},"text":{"verbosity":"low"},
		"tools":[{"type":"function","name":"look_up","description":"d","parameters":{"type":"object","properties":{"id":{"type":"string"}}}}]}`
	prompt := strings.Repeat("Answer as the support team does. ", 20)
	who := domain.Principal{KeyID: "k", UserID: "u", Kind: domain.ManagementKey}
	if _, err := h.service.CreatePresetVersion(context.Background(), domain.By(who), "", "bench",
		domain.Capture{Dialect: domain.Responses, Config: []byte(preset), SystemPrompt: &prompt}); err != nil {
		b.Fatal(err)
	}
	_, secret, err := h.service.IssueKey(context.Background(), domain.By(who), domain.NewKey{Kind: domain.InferenceKey})
	if err != nil {
		b.Fatal(err)
	}
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	})
	for _, size := range []int{2 << 10, 64 << 10} {
		for _, bench := range []struct{ name, path, model string }{
			{"without us", "", "openai/gpt-5"},
			{"no preset", "/v1/responses", "openai/gpt-5"},
			{"preset", "/v1/responses", "@preset/bench"},
			{"preset of another API", "/v1/chat/completions", "@preset/bench"},
		} {
			b.Run(fmt.Sprintf("%s/%dKB", bench.name, size>>10), func(b *testing.B) {
				body := inferenceBody(bench.model, size)
				request := httptest.NewRequest(http.MethodPost, "http://x"+bench.path, nil)
				w := httptest.NewRecorder()
				b.ReportAllocs()
				for b.Loop() {
					r := request.WithContext(request.Context())
					r.Header = http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {"application/json"}}
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
					var err error
					if bench.path == "" {
						err = next.ServeHTTP(w, r)
					} else {
						err = h.ServeHTTP(w, r, next)
					}
					if err != nil || w.Code != http.StatusOK || w.Body.Len() > 0 {
						b.Fatal(err, w.Code, w.Body)
					}
				}
			})
		}
	}
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
		if _, err := h.service.CreatePresetVersion(b.Context(), domain.By(who), "", "bench",
			domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"openai/gpt-5","temperature":0.7}`)}); err != nil {
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
					if err := h.ServeHTTP(discard{http.Header{}}, r, next); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// discard is a client that reads nothing of its answer.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkPost is a whole POST of a preset's new version: authenticated, checked,
// stored and answered. The store syncs, so only its processor time can be compared.
func BenchmarkPost(b *testing.B) {
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join("..", "testdata", "requests", name))
		if err != nil {
			b.Fatal(err)
		}
		return string(body)
	}
	tools, messages := new(strings.Builder), new(strings.Builder)
	for i := 0; tools.Len() < 48<<10; i++ {
		fmt.Fprintf(tools, `{"type":"function","name":"f%d","description":"Does the thing with number %d.","strict":true,"parameters":%s},`, i, i,
			`{"type":"object","properties":{"id":{"type":"integer","minimum":1},"label":{"type":"string"},"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}}},"required":["id"]}`)
		tools.WriteString(`{"type":"web_search","filters":{"allowed_domains":["example.com","example.org"]}},`)
	}
	for i := 0; messages.Len() < 50<<10; i++ {
		fmt.Fprintf(messages, `,{"role":"assistant","content":[{"type":"text","text":"That is answer number %d, and a short one."}]}`+
			`,{"role":"user","content":"Thank you. I have another question, which is number %d."}`, i, i+2)
	}
	for _, bench := range []struct{ name, path, body string }{
		{"small", "responses", `{"model":"openai/gpt-5","temperature":0.7,"instructions":"Be brief."}`},
		{"responses of 2KB", "responses", read("responses.json")},
		{"chat of 2KB", "chat/completions", read("chat.json")},
		{"messages of 2KB", "messages", read("messages.json")},
		{"responses of 50KB", "responses", `{"model":"openai/gpt-5","tools":[` + tools.String() + `{"type":"web_search"}]}`},
		{"chat of 50KB of messages", "chat/completions", `{"model":"openai/gpt-5","messages":[{"role":"user","content":"Hello."}` + messages.String() + `]}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			store, err := badger.Open(b.TempDir(), badger.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			h := newBareHandler(b, store)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/v1/presets/bench/"+bench.path, strings.NewReader(bench.body))
				r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
				r.Header.Set("Authorization", "Bearer "+managementSecret)
				r.Header.Set("Content-Type", "application/json")
				if err := h.ServeHTTP(w, r, nil); err != nil || w.Code != http.StatusOK {
					b.Fatal(err, w.Code, w.Body)
				}
			}
		})
	}
}
