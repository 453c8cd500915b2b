package inference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

const splitPreset = "0b5d1f2e-8f0e-4c1e-9a53-3f6b0a4c7d11"

// sessions are ids as clients have them: some that differ little, some that
// differ much.
func sessions(n int) []stickyID {
	g := rand.New(rand.NewPCG(1, 2))
	ids := make([]stickyID, n)
	for i := range ids {
		switch i % 3 {
		case 0:
			ids[i] = newStickyID(fmt.Sprint("session-", i), "k")
		case 1:
			ids[i] = newStickyID(fmt.Sprintf("%016x%016x", g.Uint64(), g.Uint64()), "k")
		case 2:
			ids[i] = newStickyID("", fmt.Sprint("config-inference-", i))
		}
	}
	return ids
}

func serveAll(split []domain.Share, ids []stickyID) []int {
	served := make([]int, len(ids))
	for i, id := range ids {
		served[i] = pickVersion(domain.Target{Split: split}, splitPreset, "staging", id)
	}
	return served
}

// near reports whether a count out of n agrees with a probability, within five standard
// deviations.
func near(count, n int, probability float64) bool {
	mean := float64(n) * probability
	return math.Abs(float64(count)-mean) <= 5*math.Sqrt(mean*(1-probability))
}

func count(served []int, version int) (n int) {
	for _, v := range served {
		if v == version {
			n++
		}
	}
	return n
}

func TestSplitsGiveEachVersionItsShare(t *testing.T) {
	tier.Slow(t)
	ids := sessions(60000)
	for _, split := range [][]domain.Share{
		{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}},
		{{Version: 1, Weight: 90}, {Version: 2, Weight: 10}},
		{{Version: 5, Weight: 9999}, {Version: 4, Weight: 1}},
		{{Version: 1, Weight: 10000}, {Version: 2, Weight: 10000}, {Version: 3, Weight: 10000}},
		{{Version: 7, Weight: 5}, {Version: 3, Weight: 3}, {Version: 12, Weight: 2}, {Version: 1, Weight: 0}},
		{{Version: 1, Weight: 0}, {Version: 2, Weight: 1}},
		{{Version: 9, Weight: 1}},
		{{Version: 1, Weight: 1}, {Version: 2, Weight: 2}, {Version: 3, Weight: 3}, {Version: 4, Weight: 4}, {Version: 5, Weight: 5}, {Version: 6, Weight: 6}, {Version: 7, Weight: 7}, {Version: 8, Weight: 8}, {Version: 9, Weight: 9}, {Version: 10, Weight: 10}, {Version: 11, Weight: 11}, {Version: 12, Weight: 12}, {Version: 13, Weight: 13}, {Version: 14, Weight: 14}, {Version: 15, Weight: 15}, {Version: 16, Weight: 16}},
	} {
		served, total, all := serveAll(split, ids), 0, 0
		for _, share := range split {
			total += share.Weight
		}
		for _, share := range split {
			got := count(served, share.Version)
			if all += got; !near(got, len(ids), float64(share.Weight)/float64(total)) {
				t.Errorf("%v: got version %d for %d of %d, want its share of %d of %d", split, share.Version, got, len(ids), share.Weight, total)
			}
		}
		if all != len(ids) {
			t.Errorf("%v: got others for %d of %d", split, len(ids)-all, len(ids))
		}
	}
}

// An id gets the same version on every server and in every release. The expected values are
// from an implementation in another language.
func TestSplitsAreTheSameEverywhere(t *testing.T) {
	ids := []stickyID{{'s', "a"}, {'s', "b"}, {'s', "c"}, {'s', "session-1"}, {'s', "session-2"}, {'s', "é"}, {'k', "a"}, {'k', "config-inference-1"}}
	for _, tc := range []struct {
		split []domain.Share
		want  []int
	}{
		{[]domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}, []int{1, 1, 2, 1, 1, 2, 1, 2}},
		{[]domain.Share{{Version: 1, Weight: 90}, {Version: 2, Weight: 10}}, []int{1, 1, 1, 1, 1, 1, 1, 2}},
		{[]domain.Share{{Version: 3, Weight: 5}, {Version: 7, Weight: 3}, {Version: 12, Weight: 2}}, []int{7, 3, 3, 3, 3, 3, 7, 3}},
	} {
		if got := serveAll(tc.split, ids); !slices.Equal(got, tc.want) {
			t.Errorf("%v: got %v, want %v", tc.split, got, tc.want)
		}
	}
	if got := pickVersion(domain.Target{Version: 4}, splitPreset, "staging", ids[0]); got != 4 {
		t.Errorf("got version %d of a label without a split, want 4", got)
	}
}

