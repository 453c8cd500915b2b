// Package result is what a run of the comparison leaves behind, for the tables and
// the plots.
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
	// Versions are those of what was compared.
	Versions []string `json:"versions"`
	// Rows are compared with goals. Figures are not, but are worth knowing.
	Rows         []Row          `json:"rows"`
	Figures      []Row          `json:"figures"`
	Measurements []*Measurement `json:"measurements"`
}

// Row is a figure that each round gave.
type Row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	// Goal is empty, and Met false, where there is none.
	Goal string `json:"goal,omitempty"`
	Met  bool   `json:"met,omitempty"`
}

// Load is which work was measured under which conditions.
type Load struct {
	// Group holds those that took turns.
	Group string `json:"group"`
	Work  string `json:"work"`
	// Connections is how many clients worked at the same time.
	Connections int `json:"connections"`
	// Presets is how many were stored, 0 where the group does not vary that.
	Presets int `json:"presets,omitempty"`
}

// Measurement is what each round gave for a Load.
type Measurement struct {
	Load
	Samples []Sample `json:"samples"`
}

// Sample is how often work was done, and how long it took once.
type Sample struct {
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	// CPU is how long the servers' processors worked for it once, 0 where that
	// is not known. It says more than PerSecond where others use the machine.
	CPU time.Duration `json:"cpu_ns,omitempty"`
}

// Figure is one of those that a Sample has.
type Figure func(Sample) float64

// PerSecond is how often the work was done in a second.
func PerSecond(s Sample) float64 { return s.PerSecond }

// P50 is the median of how long it took, in microseconds.
func P50(s Sample) float64 { return float64(s.P50) / float64(time.Microsecond) }

// P99 is the 99th percentile of how long it took, in microseconds.
func P99(s Sample) float64 { return float64(s.P99) / float64(time.Microsecond) }

// CPU is the work of processors that it took, in microseconds.
func CPU(s Sample) float64 { return float64(s.CPU) / float64(time.Microsecond) }

// Add adds a sample.
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

// Each returns a figure of each round, none where a load was not measured.
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

// Median returns the middle of values, of which there is at least one.
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
