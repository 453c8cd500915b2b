package usage_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// TestFeedbackIsReplaced gives the same requests scores again and again, with flushes between.
// Reports show the last score of each.
func TestFeedbackIsReplaced(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, names := range []int{1, 3, 40} { // 40 do not all find room
		var l usage.Ledger
		stored := make(rows)
		type outcome struct {
			request, name int
		}
		ids := make([]usage.RequestID, 50)
		for i := range ids {
			ids[i] = usage.NewRequestID()
		}
		last := make(map[outcome]int) // in tenths
		for range 2000 {
			of := outcome{r.IntN(len(ids)), r.IntN(names)}
			tenths := r.IntN(21) - 10
			last[of] = tenths
			key := usage.Key{PresetID: "id", Preset: "greet", Version: 1 + of.request%2, StatusClass: 2}
			if r.IntN(2) == 0 {
				key.Model = "lab/model" // as of a session
			}
			l.AddFeedback(usage.Feedback{
				WorkspaceID: "w", Key: key, Start: now, Request: ids[of.request], Name: fmt.Sprint("n", of.name), Score: float64(tenths) / 10,
			})
			if r.IntN(100) == 0 {
				stored.flush(t, &l)
			}
		}
		stored.flush(t, &l)
		counts, sums := make(map[int]int64), make(map[int]float64) // by version
		for of, tenths := range last {
			counts[1+of.request%2]++
			sums[1+of.request%2] += float64(tenths) / 10
		}
		for _, step := range []string{"hour", "day"} {
			for _, s := range list(t, ask(t, usage.OfPreset, "step="+step, stored)) {
				var version int
				if _, err := fmt.Sscanf(string(s.Key), `{"version":%d}`, &version); err != nil {
					t.Fatal(err)
				}
				var count int64
				var sum float64
				for name, of := range s.Total.Feedback {
					mean, err := of.Mean.Float64()
					if err != nil || math.Abs(mean) > 1 || of.Count == 0 {
						t.Errorf("%d names: %s has the count %d and the mean %s, want some from -1 to 1", names, name, of.Count, of.Mean)
					}
					count += of.Count
					sum += mean * float64(of.Count)
				}
				if count != counts[version] || math.Abs(sum-sums[version]) > 0.001 || s.Total.Requests != 0 {
					t.Errorf("%d names, by %s, version %d: got %d scores of %g in all and %d requests, want %d of %g, and none",
						names, step, version, count, sum, s.Total.Requests, counts[version], sums[version])
				}
			}
		}
	}
}

// TestReplacedElsewhere replaces a score whose series was summed under other meanwhile.
func TestReplacedElsewhere(t *testing.T) {
	var l usage.Ledger
	stored := make(rows)
	id := usage.NewRequestID()
	give := func(id usage.RequestID, score float64) {
		t.Helper()
		key := usage.Key{PresetID: "id", Preset: "greet", Version: 1, Label: strings.Repeat("l", 250), StatusClass: 2}
		l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: key, Start: now, Request: id, Name: "n", Score: score})
		stored.flush(t, &l)
	}
	wants := func(other, own string) {
		t.Helper()
		for _, s := range list(t, ask(t, usage.OfPreset, "step=hour", stored)) {
			want, ok := map[string]string{`{"other":true}`: other, `{"version":1}`: own}[string(s.Key)]
			got := s.Total.Feedback["n"]
			if ok && fmt.Sprint(got.Count, " ", got.Mean) != want {
				t.Errorf("%s: got %d scores of %s, want %s", s.Key, got.Count, got.Mean, want)
			}
		}
	}
	give(id, -1)
	wants("", "1 -1")
	for i := range 3000 { // more than a row keeps apart
		l.Add(&usage.Request{
			WorkspaceID: "w", PresetID: "id", Preset: "greet", Version: 2, Label: fmt.Sprintf("%0100d", i), Start: now, FirstContent: -1,
		})
	}
	stored.flush(t, &l)
	wants("1 -1", "")
	give(id, 1)
	wants("1 -1", "0 ") // the difference has no score beside it
	give(usage.NewRequestID(), 1)
	wants("1 -1", "1 1")
}

