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
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/version"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Metrics counts in Caddy's registry, which is new with each configuration and
// shared by all handlers in it. Labels come from fixed sets.
type Metrics struct {
	requests    *timing // operation, code
	resolutions *timing // operation, result
	storeCalls  *timing // operation, result

	Versions      prometheus.Counter // written versions of presets
	FromMemory    prometheus.Counter // presets from memory beside a damaged store
	BodiesRefused prometheus.Counter // requests without memory

	failures         *prometheus.CounterVec // result
	refused, limited prometheus.Counter     // the series of failures

	WebhookRequests *prometheus.CounterVec // result
	WebhookDropped  *prometheus.CounterVec // reason

	BundlesWaiting prometheus.Gauge

	Usage *Usage // of inference requests

	build     prometheus.Gauge
	bodyBytes prometheus.GaugeFunc
}

const namespace, subsystem = "caddy", "presets"

// New returns the metrics of a registry, which are those of another handler of the configuration if
// there is one.
func New(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		requests: newTiming("requests_total", "Requests to the preset and workspace API.",
			"request_duration_seconds", "Time from a request's headers to its answer.",
			"code", prometheus.ExponentialBuckets(50e-6, 4, 9)), // 50 µs to 3.3 s
		resolutions: newTiming("resolutions_total", "Inference requests that were resolved, passed without naming a preset, or refused.",
			"resolution_duration_seconds", "Time from an inference request's headers, through the reading of its body, until it goes upstream or is refused.",
			"result", prometheus.ExponentialBuckets(50e-6, 4, 9)),
		storeCalls: newTiming("store_operations_total", "Operations on the store.",
			"store_operation_duration_seconds", "Time that operations on the store take.",
			"result", prometheus.ExponentialBuckets(5e-6, 4, 10)), // 5 µs to 1.3 s
		Versions: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "versions_written_total",
			Help: "Preset versions written.",
		}),
		FromMemory: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "served_from_memory_total",
			Help: "Inference requests whose preset was resolved from memory while the store was found damaged.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "auth_failures_total",
			Help: "Requests with a wrong key, or without a look-up because their address had failed too often.",
		}, []string{"result"}),
		WebhookRequests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "webhook_requests_total",
			Help: "Requests to webhooks, each an attempt to deliver an event.",
		}, []string{"result"}),
		WebhookDropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "webhook_dropped_total",
			Help: "Events that a webhook did not get.",
		}, []string{"reason"}),
		BundlesWaiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "bundles_waiting",
			Help: "Bundles of the configuration that are not applied yet.",
		}),
		Usage: newUsage(),
		build: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "build_info",
			Help:        "1, with the version of the presets module and of Go.",
			ConstLabels: prometheus.Labels{"version": version.Module(), "go_version": runtime.Version()},
		}),
		bodyBytes: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "inference_body_bytes",
			Help: "Bytes of memory that bodies of inference requests and lists of models take in this process.",
		}, func() float64 { return float64(heldbody.InUse()) }),
		BodiesRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "inference_bodies_refused_total",
			Help: "Inference requests and lists of models refused because these took all of max_memory.",
		}),
	}
	err := errors.Join(
		m.requests.register(registry), m.resolutions.register(registry), m.storeCalls.register(registry),
		register(registry, &m.Versions), register(registry, &m.FromMemory), register(registry, &m.failures),
		register(registry, &m.WebhookRequests), register(registry, &m.WebhookDropped),
		register(registry, &m.BundlesWaiting), register(registry, &m.Usage), register(registry, &m.build),
		register(registry, &m.bodyBytes), register(registry, &m.BodiesRefused),
		storepool.RegisterMetrics(registry, backupMetrics{}),
	)
	m.build.Set(1)
	m.refused, m.limited = m.failures.WithLabelValues("refused"), m.failures.WithLabelValues("limited")
	for _, reason := range webhook.DropReasons() { // an increase from 0 is seen
		m.WebhookDropped.WithLabelValues(reason)
	}
	return m, err
}

// timing counts and times one kind of event by its two labels.
type timing struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newTiming returns a timing of events by their operation and their outcome, which is the
// name of the second label.
func newTiming(total, totalHelp, seconds, secondsHelp, outcome string, buckets []float64) *timing {
	labels := []string{"operation", outcome}
	return &timing{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: total, Help: totalHelp,
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: seconds, Help: secondsHelp, Buckets: buckets,
		}, labels),
	}
}

func (t *timing) register(registry *prometheus.Registry) error {
	return errors.Join(register(registry, &t.total), register(registry, &t.seconds))
}

// observe counts an event that took some time. Its series begins with it.
func (t *timing) observe(took time.Duration, operation, outcome string) {
	t.total.WithLabelValues(operation, outcome).Inc()
	t.seconds.WithLabelValues(operation, outcome).Observe(took.Seconds())
}

// register registers *c or, where another handler of the same configuration
// was first, adopts its collector.
func register[C prometheus.Collector](registry *prometheus.Registry, c *C) error {
	err := registry.Register(*c)
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		*c = taken.ExistingCollector.(C)
		return nil
	}
	return err
}

// CountRequest counts a request to the API.
func (m *Metrics) CountRequest(operation string, status int, took time.Duration) {
	m.requests.observe(took, operation, strconv.Itoa(status))
}

// CountFailure counts an error that is a failed authentication.
func (m *Metrics) CountFailure(err error) {
	if _, ok := errors.AsType[*limiter.Error](err); ok {
		m.limited.Inc()
	} else if errors.Is(err, domain.ErrCredentials) {
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
