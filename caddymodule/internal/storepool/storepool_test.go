package storepool

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// settings name the file to share and its user.
type settings struct{ path, who string }

// file is a store that cannot be opened while it is open.
type file struct {
	Engine   // which no test calls
	file     *os.File
	newest   func() *settings
	closedBy string
}

func (f *file) Close() error {
	f.closedBy = f.newest().who
	runtime.Gosched() // others may arrive meanwhile
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}

// opener opens a file.
type opener struct {
	settings settings
	newest   func() *settings
	before   func() // is called before the opening; optional
}

func (o *opener) Open(context.Context) (*file, error) {
	if o.before != nil {
		o.before()
	}
	f, err := os.OpenFile(o.settings.path, os.O_CREATE|os.O_EXCL, 0o600)
	return &file{file: f, newest: o.newest}, err
}

func (*opener) IsFatal(error) bool { return true }

func (*opener) Retry(_ context.Context, why error) (*file, error) { return nil, why }

func (*opener) Maintain(context.Context, *file) {}

type (
	pool  = Pool[settings, *file]
	store = Store[settings, *file]
)

func newPool() *pool {
	return &pool{Opener: func(s settings, newest func() *settings) Opener[*file] {
		return &opener{settings: s, newest: newest}
	}}
}

func ref(p *pool, path, who string) *store {
	return p.Store(path, settings{path, who})
}

