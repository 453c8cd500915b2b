package etcdstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// BenchmarkUpdate makes changes through the Service from several goroutines. For comparison
// it also puts records of a similar size with one request each.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 64} {
		s := open(b, Options{Prefix: fmt.Sprintf("bench-%d/", n)})
		service := domain.NewService(s)
		by := domain.By(domain.Principal{KeyID: "bench", Kind: domain.ManagementKey})
		must(b, service.EnsureDefaultWorkspace(b.Context()))
		config := []byte(`{"model":"` + strings.Repeat("m", 2000) + `"}`)
		var serial atomic.Int64
		for _, work := range []struct {
			name string
			do   func(worker int) error
		}{
			{"put", func(int) error {
				_, err := s.client.Put(context.Background(), fmt.Sprintf("put/%d", serial.Add(1)), string(config[:600]))
				return err
			}},
			{"workspace", func(int) error {
				_, err := service.CreateWorkspace(context.Background(), by, domain.WorkspacePatch{Name: new("w"), Slug: new(fmt.Sprintf("w-%d", serial.Add(1)))})
				return err
			}},
			{"version", func(worker int) error {
				_, err := service.ReleasePresetVersion(context.Background(), by, "", fmt.Sprintf("p-%d-%d", n, worker), domain.Capture{Config: config}, domain.Release{})
				return err
			}},
			{"read", func(int) error { return s.View(context.Background(), func(domain.Reader) error { return nil }) }},
		} {
			b.Run(work.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				commits := s.model.Latest().Number
				fanOut(b, n, work.do)
				if made := s.model.Latest().Number - commits; made > 0 {
					b.ReportMetric(float64(b.N)/float64(made), "ops/commit")
				}
			})
		}
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fanOut runs work on n goroutines until they have done it b.N times together.
func fanOut(b *testing.B, n int, work func(worker int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for worker := range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := work(worker); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
