package metrics

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagetap"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// Usage are the metrics of usage. The handlers of a configuration share them.
type Usage struct {
	collectors
	tokens    [5]*prometheus.CounterVec // as usagetap.CountsOf has them
	cost      *prometheus.CounterVec
	uncosted  *prometheus.CounterVec
	unknown   *prometheus.CounterVec // with the reason
	duration  *prometheus.HistogramVec
	firstByte *prometheus.HistogramVec
	keyTokens *prometheus.CounterVec // in and out

	mu       sync.Mutex
	apart    int // versions with labels of their own, at most so many:
	most     int
	series   map[usedVersion]*usageSeries
	keys     map[string]bool // with labels of their own, at most so many:
	mostKeys int
}

// usedVersion are the labels of a version. All are empty if versions are not told apart,
// and for requests without a preset.
type usedVersion struct{ workspace, preset, version string }

// others are the labels of the versions for which there is no room.
var others = usedVersion{preset: "other"}

func (v usedVersion) labels(more ...string) []string {
	return append([]string{v.workspace, v.preset, v.version}, more...)
}

type usageSeries struct {
	of                  usedVersion
	tokens              [5]prometheus.Counter
	cost, uncosted      prometheus.Counter
	duration, firstByte prometheus.Observer
}

func newUsage() *Usage {
	u := &Usage{series: make(map[usedVersion]*usageSeries), keys: make(map[string]bool)}
	labels := []string{"workspace", "preset", "version"}
	u.tokens = [5]*prometheus.CounterVec{
		u.counter("input_tokens_total", "Input tokens of inference requests, with those of caches.", labels...),
		u.counter("output_tokens_total", "Output tokens of inference requests, with those of reasoning.", labels...),
		u.counter("cache_read_input_tokens_total", "Input tokens that were read from a cache.", labels...),
		u.counter("cache_write_input_tokens_total", "Input tokens that were written to a cache.", labels...),
		u.counter("reasoning_output_tokens_total", "Output tokens of reasoning.", labels...),
	}
	u.cost = u.counter("cost_total", "What inference requests cost, as the gateway said or by the configured prices.", labels...)
	u.uncosted = u.counter("cost_unknown_total", "Inference requests that may have cost something that is not known.", labels...)
	u.unknown = u.counter("usage_unknown_total", "Answers that did not say what they used.", append(labels, "reason")...)
	buckets := prometheus.ExponentialBuckets(0.05, 2, 13) // 50 ms to 3.4 min
	u.duration = u.histogram("upstream_duration_seconds", "Time from an inference request going upstream to the end of its answer.", buckets, labels...)
	u.firstByte = u.histogram("time_to_first_chunk_seconds", "Time from an inference request going upstream to the first byte of its streamed answer.", buckets, labels...)
	u.keyTokens = u.counter("key_tokens_total", "Input and output tokens of inference requests by the id of their key.", "key")
	return u
}

// RaiseLimits lets at least so many versions and keys have labels of their own.
func (u *Usage) RaiseLimits(versions, keys int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.most, u.mostKeys = max(u.most, versions), max(u.mostKeys, keys)
}

// Add counts a request.
func (u *Usage) Add(used *usage.Request) {
	s, ofKey := u.of(usedVersion{used.WorkspaceID, used.Preset, strconv.Itoa(used.Version)}, used.KeyID)
	s.duration.Observe(used.Duration.Seconds())
	if used.Streamed && used.FirstByte >= 0 {
		s.firstByte.Observe(used.FirstByte.Seconds())
	}
	switch {
	case used.HasCost:
		s.cost.Add(used.Cost.InexactFloat64())
	case used.LacksCost():
		s.uncosted.Inc()
	}
	if used.Unknown != "" {
		u.unknown.WithLabelValues(s.of.labels(string(used.Unknown))...).Inc()
		return
	}
	for i, count := range usagetap.CountsOf(used.Tokens) {
		s.tokens[i].Add(float64(count.Tokens))
	}
	if ofKey != nil {
		ofKey.Add(float64(used.Tokens.Input + used.Tokens.Output))
	}
}

// ofKey returns the counter of a key's tokens, nil if keys are not told apart. id is empty without a key.
// u.mu is held.
func (u *Usage) ofKey(id string) prometheus.Counter {
	switch {
	case u.mostKeys == 0:
		return nil
	case id == "" || u.keys[id]:
	case len(u.keys) < u.mostKeys:
		u.keys[id] = true
	default:
		id = others.preset
	}
	return u.keyTokens.WithLabelValues(id)
}

// of returns the series of a version, and the counter of a key's tokens as ofKey does. Both begin at 0.
func (u *Usage) of(version usedVersion, key string) (s *usageSeries, ofKey prometheus.Counter) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.most == 0 || version.preset == "" {
		version = usedVersion{}
	}
	s = u.series[version]
	switch {
	case s != nil || version.preset == "":
	case u.apart < u.most:
		u.apart++
	default:
		version = others
		s = u.series[others]
	}
	if s == nil {
		s = u.newSeries(version)
		u.series[version] = s
	}
	return s, u.ofKey(key)
}

func (u *Usage) newSeries(version usedVersion) *usageSeries {
	labels := version.labels()
	s := &usageSeries{
		of: version, cost: u.cost.WithLabelValues(labels...), uncosted: u.uncosted.WithLabelValues(labels...),
		duration: u.duration.WithLabelValues(labels...), firstByte: u.firstByte.WithLabelValues(labels...),
	}
	for i, vec := range u.tokens {
		s.tokens[i] = vec.WithLabelValues(labels...)
	}
	return s
}
