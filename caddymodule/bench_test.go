package caddymodule

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// inferenceBody is a responses request of about size bytes.
func inferenceBody(model string, size int) string {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)
	const rest = `{"model":"%s","input":[{"role":"user","content":"%s"}],"stream":false,"max_output_tokens":512,"metadata":{"team":"a"}}`
	return fmt.Sprintf(rest, model, text[:size-len(rest)])
}

// What the handler adds to an inference request on its way to the gateway: the
// next handler only reads the body. "without us" is that alone.
func BenchmarkInference(b *testing.B) {
	store, err := badger.Open(b.TempDir(), badger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	h := newBareHandler(b, store)
	h.Inference = new(Inference)
	if err := h.Inference.provision(store); err != nil {
		b.Fatal(err)
	}
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
