package live

import "testing"

// TestShared has a user of a store's shared value that goes on after the last use has ended.
// A later use of the store must not make a second value.
func TestShared(t *testing.T) {
	made := 0
	create := func() any { made++; return new(int) }
	first, second := new(Use), new(Use)
	store := Add(t.Name(), first)
	kept := store.Shared(create)
	if err := store.Remove(first); err != nil {
		t.Fatal(err)
	}
	again := Add(t.Name(), second)
	if again == store || again.Shared(create) != kept || made != 1 {
		t.Errorf("%d values were made, want the first one again, from another Store", made)
	}
	other := Add(t.Name()+"-other", new(Use))
	if other.Shared(create) == kept {
		t.Error("another store has the same value")
	}
	for store, u := range map[*Store]*Use{again: second, other: other.Newest()} {
		if err := store.Remove(u); err != nil {
			t.Error(err)
		}
	}
}
