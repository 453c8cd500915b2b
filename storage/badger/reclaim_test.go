package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// addVersions stores versions of a preset in the default workspace, of some 32 KiB each.
func addVersions(t *testing.T, s *Store, slug string, n int) {
	t.Helper()
	service := domain.NewService(s)
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		config := fmt.Sprintf(`{"model":"%d%s"}`, i, strings.Repeat("m", 32<<10))
		if _, err := service.CreatePresetVersion(t.Context(), by(""), "", slug, domain.Capture{Dialect: domain.Chat, Config: []byte(config)}); err != nil {
			t.Fatal(err)
		}
	}
}

func prune(t *testing.T, s *Store, keep int) {
	t.Helper()
	pruned, err := domain.NewService(s).PruneVersions(t.Context(), by(""), domain.Pruning{Keep: keep})
	if err != nil || len(pruned) == 0 {
		t.Fatalf("pruned %v, %v", pruned, err)
	}
}

// tablesOnDisk returns the size of all tables in the folder of a store.
func tablesOnDisk(t *testing.T, s *Store) (size int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.guard.folder, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

func mustReclaim(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A prune of a tenth of the store gives the disk space back, and nothing else goes.
func TestReclaim(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	folder := t.TempDir()
	s := mustOpen(t, folder)
	addVersions(t, s, "p", 750)
	if err := s.Close(); err != nil { // which writes all of it to tables of one level
		t.Fatal(err)
	}
	s = mustOpen(t, folder)
	before := tablesOnDisk(t, s)
	if s.ShouldReclaim(time.Now().Add(24 * time.Hour)) {
		t.Error("it is due though nothing was removed")
	}
	for range 2 {
		prune(t, s, 650)
		if got := tablesOnDisk(t, s); got < before {
			t.Fatalf("the tables have %d of %d bytes already", got, before)
		}
		if s.ShouldReclaim(time.Now().Add(10 * time.Second)) {
			t.Error("it is due while versions may still be removed")
		}
		if !s.ShouldReclaim(time.Now().Add(time.Hour)) {
			t.Error("it is not due within the hour, after a prune of a tenth")
		}
		mustReclaim(t, s)
		after := tablesOnDisk(t, s)
		t.Logf("the tables had %d bytes, and have %d", before, after)
		if after > before*90/100 {
			t.Errorf("after a prune of 13 %% the tables have %d of %d bytes", after, before)
		}
		if s.ShouldReclaim(time.Now().Add(24 * time.Hour)) {
			t.Error("it is due again")
		}
		report, err := s.Check(t.Context())
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("got %v, %v", report, err)
		}
		addVersions(t, s, "p", 100)
		mustReclaim(t, s)
		before = tablesOnDisk(t, s)
	}
	if records := len(recordsOf(t, s, 'r')); records > 0 {
		t.Errorf("%d records of the padding can be read", records)
	}
}

// It ends with its context and with the store, between two compactions, and the store
// is as good as before.
func TestReclaimEnds(t *testing.T) {
	tier.Race(t)
	t.Parallel()
	folder := t.TempDir()
	s := mustOpen(t, folder)
	addVersions(t, s, "p", 100)
	mustReclaim(t, s)
	addVersions(t, s, "p", 100)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Reclaim(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that its time is over", err)
	}
	if err := s.flushToTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.flatten(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that its time is over", err)
	}
	if levels := s.db.Levels(); levels[0].NumTables == 0 {
		t.Error("a compaction was begun")
	}
	addVersions(t, s, "p", 1)

	// Close, once it is compacting.
	closed, stepping := make(chan error, 1), make(chan error, 1)
	go func() { stepping <- s.Reclaim(t.Context()) }()
	eventually(t, "compacting", func() bool { return s.guard.step.Load() != nil })
	go func() { closed <- s.Close() }()
	if err := <-stepping; err != nil && !errors.Is(err, domain.ErrClosed) {
		t.Errorf("got %v, want that the store is closed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Reclaim(t.Context()); !errors.Is(err, domain.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
	s = mustOpen(t, folder)
	report, err := s.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("got %v, %v", report, err)
	}
	mustReclaim(t, s)
}

// TestReclaimFails checks that an error is not hidden because the time is over, too.
func TestReclaimFails(t *testing.T) {
	d := &disk{folder: t.TempDir()}
	d.free.Store(1 << 40)
	s, err := openFolder(d.folder, testOptions, d.freeOf)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	d.fails.Store(true)
	if err := s.Reclaim(ended); !errors.Is(err, errDeliberate) {
		t.Errorf("got %v, want %v", err, errDeliberate)
	}
}

// TestRemovalOfDamaged removes a version whose block makes Badger panic. Only its size is read.
func TestRemovalOfDamaged(t *testing.T) {
	if len(testOptions.EncryptionKey) > 0 {
		t.Skip("the test damages blocks that are not encrypted")
	}
	t.Parallel()
	folder := t.TempDir()
	s := mustOpen(t, folder)
	addVersions(t, s, "p", 3)
	if err := s.Close(); err != nil { // which writes them to a table
		t.Fatal(err)
	}
	s = mustOpen(t, folder)
	tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("got tables %v, %v, want one", tables, err)
	}
	content := readFile(t, tables[0])
	blocks, _, err := (&wreckTable{data: content}).index()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(blocks, func(b blockPlace) bool { return b.first.Kind() == records.KindVersion })
	begin := int64(blocks[at].offset)
	patch(t, tables[0], begin, bytes.Repeat([]byte{0xff}, entryHeader))
	defer patch(t, tables[0], begin, content[begin:][:entryHeader]) // or the compaction of Close would panic
	_, err = domain.NewService(s).PresetVersion(t.Context(), domain.Principal{}, "", "p", 1)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "panic") {
		t.Fatalf("a read: got error %v, want that of a panic", err)
	}
	prune(t, s, 1)
}

