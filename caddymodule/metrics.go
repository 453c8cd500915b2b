package caddymodule

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/domain"
)

// metrics counts in Caddy's registry, which is new with each configuration and
// shared by all handlers in it. Labels come from fixed sets.
type metrics struct {
	requests     *prometheus.CounterVec   // operation, code
	duration     *prometheus.HistogramVec // operation, code
	resolutions  *prometheus.CounterVec   // operation, result
	resolving    *prometheus.HistogramVec // operation, result
	storeCalls   *prometheus.CounterVec   // operation, result
	storeSeconds *prometheus.HistogramVec // operation, result
	versions     prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	const namespace, subsystem = "caddy", "presets"
	requestLabels, resultLabels := []string{"operation", "code"}, []string{"operation", "result"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests to the preset and workspace API.",
		}, requestLabels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
			Help:    "Time from a request's headers to its answer.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 9), // 50 µs to 3.3 s
		}, requestLabels),
		resolutions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "resolutions_total",
			Help: "Inference requests that were resolved, passed without naming a preset, or refused.",
		}, resultLabels),
		resolving: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "resolution_duration_seconds",
			Help:    "Time from an inference request's headers until it goes upstream or is refused, with reading its body.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 9), // 50 µs to 3.3 s
		}, resultLabels),
		storeCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "store_operations_total",
			Help: "Operations on the store.",
		}, resultLabels),
		storeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "store_operation_duration_seconds",
			Help:    "Time that operations on the store take.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 4, 10), // 5 µs to 1.3 s
		}, resultLabels),
		versions: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "versions_written_total",
			Help: "Preset versions written.",
		}),
	}
	return m, errors.Join(
		register(registry, &m.requests), register(registry, &m.duration),
		register(registry, &m.resolutions), register(registry, &m.resolving),
		register(registry, &m.storeCalls), register(registry, &m.storeSeconds),
		register(registry, &m.versions),
	)
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

func (m *metrics) request(operation string, status int, took time.Duration) {
	code := strconv.Itoa(status)
	m.requests.WithLabelValues(operation, code).Inc()
	m.duration.WithLabelValues(operation, code).Observe(took.Seconds())
}

// resolved counts an inference request that began at start. result is resolved,
// passed or refused.
func (m *metrics) resolved(operation, result string, start time.Time) {
	m.resolutions.WithLabelValues(operation, result).Inc()
	m.resolving.WithLabelValues(operation, result).Observe(time.Since(start).Seconds())
}

// measure returns store with its operations counted and timed.
func (m *metrics) measure(store domain.Store) domain.Store {
	return &measuredStore{store, m}
}

type measuredStore struct {
	domain.Store
	m *metrics
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

// observe counts an operation. An answer such as "not found" is a result, and
// a client that left is one too: only the rest are failures of the store.
func (s *measuredStore) observe(operation string, err error, start time.Time) {
	result := "error"
	switch {
	case err == nil, domain.KindOf(err) != domain.Internal, errors.Is(err, domain.ErrNotFound),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		result = "ok"
	}
	s.m.storeCalls.WithLabelValues(operation, result).Inc()
	s.m.storeSeconds.WithLabelValues(operation, result).Observe(time.Since(start).Seconds())
}