// A change of one weight moves ids only to or away from that version. It moves no more of
// them than the change of its share.
func TestSplitsMoveOnlyWhatMustMove(t *testing.T) {
	tier.Slow(t)
	ids := sessions(6000)
	g := rand.New(rand.NewPCG(3, 4))
	moves := 0
	for range 60 / tier.Sample(4) {
		split := make([]domain.Share, 2+g.IntN(5))
		for i := range split {
			split[i] = domain.Share{Version: i*3 + 1, Weight: 1 + g.IntN(100)}
		}
		before := serveAll(split, ids)

		changed := slices.Clone(split)
		g.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
		if !slices.Equal(serveAll(changed, ids), before) {
			t.Fatalf("%v: another order of it gives others", split)
		}
		for i := range changed {
			changed[i].Weight *= 100
		}
		if !slices.Equal(serveAll(changed, ids), before) {
			t.Fatalf("%v: weights that are the same among themselves give others", split)
		}

		i, total := g.IntN(len(changed)), 0
		for _, share := range changed {
			total += share.Weight
		}
		version, old := changed[i].Version, changed[i].Weight
		changed[i].Weight = []int{0, old / 2, old * 2, old * 50}[g.IntN(4)] // 0 is as if it were not there
		after := serveAll(changed, ids)
		moved := 0
		for j := range ids {
			if before[j] == after[j] {
				continue
			}
			moved++
			if grew := changed[i].Weight > old; grew && after[j] != version || !grew && before[j] != version {
				t.Fatalf("%v to %v: %v moved from %d to %d", split, changed, ids[j], before[j], after[j])
			}
		}
		share := float64(old) / float64(total)
		becomes := float64(changed[i].Weight) / float64(total-old+changed[i].Weight)
		if !near(moved, len(ids), math.Abs(becomes-share)) {
			t.Errorf("%v to %v: %d of %d moved, want %.3f of them", split, changed, moved, len(ids), math.Abs(becomes-share))
		}
		moves += moved
	}
	if moves == 0 {
		t.Error("nothing ever moved")
	}
}

// The version that an id gets from one label is independent of other labels, presets and
// kinds of ids.
func TestSplitsAreIndependent(t *testing.T) {
	tier.NoRace(t)
	split := domain.Target{Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}}
	const n = 20000
	for name, other := range map[string]func(id string) int{
		"label":   func(id string) int { return pickVersion(split, splitPreset, "other", stickyID{'s', id}) },
		"preset":  func(id string) int { return pickVersion(split, "p", "staging", stickyID{'s', id}) },
		"kind":    func(id string) int { return pickVersion(split, splitPreset, "staging", stickyID{'k', id}) },
		"no id":   func(string) int { return pickVersion(split, splitPreset, "staging", newStickyID("", "")) },
		"itself?": func(id string) int { return pickVersion(split, splitPreset, "staging", newStickyID(id, "k")) },
	} {
		same := 0
		for i := range n {
			id := fmt.Sprint("id-", i)
			if pickVersion(split, splitPreset, "staging", newStickyID(id, "k")) == other(id) {
				same++
			}
		}
		if name == "itself?" {
			if same != n {
				t.Errorf("got the same version for %d of %d sessions, want it for all", same, n)
			}
		} else if !near(same, n, 0.5) {
			t.Errorf("another %s: got the same version for %d of %d, want half", name, same, n)
		}
	}
}
