package badger

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// TestRetryAfterARestore interrupts the restore of a backup into a store without a marker.
// A retry makes no new store of the remaining files.
func TestRetryAfterARestore(t *testing.T) {
	marker := func(folder string) string { return filepath.Join(folder, badgerstore.MarkerName) }
	folder := closedStore(t)
	if err := os.Remove(marker(folder)); err != nil {
		t.Fatal(err)
	}
	f := newFolder(folder)
	_, why := f.Open(t.Context())
	if !errors.Is(why, badgerstore.ErrDamaged) {
		t.Fatalf("got error %v, want that it is damaged", why)
	}
	now := time.Now()
	f.now = func() time.Time { return now }
	retry := func() {
		t.Helper()
		now = now.Add(time.Hour)
		if _, why = f.Retry(t.Context(), why); why == nil {
			t.Fatal("a store was opened")
		}
	}
	retry()
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	retry()
	restoring := []byte(`{"format":1,"id":"x","state":"restoring"}`)
	sum := crc32.Checksum(restoring, crc32.MakeTable(crc32.Castagnoli))
	if err := os.WriteFile(marker(folder), fmt.Appendf(restoring, "\n%08x\n", sum), 0o600); err != nil {
		t.Fatal(err)
	}
	retry()
	if errors.Is(why, badgerstore.ErrDamaged) {
		t.Fatalf("got %v, want another reason", why)
	}
	if err := os.Remove(marker(folder)); err != nil {
		t.Fatal(err)
	}
	retry()
	if f.isStore() {
		t.Error("a new store was made")
	}
}

