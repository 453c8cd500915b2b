package badger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// fanOut runs work on n goroutines, b.N times in all. It reports the 99th percentile of the
// time of one run, and the longest.
func fanOut(b *testing.B, n int, work func(writer, i int) error) {
	b.Helper()
	took := make([][]time.Duration, n)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for writer := range n {
		wg.Go(func() {
			for i := 0; left.Add(-1) >= 0; i++ {
				start := time.Now()
				if err := work(writer, i); err != nil {
					b.Error(err)
					return
				}
				took[writer] = append(took[writer], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(all[len(all)-1].Milliseconds()), "max-ms")
}

// BenchmarkUpdate creates preset versions of 2 KB through the Service: two records with
// three reads.
func BenchmarkUpdate(b *testing.B) {
	config := []byte(`{"model":"` + strings.Repeat("m", 2000) + `"}`)
	for _, n := range []int{1, 16, 64, 512} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := mustOpen(b, b.TempDir())
			service := domain.NewService(s)
			w, err := service.CreateWorkspace(b.Context(), by(""), domain.WorkspacePatch{Name: new("w"), Slug: new("w")})
			if err != nil {
				b.Fatal(err)
			}
			before := s.versions.landed()
			fanOut(b, n, func(writer, i int) error {
				_, err := service.ReleasePresetVersion(context.Background(), by(w.Workspace.ID), "", fmt.Sprintf("p-%d-%d", writer, i/10), domain.Capture{Config: config}, domain.Release{})

				return err
			})
			b.ReportMetric(float64(b.N)/float64(s.versions.landed()-before), "ops/commit")
		})
	}
}

// BenchmarkViewBesideWriters measures the time of a View of one of 100,000 presets in tables
// while others write, in microseconds. A reader returns every 100 µs. Without a pause, most reads
// would fall between two commits. "late" is the 99th percentile of the time by which the reader
// woke up late. The system and Go's scheduler make anything wait so long.
func BenchmarkViewBesideWriters(b *testing.B) {
	const presets = 100_000
	for _, writers := range []int{0, 4, 16} {
		b.Run(strconv.Itoa(writers), func(b *testing.B) {
			s := mustOpen(b, b.TempDir())
			w := newWorkspace("w")
			if err := s.Update(b.Context(), put(w)); err != nil {
				b.Fatal(err)
			}
			for i := 0; i < presets; i += 500 {
				err := s.Update(b.Context(), func(tx domain.Tx) error {
					for j := i; j < i+500; j++ {
						if err := tx.PutPreset(newPreset(w.ID, fmt.Sprint("old-", j))); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for i := range writers {
				wg.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						p := newPreset(w.ID, fmt.Sprintf("p-%d-%d", i, n%100))
						err := s.Update(ctx, func(tx domain.Tx) error { return tx.PutPreset(p) })
						if err != nil && ctx.Err() == nil {
							b.Error(err)
						}
					}
				})
			}
			var took, late []time.Duration
			for b.Loop() {
				slug := fmt.Sprint("old-", rand.IntN(presets))
				begun := time.Now()
				err := s.View(b.Context(), func(r domain.Reader) error {
					_, _, err := r.PresetJSON(w.ID, slug)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				end := time.Now()
				took = append(took, end.Sub(begun))
				time.Sleep(readerPause)
				late = append(late, time.Since(end)-readerPause)
			}
			stop()
			wg.Wait()
			reportPercentiles(b, "", took)
			reportPercentiles(b, "late-", late)
		})
	}
}

const readerPause = 100 * time.Microsecond

// reportPercentiles reports the 50th and 99th percentile of times, in microseconds.
func reportPercentiles(b *testing.B, prefix string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, prefix+"p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, prefix+"p99-µs")
}
