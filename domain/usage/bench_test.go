package usage_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// BenchmarkLedgerAdd adds from every processor, to 20 series.
func BenchmarkLedgerAdd(b *testing.B) {
	var l usage.Ledger
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(17, 18))
		list := busy(r, "p", 1, 20, now)
		for i := 0; pb.Next(); i++ {
			l.Add(&list[i%len(list)])
		}
	})
}

func BenchmarkHandle(b *testing.B) {
	handles := usage.NewHandles(secret)
	id := uuid.NewString()
	one := usage.Answered{Start: now, Key: usage.Key{PresetID: id, KeyID: id, Label: "production", Version: 3, StatusClass: 2}}
	b.ReportAllocs()
	for b.Loop() {
		one.ID = usage.NewRequestID()
		handles.New(one)
	}
}

// BenchmarkTake turns a full ledger of 500 presets into rows, which are there already.
func BenchmarkTake(b *testing.B) {
	r := rand.New(rand.NewPCG(17, 18))
	var l usage.Ledger
	stored := make(rows)
	var list []usage.Request
	for preset := range 500 {
		list = append(list, busy(r, fmt.Sprint(preset), 20, 20, now)...)
	}
	for b.Loop() {
		for i := range list {
			l.Add(&list[i])
		}
		stored.flush(b, &l)
	}
	b.ReportMetric(float64(len(stored)), "rows")
}

// BenchmarkRow makes the row of an hour, and reports its size.
func BenchmarkRow(b *testing.B) {
	for _, series := range []int{1, 4} {
		for _, requests := range []int{1, 1000, 100_000} {
			b.Run(fmt.Sprintf("%d_requests_in_%d_series", requests, series), func(b *testing.B) {
				list := busy(rand.New(rand.NewPCG(17, 18)), "p", series, requests, now)
				stored := make(rows)
				for b.Loop() {
					clear(stored)
					var l usage.Ledger
					for i := range list {
						l.Add(&list[i])
					}
					stored.flush(b, &l)
				}
				size := 0
				for _, content := range stored {
					size += len(content)
				}
				b.ReportMetric(float64(size)/float64(len(stored)), "B/row")
			})
		}
	}
}

// busy returns requests of a preset for so many series.
func busy(r *rand.Rand, preset string, series, requests int, start time.Time) (list []usage.Request) {
	for i := range requests {
		n := i % series
		list = append(list, usage.Request{
			WorkspaceID: "w", PresetID: preset, Preset: "preset-" + preset, Version: 1 + n%4, Label: "production",
			Asked: fmt.Sprint("openai/gpt-5-mini-", n/4), KeyID: "7f8a2f0c-9c2b-4f53-b06c-0a3bd1c3b8a1", Status: 200,
			Start: start, Duration: time.Duration(r.ExpFloat64() * 3e9), FirstContent: time.Duration(r.ExpFloat64() * 3e8),
			Tokens: answer.Tokens{Input: r.Int64N(5000), Output: r.Int64N(500)}, HasCost: true, Cost: decimal.New(r.Int64N(1e6), -9),
		})
	}
	return list
}

// BenchmarkMonth answers a month by day. The rows are in memory.
func BenchmarkMonth(b *testing.B) {
	for _, bench := range []struct {
		presets, series, requests int
	}{{1, 20, 2000}, {1000, 1, 30}, {1000, 4, 100}} {
		r := rand.New(rand.NewPCG(19, 20))
		var list []domain.UsageRow
		size := 0
		for preset := range bench.presets {
			for day := range 30 {
				var l usage.Ledger
				for _, one := range busy(r, fmt.Sprint(preset), bench.series, bench.requests, now.AddDate(0, 0, -day)) {
					l.Add(&one)
				}
				taken, err := l.Take(rows{}.read)
				if err != nil {
					b.Fatal(err)
				}
				list = append(list, taken[1])
				size += len(taken[1].Content)
			}
		}
		for _, by := range []string{"preset", "version", "model"} {
			b.Run(fmt.Sprintf("%d presets of %d series by %s", bench.presets, bench.series, by), func(b *testing.B) {
				given := url.Values{"step": {"day"}, "by": {by}, "from": {now.AddDate(0, 0, -29).Format(time.RFC3339)}}
				scope := usage.OfPreset
				if bench.presets > 1 || by == "preset" {
					scope = usage.OfWorkspace
				}
				q, err := usage.ReadQuery(given, scope, now)
				if err != nil {
					b.Fatal(err)
				}
				var report usage.Report
				b.ReportAllocs()
				for b.Loop() {
					if report, err = q.Collect(each(list)); err != nil {
						b.Skip(err)
					}
				}
				b.ReportMetric(float64(size/len(list)), "bytes/row")
				_ = report
			})
		}
		b.Run(fmt.Sprintf("JSON of %d presets", bench.presets), func(b *testing.B) {
			q, err := usage.ReadQuery(url.Values{"step": {"day"}, "by": {"preset"}, "from": {now.AddDate(0, 0, -29).Format(time.RFC3339)}}, usage.OfWorkspace, now)
			if err != nil {
				b.Fatal(err)
			}
			report, err := q.Collect(each(list))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				b.SetBytes(int64(len(report.JSON())))
			}
		})
	}
}

// each returns rows as an engine does.
func each(list []domain.UsageRow) iter.Seq2[domain.UsageRow, error] {
	return func(yield func(domain.UsageRow, error) bool) {
		for _, row := range list {
			if !yield(row, nil) {
				return
			}
		}
	}
}
