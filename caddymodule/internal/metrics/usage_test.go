package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/caddy-presets/caddy-presets/domain/usage"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// TestUsageMetricsAreBounded checks that metrics tell some versions apart, and sum the
// others.
func TestUsageMetricsAreBounded(t *testing.T) {
	u := newUsage()
	registry := prometheus.NewRegistry()
	if err := registry.Register(u); err != nil {
		t.Fatal(err)
	}
	u.RaiseLimits(2, 0)
	u.RaiseLimits(1, 0) // of another handler
	used := func(preset string, version int) {
		u.Add(&usage.Request{WorkspaceID: "w", Preset: preset, Version: version, Tokens: gatewayanswer.Tokens{Input: 1}})
	}
	used("a", 1)
	used("a", 2)
	used("a", 1)
	used("a", 3) // has no room
	used("a", 4)
	used("", 0)
	want := `
		# HELP caddy_presets_input_tokens_total Input tokens of inference requests, with those of caches.
		# TYPE caddy_presets_input_tokens_total counter
		caddy_presets_input_tokens_total{preset="",version="",workspace=""} 1
		caddy_presets_input_tokens_total{preset="a",version="1",workspace="w"} 2
		caddy_presets_input_tokens_total{preset="a",version="2",workspace="w"} 1
		caddy_presets_input_tokens_total{preset="other",version="",workspace=""} 2
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "caddy_presets_input_tokens_total"); err != nil {
		t.Error(err)
	}
	for version := range 1000 {
		used("b", version)
	}
	if n := testutil.CollectAndCount(u, "caddy_presets_upstream_duration_seconds"); n != 4 {
		t.Errorf("%d series of durations, want those of two versions, of the others and without a preset", n)
	}
}

// TestUsageMetricsTellNothingApart checks that versions have no series of their own unless
// that is configured.
func TestUsageMetricsTellNothingApart(t *testing.T) {
	u := newUsage()
	for version := range 10 {
		u.Add(&usage.Request{WorkspaceID: "w", Preset: fmt.Sprint("p", version), Version: version, Unknown: gatewayanswer.Absent})
	}
	if n := testutil.CollectAndCount(u, "caddy_presets_usage_unknown_total"); n != 1 {
		t.Errorf("%d series, want one", n)
	}
}

// TestTokensByKey checks that metrics tell keys apart only if that is configured, so many of them, and
// sum the others.
func TestTokensByKey(t *testing.T) {
	u := newUsage()
	used := func(keys ...string) {
		for _, id := range keys {
			u.Add(&usage.Request{KeyID: id, Tokens: gatewayanswer.Tokens{Input: 2, Output: 1, CacheRead: 1}})
		}
	}
	used("a", "")
	if n := testutil.CollectAndCount(u, "caddy_presets_key_tokens_total"); n != 0 {
		t.Errorf("%d series, want none", n)
	}
	u.RaiseLimits(0, 2)
	u.RaiseLimits(0, 1) // of another handler
	u.Add(&usage.Request{KeyID: "b", Unknown: gatewayanswer.Absent})
	used("a", "", "a", "c", "d", "a")
	want := `
		# HELP caddy_presets_key_tokens_total Input and output tokens of inference requests by the id of their key.
		# TYPE caddy_presets_key_tokens_total counter
		caddy_presets_key_tokens_total{key=""} 3
		caddy_presets_key_tokens_total{key="a"} 9
		caddy_presets_key_tokens_total{key="b"} 0
		caddy_presets_key_tokens_total{key="other"} 6
	`
	if err := testutil.CollectAndCompare(u, strings.NewReader(want), "caddy_presets_key_tokens_total"); err != nil {
		t.Error(err)
	}
}
