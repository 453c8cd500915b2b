package caddymodule

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/metrics"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagerecorder"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// awayStore is a store that a test can take away. Nothing that was read from it stays cached.
type awayStore struct {
	domain.Store
	away bool
}

func (s *awayStore) View(ctx context.Context, fn func(domain.Reader) error) error {
	if s.away {
		return domain.ErrUnavailable
	}
	return s.Store.View(ctx, fn)
}

func (*awayStore) Stamps() *domain.Stamps { return domain.NewStamps() }

// TestUsageIsCountedWithoutStore has a store that is away when the answer to a request
// without a preset ends. The answer does not wait for it, and the request counts.
func TestUsageIsCountedWithoutStore(t *testing.T) {
	opened := openInMemory(t)
	store, use := &awayStore{Store: opened}, &usagerecorder.Use{Store: opened, Logger: zap.NewNop()}
	workspace := domain.Workspace{ID: uuid.NewString(), Name: "first", Slug: "first", IOLoggingAPIKeyIDs: []byte("null")}
	if err := opened.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(workspace) }); err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	h := &Handler{
		metrics: m, shared: newShared(t.Name()),
		Inference: &Inference{Usage: &Usage{recording: use}, resolver: inference.NewResolver(store, inference.Config{})},
	}
	h.shared.usage.Start(use)
	defer h.shared.usage.End(use)
	request := httptest.NewRequest(http.MethodPost, chatPath, nil)
	c := &inferenceCall{call: h.newCall(httptest.NewRecorder(), request), route: inferenceRouteOf("chat/completions")}
	c.who = domain.Principal{Kind: domain.InferenceKey, WorkspaceID: workspace.ID}
	err = c.serveMeasured(caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		store.away = true
		_, err := io.WriteString(w, "{}")
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.shared.usage.Flush(t.Context(), use); err != nil {
		t.Fatal(err)
	}
	rows := 0
	err = opened.View(t.Context(), func(r domain.Reader) error {
		for _, err := range r.UsageRows(domain.UsageRange{WorkspaceID: workspace.ID, To: time.Now().Add(time.Hour)}) {
			if err != nil {
				return err
			}
			rows++
		}
		return nil
	})
	if err != nil || rows != 1 {
		t.Errorf("got %d rows and %v, want one", rows, err)
	}
}
