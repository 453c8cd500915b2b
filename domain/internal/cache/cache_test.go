package cache

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// The values cost at most the limit, and each value is the last one put.
func TestCache(t *testing.T) {
	c := New[int, string](NewBudget(1600))
	cost := func() (sum int) {
		for _, e := range c.kept {
			sum += e.cost
		}
		return sum
	}
	for i := range 1000 {
		key, stamp := i%50, Stamp(1+i/200)
		c.Put(key, stamp, fmt.Sprint(i), 1+i%100)
		if got, ok := c.Get(key, stamp+1); ok {
			t.Fatalf("%d: got %s under another stamp", i, got)
		}
		if c.cost != cost() || c.cost > c.budget.limit {
			t.Fatalf("%d: the cost is %d, and is thought to be %d of %d", i, cost(), c.cost, c.budget.limit)
		}
	}
	if len(c.kept) < 10 {
		t.Errorf("only %d are kept", len(c.kept))
	}
	c.Put(7, 9, "large", 401)
	if got, ok := c.Get(7, 9); ok {
		t.Errorf("got %s, which is too large to be kept", got)
	}
}

func TestChange(t *testing.T) {
	c := New[int, []int](NewBudget(1 << 10))
	add := func(n int) func(*[]int) bool {
		return func(v *[]int) bool {
			*v = append(slices.Clip(*v), n)
			return n > 0
		}
	}
	if c.Change(1, add(1)) {
		t.Error("something is changed that is not there")
	}
	c.Put(1, 1, nil, 1)
	if !c.Change(1, add(1)) || c.Change(1, add(0)) || !c.Change(1, add(2)) {
		t.Error("a change is not told as it was")
	}
	c.Put(1, 1, []int{3}, 1) // as read before the change
	if got, _ := c.Get(1, 1); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v, want 1 and 2", got)
	}
	c.Put(1, 2, []int{3}, 1)
	if got, _ := c.Get(1, 2); !slices.Equal(got, []int{3}) {
		t.Errorf("got %v, want 3", got)
	}
}

// Values that are asked for stay while others come and go.
func TestSecondChance(t *testing.T) {
	c := New[int, int](NewBudget(100))
	for i := range 10 {
		c.Put(i, 1, i, 1)
	}
	for i := 10; i < 10_000; i++ {
		c.Put(i, 1, i, 1)
		for often := range 10 {
			if _, ok := c.Get(often, 1); !ok {
				t.Fatalf("%d is gone after %d others", often, i)
			}
		}
	}
}

// Readers cannot keep a writer busy: room is made at once, although all values are in use.
func TestRoomIsMadeAtOnce(t *testing.T) {
	c := New[int, int](NewBudget(100))
	for i := range 10 {
		c.Put(i, 1, i, 10)
		c.Get(i, 1)
	}
	if c.evict(25); c.cost != 70 || c.budget.cost.Load() != 70 {
		t.Errorf("%d are in use, and are thought to be %d, want 70", c.cost, c.budget.cost.Load())
	}
}

func TestCopyFrom(t *testing.T) {
	from, to := New[int, int](NewBudget(100)), New[int, int](NewBudget(50))
	for i := range 80 {
		from.Put(i, 1, i, 1)
	}
	to.Put(0, 2, 1000, 1)
	to.CopyFrom(from)
	if to.cost > 50 || len(to.kept) < 40 || len(from.kept) != 80 {
		t.Errorf("%d values cost %d, and %d are left", len(to.kept), to.cost, len(from.kept))
	}
	if _, ok := to.Get(79, 2); ok {
		t.Error("a value has another stamp than before")
	}
	from.Close()
	to.CopyFrom(from)
}

// Caches of one Budget take from each other. The one that has most gives.
func TestBudget(t *testing.T) {
	budget := NewBudget(1000)
	large, small := New[int, int](budget), New[int, string](budget)
	for i := range 150 {
		large.Put(i, 1, i, 10)
	}
	if large.cost != 1000 {
		t.Errorf("one cache has %d of 1000 alone", large.cost)
	}
	for i := range 30 {
		small.Put(i, 1, "", 10)
	}
	if small.cost != 300 || large.cost != 700 {
		t.Errorf("got costs of %d and %d, want 300 and 700", small.cost, large.cost)
	}
	for i := range 150 {
		small.Put(i, 2, "", 10)
	}
	if small.cost < 490 || large.cost < 490 || budget.cost.Load() != 1000 {
		t.Errorf("got costs of %d and %d of %d, want a half each", small.cost, large.cost, budget.cost.Load())
	}
	large.Close()
	large.Put(1, 1, 1, 10)
	if budget.cost.Load() != int64(small.cost) {
		t.Errorf("%d are in use after Close, want %d", budget.cost.Load(), small.cost)
	}
}

// Concurrent callers keep the limit.
func TestBudgetConcurrently(t *testing.T) {
	budget := NewBudget(1000)
	var all sync.WaitGroup
	for range 4 {
		c := New[int, int](budget)
		for g := range 4 {
			all.Go(func() {
				for i := range 2000 {
					c.Put(i%100*(g+1), Stamp(1+i/100), i, 1+i%250)
					c.Get(i%100, Stamp(1+i/100))
				}
			})
		}
	}
	all.Wait()
	sum := 0
	for _, m := range budget.caches {
		sum += m.size()
	}
	if sum > 1000 || int64(sum) != budget.cost.Load() {
		t.Errorf("%d are in use, and are thought to be %d", sum, budget.cost.Load())
	}
}
