package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestBodiesStayApart sends bodies at once, whose memory other requests use later. Some
// gateways read a body to its end, and some close it before. Some go on reading after the
// handler returned. None may read a byte of another request.
func TestBodiesStayApart(t *testing.T) {
	store := openInMemory(t)
	h := newInferringHandler(t, store, new(Inference))
	boss := domain.By(domain.Principal{KeyID: "k", UserID: "u", Kind: domain.ManagementKey})
	if _, err := h.service.CreatePresetVersion(t.Context(), boss, "", "p", domain.Capture{Dialect: domain.Chat, Config: []byte(`{"model":"m","temperature":1}`)}); err != nil {
		t.Fatal(err)
	}
	_, secret, err := h.service.IssueKey(t.Context(), boss, domain.NewKey{Kind: domain.InferenceKey})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(ctx context.Context, body string, next caddyhttp.HandlerFunc) {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://x"+chatPath, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		_ = h.ServeHTTP(httptest.NewRecorder(), r, next)
	}
	var late, group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for round := range 60 {
				size := []int{10, 3000, 5000, 64 << 10, 70 << 10}[round%5]
				text := strings.Repeat(string(rune('a'+caller)), size+round)
				sent := `{"model":"` + []string{"m", "@preset/p"}[round/5%2] + `","messages":[{"role":"user","content":"` + text + `"}],"user":"` + text[:5] + `"}`
				want := strings.Replace(sent, "@preset/p", "m", 1)
				if want != sent {
					want = strings.TrimSuffix(want, "}") + `,"temperature":1}`
				}
				ctx, cancel := context.WithCancel(t.Context())
				serve(ctx, sent, func(_ http.ResponseWriter, r *http.Request) error {
					read := func(most int64) {
						got, err := io.ReadAll(io.LimitReader(r.Body, most))
						if !strings.HasPrefix(want, string(got)) || err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
							t.Errorf("got %.100q, %v, want a part of %.100q", got, err, want)
						}
						want = want[len(got):]
					}
					switch round / 10 % 4 {
					case 0:
						if read(1 << 20); want != "" {
							t.Errorf("got all but %.100q", want)
						}
					case 1:
						read(100)
						_ = r.Body.Close()
						read(1 << 20)
					case 2:
						late.Go(func() { read(100); read(1 << 20) })
					case 3: // an error route may go on reading until the request ends
						read(100)
						late.Go(func() { read(1 << 20) })
						return errors.New("broken")
					}
					return nil
				})
				cancel()
			}
		})
	}
	group.Wait()
	late.Wait()
	if held() != 0 {
		t.Errorf("%d bytes are held", held())
	}
}