func TestRemovals(t *testing.T) {
	start := time.Unix(1e9, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	const size = 100 << 20
	var r removals
	r.add(size/20, at(0))
	if r.due(at(time.Hour), size) {
		t.Error("a twentieth is due")
	}
	r.add(size/20, at(time.Second))
	for d, want := range map[time.Duration]bool{2 * time.Second: false, time.Minute: false, time.Minute + time.Second: true} {
		if got := r.due(at(d), size); got != want {
			t.Errorf("after %s: due: %t", d, got)
		}
	}
	for d := 2 * time.Second; d < reclaimLatest; d += time.Second {
		r.add(1, at(d))
	}
	if r.due(at(reclaimLatest-time.Second), size) || !r.due(at(reclaimLatest), size) {
		t.Error("a prune that goes on is not due when it has taken long")
	}
	if got := r.take(at(reclaimLatest)); got < size/10 {
		t.Errorf("got %d bytes", got)
	}
	r.add(size, at(reclaimLatest))
	if r.due(at(reclaimLatest+reclaimInterval-time.Second), size) || !r.due(at(reclaimLatest+reclaimInterval), size) {
		t.Error("it is not due again after the interval")
	}
	var small removals
	small.add(minReclaim-1, at(0))
	if small.due(at(time.Hour), 0) {
		t.Error("less than the least is due")
	}
}

// TestRest checks that a Reclaim does not rest while writes are held back, and that it ends with its
// context.
func TestRest(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	s.guard.stop() // it would count the tables
	s.guard.levelZero.Store(slowTables)
	s.rest(t.Context(), time.Hour)
	s.guard.levelZero.Store(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := guarded(func() error {
		s.rest(ctx, time.Hour)
		return nil
	})
	if p, ok := errors.AsType[*panicError](err); !ok || p.value != any(flattenEnded{}) {
		t.Errorf("got %v, want the end of Flatten", err)
	}
}
