package domain

import (
	"fmt"
	"slices"
	"testing"
)

// What is kept stays within the bound, and each of it is what was put last.
func TestKnown(t *testing.T) {
	k := known[int, string]{limit: 1600}
	cost := func() (sum int) {
		for _, kept := range k.kept {
			sum += kept.cost
		}
		return sum
	}
	for i := range 1000 {
		key, stamp := i%50, Stamp(1+i/200)
		k.put(key, stamp, fmt.Sprint(i), 1+i%100)
		if got, ok := k.get(key, stamp); !ok {
			t.Fatalf("%d: what was just put is not there", i)
		} else if _, ok := k.get(key, stamp+1); ok {
			t.Fatalf("%d: got %s under another stamp", i, got)
		}
		if k.cost != cost() || k.cost > k.limit {
			t.Fatalf("%d: the cost is %d, and is thought to be %d of %d", i, cost(), k.cost, k.limit)
		}
	}
	if len(k.kept) < 10 {
		t.Errorf("only %d are kept", len(k.kept))
	}
	k.put(7, 9, "large", 101)
	if got, ok := k.get(7, 9); ok {
		t.Errorf("got %s, which is too large to be kept", got)
	}
}

func TestKnownChanges(t *testing.T) {
	k := known[int, []int]{limit: 1 << 10}
	add := func(n int) func(*[]int) bool {
		return func(v *[]int) bool {
			*v = append(slices.Clip(*v), n)
			return n > 0
		}
	}
	if k.change(1, add(1)) {
		t.Error("something is changed that is not there")
	}
	k.put(1, 1, nil, 1)
	if !k.change(1, add(1)) || k.change(1, add(0)) || !k.change(1, add(2)) {
		t.Error("a change is not told as it was")
	}
	k.put(1, 1, []int{3}, 1) // as read before the change
	if got, _ := k.get(1, 1); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v, want 1 and 2", got)
	}
	k.put(1, 2, []int{3}, 1)
	if got, _ := k.get(1, 2); !slices.Equal(got, []int{3}) {
		t.Errorf("got %v, want 3", got)
	}
}