// TestRetryBehindALink checks a folder behind a link. The file system with its store may
// not be mounted yet.
func TestRetryBehindALink(t *testing.T) {
	target, link := filepath.Join(t.TempDir(), "unmounted"), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err) // Windows does not let every user do this
	}
	for _, folder := range []string{link, filepath.Join(link, "store")} {
		f := newFolder(folder)
		_, why := f.Open(t.Context())
		if !errors.Is(why, domain.ErrUnavailable) {
			t.Fatalf("%s: got error %v, want that it is not there", folder, why)
		}
		if err := os.Mkdir(target, 0o700); err != nil {
			t.Fatal(err)
		}
		_, why = f.Retry(t.Context(), why)
		if entries, err := os.ReadDir(target); err != nil || len(entries) > 0 || why == nil {
			t.Errorf("%s: got %v, %v, want nothing in the folder", folder, entries, err)
		}
		if err := os.Remove(target); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRetryOfANewStore checks that a retry makes a new store only if there was none at the
// start.
func TestRetryOfANewStore(t *testing.T) {
	for _, tc := range []struct {
		name string
		new  bool
		why  error
		want bool
	}{
		{"none at the start", true, badgerstore.ErrDiskFull, true},
		{"none, for another reason", true, os.ErrPermission, true},
		{"its marker was lost", true, badgerstore.ErrDamaged, false},
		{"moved away on a full disk", false, badgerstore.ErrDiskFull, false},
		{"moved away", false, os.ErrPermission, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFolder(filepath.Join(t.TempDir(), "store"))
			f.retries.mayBeNew = tc.new
			store, err := f.Retry(t.Context(), tc.why)
			if made := f.isStore(); made != tc.want {
				t.Errorf("a store was made: %t, want %t", made, tc.want)
			}
			if err == nil {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestChecksDue(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		checked  bool
		interval time.Duration
		want     time.Duration // after the last; negative for never
	}{
		{false, day, time.Hour},
		{false, 10 * time.Minute, time.Minute},
		{true, day, day},
		{false, -1, -1},
		{true, -1, -1},
	} {
		last := time.Now()
		c := checkState{last: last, checked: tc.checked}
		if tc.want < 0 {
			if c.isDue(last.Add(1000*day), tc.interval) {
				t.Errorf("%+v: a check is due, though checks are off", tc)
			}
			continue
		}
		if !c.isDue(last.Add(tc.want), tc.interval) || c.isDue(last.Add(tc.want-1), tc.interval) {
			t.Errorf("%+v: it is not due just then", tc)
		}
	}
}

// TestRequestAfterTheEnd checks that a cancelled request does not open a folder that no
// configuration uses.
func TestRequestAfterTheEnd(t *testing.T) {
	l := newStore(settings{folder: caddytest.Folder(t), logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.View(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that its context has ended", err)
	}
	if _, err := os.Stat(l.Settings.folder); err == nil {
		t.Error("the folder was opened")
	}
}

// TestNoNewStoreAfterTheEnd moves a folder away once its configuration has ended. A late request
// makes no new store there, and finds the old one when it is back.
func TestNoNewStoreAfterTheEnd(t *testing.T) {
	l := newStore(settings{folder: caddytest.Folder(t), logger: zap.NewNop()})
	if _, err := l.Acquire(); err != nil {
		t.Fatal(err)
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	folder, away := l.Settings.folder, filepath.Join(t.TempDir(), "away")
	if err := os.Rename(folder, away); err != nil {
		t.Fatal(err)
	}
	view := func() error { return l.View(t.Context(), func(domain.Reader) error { return nil }) }
	if err := view(); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("got %v, want that the store is unavailable", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that nothing is there", err)
	}
	if err := os.Rename(away, folder); err != nil {
		t.Fatal(err)
	}
	if err := view(); err != nil {
		t.Error(err)
	}
}

// closedStore makes a store and closes it.
func closedStore(t *testing.T) (folder string) {
	t.Helper()
	folder = caddytest.Folder(t)
	store, err := badgerstore.Open(folder, badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestRetries checks that attempts become rare.
func TestRetries(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	folder := closedStore(t)
	holder, err := badgerstore.Open(folder, badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFolder(folder)
	f.newest = func() *settings { return &settings{logger: zap.New(core)} }
	f.retries.pause = storepool.RetryInterval
	var store *badgerstore.Store
	why := badgerstore.ErrDiskFull
	now, a := time.Now(), &f.retries
	f.now = func() time.Time { return now }
	try := func() (tried bool) {
		before := a.next
		store, why = f.Retry(t.Context(), why)
		return why == nil || !a.next.Equal(before)
	}
	var pauses []time.Duration
	for range 12 {
		if !try() {
			t.Fatal("it is not tried when its time has come")
		}
		pauses = append(pauses, a.pause)
		if now = now.Add(a.pause - 1); try() {
			t.Fatal("it is tried before its time")
		}
		now = a.next
	}
	if pauses[0] != 2*storepool.RetryInterval || pauses[1] != 4*storepool.RetryInterval || slices.Max(pauses) != maxRetryPause || pauses[11] != maxRetryPause {
		t.Errorf("got pauses %v, want that they double up to %v", pauses, maxRetryPause)
	}
	if n := logs.FilterMessageSnippet("still cannot").Len(); n != 12 {
		t.Errorf("got %d lines, want one for each attempt", n)
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	if !try() || why != nil {
		t.Fatalf("it is not open: %v", why)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestStampsWithoutAStore checks that stamps are never valid without an open store.
func TestStampsWithoutAStore(t *testing.T) {
	folder := closedStore(t)
	if err := os.WriteFile(filepath.Join(folder, badgerstore.MarkerName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newStore(settings{folder: folder, logger: zap.NewNop()})
	check := func(when string) {
		t.Helper()
		if stamp := l.Stamps().Workspaces(); stamp != 0 {
			t.Errorf("%s: got stamp %d, want 0, which is never valid", when, stamp)
		}
	}
	check("without users")
	if _, err := l.Acquire(); err != nil {
		t.Fatal(err)
	}
	check("with a user")
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// newFolder returns a folder that no configuration uses any more.
func newFolder(name string) *folder {
	return &folder{name: name, newest: func() *settings { return nil }, now: time.Now}
}