func acquire(t *testing.T, l *store) *file {
	t.Helper()
	h, err := l.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	f, err := h.Get()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func release(t *testing.T, l *store) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func isOpen(f *file) bool {
	_, err := f.file.Stat()
	return err == nil
}

func wantInUse(t *testing.T, p *pool, want map[*file]int) {
	t.Helper()
	got := make(map[*file]int)
	for h, stores := range p.InUse() {
		f, _ := h.Get()
		got[f] = stores
	}
	if !maps.Equal(got, want) {
		t.Errorf("in use are %v, want %v", got, want)
	}
}

func TestReloads(t *testing.T) {
	p, dir := newPool(), t.TempDir()
	here, there := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	first, second, third := ref(p, here, "first"), ref(p, here, "second"), ref(p, there, "third")

	f := acquire(t, first)
	if same := acquire(t, second); same != f || f.newest().who != "second" {
		t.Errorf("the same key: got the same handle: %t, and the newest is %v", same == f, f.newest())
	}
	wantInUse(t, p, map[*file]int{f: 2})
	release(t, first)
	wantInUse(t, p, map[*file]int{f: 1})

	other := acquire(t, third)
	wantInUse(t, p, map[*file]int{f: 1, other: 1})
	_ = second.Use(t.Context(), func(*file) error {
		release(t, second) // the configuration ends before its request
		if wantInUse(t, p, map[*file]int{f: 1, other: 1}); !isOpen(f) {
			t.Error("it is closed under a request")
		}
		return nil
	})
	if isOpen(f) || f.closedBy != "second" || f.newest() != nil {
		t.Errorf("another key: the handle before is open: %t, its last user was %q, and now is %v", isOpen(f), f.closedBy, f.newest())
	}
	wantInUse(t, p, map[*file]int{other: 1})
	release(t, third)
	wantInUse(t, p, nil)
}

func TestReloadsThatFail(t *testing.T) {
	p, path := newPool(), filepath.Join(t.TempDir(), "f")
	unfit := errors.New("no stranger")
	p.Compatible = func(_, s settings) error {
		if s.who == "stranger" {
			return unfit
		}
		return nil
	}
	first := ref(p, path, "first")
	f := acquire(t, first)
	if _, err := ref(p, path, "stranger").Acquire(); !errors.Is(err, unfit) {
		t.Errorf("got %v, want that it does not fit", err)
	}
	missing := ref(p, filepath.Join(path, "x", "y"), "missing")
	if _, err := missing.Acquire(); err == nil || !strings.HasPrefix(err.Error(), "opening the store: ") {
		t.Errorf("got %v, want that it cannot be opened", err)
	}
	if missing.share.Load() != nil {
		t.Error("a store has what could not be opened")
	}
	if wantInUse(t, p, map[*file]int{f: 1}); f.newest().who != "first" {
		t.Errorf("the newest is %v, want the first", f.newest())
	}
	acquire(t, ref(p, path, "second"))
	wantInUse(t, p, map[*file]int{f: 2})
}

// TestLateRequests makes requests after the end of their configuration.
func TestLateRequests(t *testing.T) {
	p, path := newPool(), filepath.Join(t.TempDir(), "f")
	var told error
	p.OnCloseError = func(_ settings, err error) { told = err }
	l := ref(p, path, "late")
	var f *file
	failure := errors.New("of the call")
	use := func(ctx context.Context, before func()) error {
		return l.Use(ctx, func(opened *file) error {
			f = opened
			before()
			return failure
		})
	}
	if err := use(t.Context(), func() {}); !errors.Is(err, failure) || isOpen(f) || told != nil {
		t.Errorf("got %v and %v, and the handle is open: %t", err, told, isOpen(f))
	}
	if err := use(t.Context(), func() { os.Remove(path) }); !errors.Is(err, failure) || !errors.Is(told, fs.ErrNotExist) {
		t.Errorf("got %v and told %v, want the call's own error, and to be told that closing failed", err, told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f = nil
	if err := use(ctx, func() {}); !errors.Is(err, context.Canceled) || f != nil {
		t.Errorf("got %v, want that its time is over and nothing is opened", err)
	}
	wantInUse(t, p, nil)
}

// TestHold keeps a handle open after its configuration has ended.
func TestHold(t *testing.T) {
	p := newPool()
	s := ref(p, filepath.Join(t.TempDir(), "f"), "held")
	f := acquire(t, s)
	let, err := s.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if release(t, s); !isOpen(f) {
		t.Error("it is closed under its holder")
	}
	if err := let(); err != nil || isOpen(f) {
		t.Errorf("released: got error %v, and the handle is open: %t", err, isOpen(f))
	}
	wantInUse(t, p, nil)
}

// TestInUseWhileOpening lists the shared files while one is being opened.
func TestInUseWhileOpening(t *testing.T) {
	p, dir := newPool(), t.TempDir()
	f := acquire(t, ref(p, filepath.Join(dir, "f"), "first"))
	p.Opener = func(s settings, newest func() *settings) Opener[*file] {
		return &opener{s, newest, func() {
			wantInUse(t, p, map[*file]int{f: 1})
			if newest().who != "second" {
				t.Errorf("the newest is %v, want the one that opens it", newest())
			}
		}}
	}
	other := acquire(t, ref(p, filepath.Join(dir, "other"), "second"))
	wantInUse(t, p, map[*file]int{f: 1, other: 1})
}

// TestManyAtOnce starts and ends configurations concurrently, with requests before and
// after each end. Requests find their file open, and no file is opened twice.
func TestManyAtOnce(t *testing.T) {
	p, path := newPool(), filepath.Join(t.TempDir(), "f")
	opened := 0
	p.Opener = func(s settings, newest func() *settings) Opener[*file] {
		return &opener{s, newest, func() {
			opened++ // in sequence
			runtime.Gosched()
		}}
	}
	const rounds = 100
	for range rounds { // after each round all are closed
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 6 {
					l := ref(p, path, "one of many")
					if _, err := l.Acquire(); err != nil {
						t.Error(err)
						return
					}
					used := make(chan error)
					go func() {
						used <- l.Use(t.Context(), func(f *file) error {
							p.InUse()
							_ = f.newest().who
							_, err := f.file.Stat()
							return err
						})
					}()
					if err := errors.Join(l.Release(), <-used); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		wantInUse(t, p, nil)
	}
	if t.Logf("opened %d times", opened); opened < rounds {
		t.Errorf("it was opened %d times, want at least once in each of %d rounds", opened, rounds)
	}
}
