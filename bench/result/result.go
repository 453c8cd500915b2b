// Package result has the results of a run of bench, for the tables and the plots.
package result

import (
	"encoding/json"
	"os"
	"slices"
	"time"
)

// Run is one run of the comparison.
type Run struct {
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Command string `json:"command"`
	// Versions are the versions of the compared programs.
	Versions []string `json:"versions"`
	// Rows are compared with goals. Figures are informative.
	Rows         []Row          `json:"rows"`
	Figures      []Row          `json:"figures"`
	Measurements []*Measurement `json:"measurements"`
}

// Row is a figure with one value for each round.
type Row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	// Goal is empty, and Met is false, if there is no goal.
	Goal string `json:"goal,omitempty"`
	Met  bool   `json:"met,omitempty"`
}

// Load is measured work and its conditions.
type Load struct {
	// Group names the loads that were measured in alternation.
	Group string `json:"group"`
	Work  string `json:"work"`
	// Connections is the number of concurrent clients.
	Connections int `json:"connections"`
	// Presets is the number of stored presets, or 0 if the group does not vary it.
	Presets int `json:"presets,omitempty"`
}

// Measurement has a Sample of a Load for each round.
type Measurement struct {
	Load
	Samples []Sample `json:"samples"`
}

// Sample is the rate of work and the latency of one piece of it.
type Sample struct {
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	// CPU is the servers' processor time for one piece of work, or 0 if unknown. On a
	// shared machine it is more reliable than PerSecond.
	CPU time.Duration `json:"cpu_ns,omitempty"`
}

// Figure selects one value of a Sample.
type Figure func(Sample) float64

// PerSecond returns the rate of the work.
func PerSecond(s Sample) float64 { return s.PerSecond }

// P50 returns the median latency, in microseconds.
func P50(s Sample) float64 { return float64(s.P50) / float64(time.Microsecond) }

// P99 returns the 99th percentile of the latency, in microseconds.
func P99(s Sample) float64 { return float64(s.P99) / float64(time.Microsecond) }

// CPU returns the servers' processor time for one piece of work, in microseconds.
func CPU(s Sample) float64 { return float64(s.CPU) / float64(time.Microsecond) }

// Add adds a sample to the measurement of a load.
func (r *Run) Add(l Load, s Sample) {
	i := r.index(l)
	if i < 0 {
		i = len(r.Measurements)
		r.Measurements = append(r.Measurements, &Measurement{Load: l})
	}
	r.Measurements[i].Samples = append(r.Measurements[i].Samples, s)
}

func (r *Run) index(l Load) int {
	return slices.IndexFunc(r.Measurements, func(m *Measurement) bool { return m.Load == l })
}

// Each returns a figure of each round, or nil if the load was not measured.
func (r *Run) Each(l Load, figure Figure) []float64 {
	i := r.index(l)
	if i < 0 {
		return nil
	}
	return r.Measurements[i].Each(figure)
}

// Each returns a figure of each round.
func (m *Measurement) Each(figure Figure) []float64 {
	values := make([]float64, len(m.Samples))
	for i, s := range m.Samples {
		values[i] = figure(s)
	}
	return values
}

// Median returns the median of values. There must be at least one.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Read reads a run from a file.
func Read(file string) (*Run, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	run := new(Run)
	return run, json.Unmarshal(text, run)
}

// Write writes a run to a file.
func (r *Run) Write(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // for everyone to read
}
