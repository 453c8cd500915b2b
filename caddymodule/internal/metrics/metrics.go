// Package metrics counts requests and what they did, in the registry of a configuration.
package metrics

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/version"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Metrics counts in Caddy's registry, which is new with each configuration and
// shared by all handlers in it. Labels come from fixed sets.
type Metrics struct {
	collectors

	requests    *timing // operation, code
	resolutions *timing // operation, result
	storeCalls  *timing // operation, result

	Versions      prometheus.Counter     // written versions of presets
	FromMemory    prometheus.Counter     // presets from memory beside a damaged store
	BodiesRefused prometheus.Counter     // requests without memory
	LimitRefusals *prometheus.CounterVec // scope, kind

	refused, limited prometheus.Counter // failed authentications

	WebhookRequests *prometheus.CounterVec // result
	WebhookDropped  *prometheus.CounterVec // reason

	BundlesWaiting prometheus.Gauge

	Usage *Usage // of inference requests
}

const namespace, subsystem = "caddy", "presets"

// New returns the metrics of a registry, which are those of another handler of the configuration if
// there is one.
func New(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{Usage: newUsage()}
	m.collectors = m.Usage.collectors
	m.requests = m.timing("requests_total", "Requests to the preset and workspace API.",
		"request_duration_seconds", "Time from a request's headers to its answer.",
		"code", prometheus.ExponentialBuckets(50e-6, 4, 9)) // 50 µs to 3.3 s
	m.resolutions = m.timing("resolutions_total", "Inference requests that were resolved, passed without naming a preset, or refused.",
		"resolution_duration_seconds", "Time from an inference request's headers, through the reading of its body, until it goes upstream or is refused.",
		"result", prometheus.ExponentialBuckets(50e-6, 4, 9))
	m.storeCalls = m.timing("store_operations_total", "Operations on the store.",
		"store_operation_duration_seconds", "Time that operations on the store take.",
		"result", prometheus.ExponentialBuckets(5e-6, 4, 10)) // 5 µs to 1.3 s
	m.Versions = m.counter("versions_written_total", "Preset versions written.").WithLabelValues()
	m.FromMemory = m.counter("served_from_memory_total", "Inference requests whose preset was resolved from memory while the store was found damaged.").WithLabelValues()
	m.BodiesRefused = m.counter("inference_bodies_refused_total", "Inference requests and lists of models refused because these took all of max_memory.").WithLabelValues()
	m.LimitRefusals = m.counter("limit_refusals_total", "Inference requests refused because of a limit of their key, workspace or preset.", "scope", "kind")
	failures := m.counter("auth_failures_total", "Requests with a wrong key, or without a look-up because their address had failed too often.", "result")
	m.refused, m.limited = failures.WithLabelValues("refused"), failures.WithLabelValues("limited")
	m.WebhookRequests = m.counter("webhook_requests_total", "Requests to webhooks, each an attempt to deliver an event.", "result")
	m.WebhookDropped = m.counter("webhook_dropped_total", "Events that a webhook did not get.", "reason")
	for _, reason := range webhook.DropReasons() { // an increase from 0 is seen
		m.WebhookDropped.WithLabelValues(reason)
	}
	m.BundlesWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "bundles_waiting",
		Help: "Bundles of the configuration that are not applied yet.",
	})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "build_info",
		Help:        "1, with the version of the presets module and of Go.",
		ConstLabels: prometheus.Labels{"version": version.Module(), "go_version": runtime.Version()},
	})
	build.Set(1)
	bodyBytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "inference_body_bytes",
		Help: "Bytes of memory that bodies of inference requests and lists of models take in this process.",
	}, func() float64 { return float64(heldbody.InUse()) })
	m.collectors = append(m.collectors, m.BundlesWaiting, build, bodyBytes, backupMetrics{}, budgetMetrics{})

	err := registry.Register(m)
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return taken.ExistingCollector.(*Metrics), nil
	}
	return m, err
}

// collectors are one collector.
type collectors []prometheus.Collector

// Describe implements prometheus.Collector.
func (all collectors) Describe(to chan<- *prometheus.Desc) {
	for _, c := range all {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (all collectors) Collect(to chan<- prometheus.Metric) {
	for _, c := range all {
		c.Collect(to)
	}
}

func (all *collectors) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
	*all = append(*all, c)
	return c
}

func (all *collectors) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	*all = append(*all, h)
	return h
}

// timing counts and times one kind of event by its two labels.
type timing struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// timing adds a timing of events by their operation and their outcome, which is the
// name of the second label.
func (all *collectors) timing(total, totalHelp, seconds, secondsHelp, outcome string, buckets []float64) *timing {
	return &timing{all.counter(total, totalHelp, "operation", outcome), all.histogram(seconds, secondsHelp, buckets, "operation", outcome)}
}

// observe counts an event that took some time. Its series begins with it.
func (t *timing) observe(took time.Duration, operation, outcome string) {
	t.total.WithLabelValues(operation, outcome).Inc()
	t.seconds.WithLabelValues(operation, outcome).Observe(took.Seconds())
}

// CountRequest counts a request to the API.
func (m *Metrics) CountRequest(operation string, status int, took time.Duration) {
	m.requests.observe(took, operation, strconv.Itoa(status))
}

// CountFailure counts an error that is a failed authentication.
func (m *Metrics) CountFailure(err error) {
	switch {
	case errors.Is(err, limiter.ErrLimited):
		m.limited.Inc()
	case errors.Is(err, domain.ErrCredentials):
		m.refused.Inc()
	}
}

// CountResolution counts an inference request that began at start. result is resolved,
// passed or refused.
func (m *Metrics) CountResolution(operation, result string, start time.Time) {
	m.resolutions.observe(time.Since(start), operation, result)
}

// Measure returns store with its operations counted and timed.
func (m *Metrics) Measure(store domain.Store) domain.Store {
	return &measuredStore{store, m}
}

type measuredStore struct {
	domain.Store
	m *Metrics
}

func (s *measuredStore) View(ctx context.Context, fn func(domain.Reader) error) error {
	start := time.Now()
	err := s.Store.View(ctx, fn)
	s.observe("view", err, start)
	return err
}

func (s *measuredStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	start := time.Now()
	err := s.Store.Update(ctx, fn)
	s.observe("update", err, start)
	return err
}

// observe counts an operation. "Not found", a conflict and a client that left are
// results. Only other errors are failures of the store.
func (s *measuredStore) observe(operation string, err error, start time.Time) {
	result := "error"
	switch {
	case errors.Is(err, domain.ErrUnavailable):
	case err == nil, domain.KindOf(err) != domain.Internal, errors.Is(err, domain.ErrNotFound),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		result = "ok"
	}
	s.m.storeCalls.observe(time.Since(start), operation, result)
}
