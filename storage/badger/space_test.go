package badger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// disk is a file system whose free space a test decides on.
type disk struct {
	free   atomic.Uint64
	fails  atomic.Bool
	folder string
}

func (d *disk) freeOf(string) (uint64, error) {
	if d.fails.Load() {
		return 0, errDeliberate
	}
	return d.free.Load(), nil
}

// ballast returns the size of the ballast file, -1 for none.
func (d *disk) ballast() int64 {
	info, err := os.Stat(filepath.Join(d.folder, ballastName))
	if err != nil {
		return -1
	}
	return info.Size()
}

func canAllocate(t *testing.T) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := allocate(file, ballastSize); err != nil {
		t.Skipf("this file system has no ballast, or no room for one: %v", err)
	}
}

// TestBallast is made when there is ample space, given up for a revocation, and comes back before
// anyone else writes.
func TestBallast(t *testing.T) {
	canAllocate(t)
	synctest.Test(t, testBallast)
}

func testBallast(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	d := &disk{folder: t.TempDir()}
	g := newGuard(d.folder, d.freeOf, zap.New(core))
	writable := func(want bool) {
		t.Helper()
		if err := g.checkWritesAllowed(); (err == nil) != want || err != nil && !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("with %d MiB and a ballast of %d: got %v, want a write to pass: %v", d.free.Load()>>20, d.ballast(), err, want)
		}
	}
	d.free.Store(2*minFree + ballastSize - 1)
	g.refresh(true)
	if got := d.ballast(); got != -1 {
		t.Errorf("on a small disk: got a ballast of %d bytes, want none", got)
	}
	d.free.Store(2*minFree + ballastSize)
	g.refresh(false)
	if got := d.ballast(); got != -1 {
		t.Errorf("too early: got a ballast of %d bytes, want none", got)
	}
	g.refresh(true)
	if got := d.ballast(); got != ballastSize {
		t.Fatalf("got a ballast of %d bytes, want %d", got, ballastSize)
	}
	d.free.Store(minFree)
	writable(true)
	d.free.Store(minFree - 1)
	writable(false)
	d.free.Store(0)
	g.refresh(true)
	if got := d.ballast(); got != ballastSize {
		t.Errorf("on a full disk: got a ballast of %d bytes, want all", got)
	}
	if err := g.useReserve(); !errors.Is(err, ErrDiskFull) || d.ballast() != 0 { // another program took the space
		t.Errorf("for a revocation: got %v and a ballast of %d bytes, want a full disk and none", err, d.ballast())
	}
	d.free.Store(minFree + ballastSize - 1) // the ballast is a part of it
	writable(false)
	d.free.Store(minFree + ballastSize)
	writable(true)
	time.Sleep(quietTime) // of the bubble's clock
	writable(true)
	again := newGuard(d.folder, d.freeOf, zap.NewNop()) // as after a restart
	if again.ballastDebt.Load() != ballastSize {
		t.Error("a restart forgets that the ballast is to be had again")
	}
	g.refresh(true)
	if got := d.ballast(); got != ballastSize || g.ballastDebt.Load() != 0 {
		t.Errorf("with space again: got a ballast of %d bytes and %d owed, want %d and none", got, g.ballastDebt.Load(), ballastSize)
	}
	var told []string
	for _, entry := range logs.All() {
		told = append(told, entry.Level.String()+" "+strings.SplitN(entry.Message, ":", 2)[0])
	}
	want := []string{
		"error writes are refused", "warn the disk is full", "warn writes are accepted again",
	}
	if got := strings.Join(told, "; "); got != strings.Join(want, "; ") {
		t.Errorf("got %s\nwant %s", got, strings.Join(want, "; "))
	}
}

// TestFullDisk opens and closes a store on a disk that is full apart from its ballast.
func TestFullDisk(t *testing.T) {
	canAllocate(t)
	d := &disk{folder: t.TempDir()}
	d.free.Store(1 << 40)
	open := func() (*Store, error) { return openFolder(d.folder, Options{}, d.freeOf) }
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	s.guard.refresh(true)
	d.free.Store(0)
	if s.Status().Writable {
		t.Error("a store on a full disk is writable")
	}
	// The writes in memory cannot be flushed, so no write is accepted until there is space.
	if err := s.Close(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("closing: got %v, want ErrDiskFull", err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opening what is not closed: got %v, want that it is in use", err)
	}
	d.free.Store(minFree)
	wait.Until(t, "closed", func() bool {
		s, err = open()
		return err == nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.free.Store(minFree - 1)
	if _, err := open(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("opening: got %v, want ErrDiskFull", err)
	}
	d.free.Store(minFree)
	if s, err = open(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := workspace(s, "before"); err != nil {
		t.Error(err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("after"))); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a write that would take the ballast's space: got %v, want ErrDiskFull", err)
	}
}

// TestStoreHoldsCompactions checks that the log of an open store blocks the creation of a
// table while that would fail. The store reports that.
func TestStoreHoldsCompactions(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	d := &disk{folder: t.TempDir()}
	d.free.Store(1 << 40)
	s, err := openFolder(d.folder, Options{Logger: zap.New(core)}, d.freeOf)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d.free.Store(flushSpace - 1)
	done := make(chan struct{})
	go func() {
		s.db.Opts().Logger.Debugf(tableFollows + "%d keys")
		close(done)
	}()
	wait.Until(t, "held", func() bool { return s.guard.heldCompactions.Load() > 0 })
	if s.Status().Writable {
		t.Error("a store whose compaction is held is writable")
	}
	d.free.Store(1 << 40)
	<-done
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil || !s.Status().Writable {
		t.Errorf("afterwards: %v, writable: %v", err, s.Status().Writable)
	}
	for _, want := range []string{"a compaction is held", "a compaction goes on"} {
		if logs.FilterMessageSnippet(want).Len() != 1 {
			t.Errorf("%q is not logged once", want)
		}
	}
}
