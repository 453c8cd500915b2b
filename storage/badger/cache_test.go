package badger

import (
	"bytes"
	"testing"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// TestCacheSize checks that the caches of an encrypted store have their given size, also while
// the store is open. Another store has none.
func TestCacheSize(t *testing.T) {
	o := testOptions
	o.EncryptionKey, o.CacheSize = bytes.Repeat([]byte{1}, KeySize), 8<<20
	s, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(blocks, indexes int64) {
		t.Helper()
		gotBlocks, _ := s.db.CacheMaxCost(badgerdb.BlockCache, -1)
		gotIndexes, _ := s.db.CacheMaxCost(badgerdb.IndexCache, -1)
		if gotBlocks != blocks || gotIndexes != indexes {
			t.Errorf("got %d bytes of blocks and %d of indexes, want %d and %d", gotBlocks, gotIndexes, blocks, indexes)
		}
	}
	check(6<<20, 2<<20)
	s.SetCacheSize(0)
	check(18<<20, 6<<20)
	s.SetCacheSize(1)
	check(768<<10, 256<<10)

	plain := mustOpen(t, t.TempDir())
	plain.SetCacheSize(8 << 20) // must not touch caches that are not there
	if size := plain.db.Opts().BlockCacheSize; size != 0 {
		t.Errorf("a store without encryption has a cache of %d bytes", size)
	}
}