// TestScoresAreForgotten replaces the latest scores, and counts others again.
func TestScoresAreForgotten(t *testing.T) {
	var l usage.Ledger
	key := usage.Key{PresetID: "id", Preset: "greet", Version: 1, StatusClass: 2}
	give := func(id usage.RequestID) {
		l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: key, Start: now, Request: id, Name: "n", Score: 1})
	}
	ids := make([]usage.RequestID, usage.MaxScores+1)
	for i := range ids {
		ids[i] = usage.NewRequestID()
		give(ids[i])
		give(ids[0]) // which stays among the latest
	}
	give(ids[0])
	give(ids[len(ids)-1])
	give(ids[1]) // made room for the last
	stored := make(rows)
	stored.flush(t, &l)
	got := list(t, ask(t, usage.OfPreset, "step=hour", stored))
	if want := int64(len(ids) + 1); len(got) != 1 || got[0].Total.Feedback["n"].Count != want {
		t.Errorf("got %+v, want %d scores: one again", got, want)
	}
}

// TestFeedbackAtOnce gives the same requests scores from many goroutines, while rows are
// taken. The last score of each counts, once.
func TestFeedbackAtOnce(t *testing.T) {
	var l usage.Ledger
	stored := make(rows)
	ids := []usage.RequestID{usage.NewRequestID(), usage.NewRequestID(), usage.NewRequestID()}
	key := usage.Key{PresetID: "id", Preset: "greet", Version: 1, StatusClass: 2}
	give := func(id usage.RequestID, score float64) {
		l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: key, Start: now, Request: id, Name: "n", Score: score})
	}
	var wait sync.WaitGroup
	for of := range 8 {
		wait.Go(func() {
			for i := range 300 {
				give(ids[i%len(ids)], float64((i*of)%21-10)/10)
			}
		})
	}
	for range 20 {
		stored.flush(t, &l)
	}
	wait.Wait()
	for _, id := range ids {
		give(id, 0.5)
	}
	stored.flush(t, &l)
	got := list(t, ask(t, usage.OfPreset, "step=day", stored))
	if len(got) != 1 || got[0].Total.Feedback["n"].Count != int64(len(ids)) || got[0].Total.Feedback["n"].Mean != "0.5" {
		t.Errorf("got %+v, want %d scores of 0.5", got, len(ids))
	}
}

// TestSessions remembers the latest request of each session.
func TestSessions(t *testing.T) {
	var s usage.Sessions
	of := func(version int, start time.Time) usage.Answered {
		return usage.Answered{ID: usage.NewRequestID(), Key: usage.Key{PresetID: "id", Version: version, Model: "lab/model"}, Start: start}
	}
	wants := func(presetID, session string, at time.Time, version int) {
		t.Helper()
		got, ok := s.Latest(presetID, session, at)
		if ok != (version > 0) || ok && got.Key.Version != version {
			t.Errorf("session %q of preset %q: got version %d, %v; want %d", session, presetID, got.Key.Version, ok, version)
		}
	}
	wants("id", "a", now, 0)
	s.Add("a", of(1, now))
	s.Add("a", of(2, now.Add(time.Second)))
	s.Add("a", of(3, now.Add(-time.Second))) // took longer
	s.Add("b", of(4, now))
	wants("id", "a", now, 2)
	wants("id", "b", now, 4)
	wants("other", "a", now, 0)
	wants("id", "", now, 0)
	wants("id", "a", now.Add(usage.FeedbackAge+time.Second), 2)
	wants("id", "a", now.Add(usage.FeedbackAge+2*time.Second), 0)
	for i := range usage.MaxSessions - 1 {
		s.Add(fmt.Sprint("s", i), of(5, now))
	}
	wants("id", "a", now, 0) // the oldest
	wants("id", "b", now, 4)
	wants("id", "s0", now, 5)
}
