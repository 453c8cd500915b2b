package storagetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

var errDeliberate = errors.New("a deliberate failure")

func errorsUnchanged(t *testing.T, s *suite) {
	if err := s.View(t.Context(), func(domain.Reader) error { return errDeliberate }); err != errDeliberate { //nolint:errorlint // as it is
		t.Errorf("View: got error %v, want the function's own", err)
	}
	if err := s.update(func(domain.Tx) error { return errDeliberate }); err != errDeliberate { //nolint:errorlint // as it is
		t.Errorf("Update: got error %v, want the function's own", err)
	}
	if err := s.update(func(domain.Tx) error { return nil }); err != nil {
		t.Errorf("Update that does nothing: got error %v, want none", err)
	}
}

func failedUpdateLeavesNothing(t *testing.T, s *suite) {
	before, gone := newWorkspace("before"), newWorkspace("gone")
	s.put(t, before, gone)
	changed, p, k := before, newPreset(before.ID, "p"), newKey(1)
	changed.Slug = "after"
	s.try(t, true, func(tx domain.Tx) error {
		return cmp.Or(
			put[any](tx, changed, p, k, newAudit(1), domain.Replay{ExpiresAt: time.Now().Add(time.Hour)}),
			tx.PutPresetVersion(p, newVersion(p, 1, "{}")), tx.PutLabelChange(p, "staging", newLabelChange(1)), tx.DeleteWorkspace(gone))
	})
	s.checkAcrossReopen(t, func(r domain.Reader) {
		wantValue(t, before)(workspaceBySlug(r, "before"))
		wantNotFound(t, "the new slug")(workspaceBySlug(r, "after"))
		wantNotFound(t, "the preset")(r.Preset(before.ID, "p"))
		wantNotFound(t, "the key")(r.Key(k.ID))
		wantNotFound(t, "the key's hash")(r.KeyByHash(k.Hash))
		wantNotFound(t, "the audit record")(r.AuditRecord(1))
		wantNotFound(t, "the kept answer")(r.Replay(domain.ReplayID{}))
		if keys, err := r.Keys(); len(keys) != 0 || err != nil {
			t.Errorf("got keys %v and error %v, want none", keys, err)
		}
		wantValue(t, 0)(r.LabelChanges(p, "staging"))
		wantValue(t, domain.AuditHead{})(r.AuditHead())
		checkWorkspacePages(t, r, []domain.Workspace{before, gone}, 1)
		checkPresetPages(t, r, before.ID, nil, 1)
	})
}

func readsOwnWrites(t *testing.T, s *suite) {
	w, k := newWorkspace("w"), newKey(1)
	p := newPreset(w.ID, "p")
	p.LatestVersion = 1
	v := newVersion(p, 1, `{"a": 1}`)
	later := p
	later.Name = "later"
	s.mustUpdate(t, func(tx domain.Tx) error {
		wantNotFound(t, "before the write")(tx.Preset(w.ID, "p"))
		if err := cmp.Or(put[any](tx, w, p, k, later), tx.PutPresetVersion(p, v)); err != nil {
			return err
		}
		wantValue(t, w)(tx.Workspace(w.ID))
		wantValue(t, w)(workspaceBySlug(tx, w.Slug))
		wantValue(t, later)(tx.Preset(w.ID, "p"))
		wantValue(t, v)(tx.PresetVersion(p.State(), 1))
		wantValue(t, k)(tx.Key(k.ID))
		wantValue(t, k)(tx.KeyByHash(k.Hash))
		return nil
	})
}

// usedAfterwards uses a Reader and a Tx after their functions have returned.
func usedAfterwards(t *testing.T, s *suite) {
	var tx domain.Tx
	var r domain.Reader
	s.mustUpdate(t, func(given domain.Tx) error { tx = given; return nil })
	s.mustView(t, func(given domain.Reader) error { r = given; return nil })
	if err := tx.PutWorkspace(newWorkspace("w")); err == nil || errors.Is(err, domain.ErrNotFound) {
		t.Errorf("PutWorkspace: got error %v, want that it has ended", err)
	}
	for _, r := range []domain.Reader{r, tx} {
		_, err1 := r.WorkspaceID("w")
		_, err2 := r.Keys()
		_, err3 := collect(r.Presets(newID()))
		for _, err := range []error{err1, err2, err3} {
			if err == nil || errors.Is(err, domain.ErrNotFound) {
				t.Errorf("got error %v, want that it has ended", err)
			}
		}
	}
}

func contexts(t *testing.T, s *suite) {
	t.Run("ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := newWorkspace("ended")
		if err := s.Update(ctx, func(tx domain.Tx) error { return tx.PutWorkspace(w) }); !errors.Is(err, context.Canceled) {
			t.Errorf("Update: got error %v, want context.Canceled", err)
		}
		s.view(t, func(r domain.Reader) { wantNotFound(t, "the change")(r.Workspace(w.ID)) })
		ctx, cancel = context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		if err := s.Update(ctx, func(domain.Tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Update: got error %v, want context.DeadlineExceeded", err)
		}
	})
	// If updates queue up, one may end while another blocks the queue.
	t.Run("ended while waiting", func(t *testing.T) {
		running, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		first := make(chan error, 1)
		go func() {
			first <- s.update(func(tx domain.Tx) error {
				once.Do(func() { close(running) })
				<-release
				return tx.PutWorkspace(newWorkspace("first"))
			})
		}()
		<-running
		ctx, cancel := context.WithCancel(t.Context())
		w, second := newWorkspace("second"), make(chan error, 1)
		go func() { second <- s.Update(ctx, func(tx domain.Tx) error { return tx.PutWorkspace(w) }) }()
		time.Sleep(10 * time.Millisecond)
		cancel()
		time.Sleep(10 * time.Millisecond)
		close(release)
		if err := <-first; err != nil {
			t.Errorf("the update before: got error %v, want none", err)
		}
		err := <-second
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Update: got error %v, want context.Canceled or none", err)
		}
		_, found := get(s, func(r domain.Reader) (domain.Workspace, error) { return r.Workspace(w.ID) })
		if (err == nil) != (found == nil) {
			t.Errorf("Update returned %v, and reading the change %v", err, found)
		}
	})
}

// onePresetManyWriters adds versions to a preset that does not exist yet.
func onePresetManyWriters(t *testing.T, s *suite) {
	w := newWorkspace("w")
	s.put(t, w)
	service := domain.NewService(s.Store)
	outcomes := make([]domain.Outcome, writers)
	mustConcurrently(t, writers, func(i int) (err error) {
		in := domain.Capture{Dialect: domain.Responses, Config: fmt.Appendf(nil, `{"writer":%d}`, i)}
		outcomes[i], err = retry(func() (domain.Outcome, error) {
			return service.ReleasePresetVersion(context.Background(), authorIn(w.ID), "", "p", in, domain.Release{})
		})
		return err
	})
	s.checkAcrossReopen(t, func(r domain.Reader) {
		p, err := r.Preset(w.ID, "p")
		if err != nil || p.LatestVersion != writers || p.DesignatedVersion != writers {
			t.Errorf("latest version is %d, designated %d, want %d (error %v)", p.LatestVersion, p.DesignatedVersion, writers, err)
		}
		for i, out := range outcomes {
			v := out.Version
			if out.Preset.ID != p.ID || out.Preset.LatestVersion != v.Version {
				t.Errorf("writer %d was told of preset %s at %d and version %d, want preset %s", i, out.Preset.ID, out.Preset.LatestVersion, v.Version, p.ID)
			}
			wantValue(t, v)(r.PresetVersion(p.State(), v.Version)) // so no two writers have the same number
		}
	})
}

func manyPresets(t *testing.T, s *suite) {
	const each = 5
	w := newWorkspace("w")
	s.put(t, w)
	service := domain.NewService(s.Store)
	mustConcurrently(t, writers, func(i int) error {
		for n := range each {
			if out, err := createVersionAmongWriters(service, authorIn(w.ID), slugOf(i)); err != nil || out.Version.Version != n+1 {
				return fmt.Errorf("writer %d: got version %d and error %w, want %d", i, out.Version.Version, err, n+1)
			}
		}
		return nil
	})
	for i := range writers {
		if p, err := s.preset(w.ID, slugOf(i)); err != nil || p.LatestVersion != each {
			t.Errorf("preset %d: got latest version %d and error %v, want %d", i, p.LatestVersion, err, each)
		}
	}
}

func oneSlugManyWriters(t *testing.T, s *suite) {
	service := domain.NewService(s.Store)
	winners := make([]domain.Outcome, writers)
	won := -1
	for i, err := range concurrently(writers, func(i int) (err error) {
		winners[i], err = retry(func() (domain.Outcome, error) {
			return service.CreateWorkspace(context.Background(), authorIn(""), domain.WorkspacePatch{Name: new("w"), Slug: new("taken")})
		})
		return err
	}) {
		switch {
		case err == nil && won >= 0:
			t.Errorf("writers %d and %d both got the slug", won, i)
		case err == nil:
			won = i
		case domain.KindOf(err) != domain.Invalid:
			t.Errorf("writer %d: got error %v, want Invalid", i, err)
		}
	}
	if won < 0 {
		t.Fatal("no writer got the slug")
	}
	s.view(t, func(r domain.Reader) { wantValue(t, winners[won].Workspace)(workspaceBySlug(r, "taken")) })
}

func failureAmongOthers(t *testing.T, s *suite) {
	workspace := newID()
	for i, err := range concurrently(writers, func(i int) error {
		return s.update(func(tx domain.Tx) error {
			err := tx.PutPreset(newPreset(workspace, slugOf(i)))
			if err == nil && i%3 == 0 {
				err = errDeliberate
			}
			return err
		})
	}) {
		_, found := s.preset(workspace, slugOf(i))
		switch {
		case i%3 == 0 && (!errors.Is(err, errDeliberate) || !errors.Is(found, domain.ErrNotFound)):
			t.Errorf("failing writer %d: got error %v and reading %v, want its own and ErrNotFound", i, err, found)
		case i%3 != 0 && (err != nil || found != nil):
			t.Errorf("writer %d: got error %v and reading %v, want none", i, err, found)
		}
	}
}

// viewsAreSnapshots reads two presets that every update changes together.
func viewsAreSnapshots(t *testing.T, s *suite) {
	workspace := newID()
	left, right := newPreset(workspace, "left"), newPreset(workspace, "right")
	s.put(t, left, right)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if err := s.update(func(tx domain.Tx) error {
					l, err1 := tx.Preset(workspace, "left")
					r, err2 := tx.Preset(workspace, "right")
					l.LatestVersion++
					r.LatestVersion++
					return cmp.Or(err1, err2, put(tx, l, r))
				}); err != nil {
					t.Errorf("Update: %v", err)
					return
				}
			}
		})
	}
	last := 0
	for range 200 {
		s.mustView(t, func(r domain.Reader) error {
			l, err1 := r.Preset(workspace, "left")
			time.Sleep(rand.N(time.Millisecond))
			again, err2 := r.Preset(workspace, "left")
			other, err3 := r.Preset(workspace, "right")
			if l.LatestVersion != other.LatestVersion || l.LatestVersion != again.LatestVersion {
				t.Errorf("one view saw %d, then %d and %d", l.LatestVersion, again.LatestVersion, other.LatestVersion)
			}
			if l.LatestVersion < last {
				t.Errorf("a view saw %d after an earlier one saw %d", l.LatestVersion, last)
			}
			last = l.LatestVersion
			return cmp.Or(err1, err2, err3)
		})
	}
	stop.Store(true)
	wg.Wait()
}

// history runs random updates and views concurrently over a few registers, and then one
// after another against a map. Each update increments a clock that views also read. The
// clock gives the order, which must agree with the times of the calls.
func history(t *testing.T, s *suite) {
	const (
		registers = 6
		clients   = 16
		each      = 60
	)
	workspace := newID()
	register := func(i int) string { return "r" + strconv.Itoa(i) }
	presets := []any{newPreset(workspace, "clock")}
	for i := range registers {
		presets = append(presets, newPreset(workspace, register(i)))
	}
	s.put(t, presets...)

	type event struct {
		stamp        int // of the clock: the update's own, or the one that the view read
		update       bool
		after        int // the highest stamp that was acknowledged before the call
		reads, wrote map[int]int
	}
	var (
		mu           sync.Mutex
		events       []event
		acknowledged atomic.Int64
	)
	read := func(r domain.Reader, e *event, i int) (domain.Preset, error) {
		p, err := r.Preset(workspace, register(i))
		e.reads[i] = p.LatestVersion
		return p, err
	}
	clock := func(r domain.Reader, e *event) (domain.Preset, error) {
		p, err := r.Preset(workspace, "clock")
		e.stamp = p.LatestVersion
		return p, err
	}
	seed := rand.Uint64()
	mustConcurrently(t, clients, func(client int) error {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		for n := range each {
			e := event{update: random.IntN(4) > 0, after: int(acknowledged.Load())}
			first, second := random.IntN(registers), random.IntN(registers)
			value, fails, twice := client*each+n+1, random.IntN(8) == 0, random.IntN(2) == 0
			var err error
			if e.update {
				err = s.update(func(tx domain.Tx) error {
					e.reads, e.wrote = map[int]int{}, map[int]int{}
					now, err := clock(tx, &e)
					if err != nil {
						return err
					}
					now.LatestVersion++
					e.stamp = now.LatestVersion
					a, err1 := read(tx, &e, first)
					b, err2 := read(tx, &e, second)
					a.LatestVersion, e.wrote[first] = value, value
					err = cmp.Or(err1, err2, tx.PutPreset(now), tx.PutPreset(a))
					if err == nil && twice && first != second {
						b.LatestVersion, e.wrote[second] = -value, -value
						err = tx.PutPreset(b)
					}
					if err == nil && fails {
						err = errDeliberate
					}
					return err
				})
			} else {
				err = s.View(context.Background(), func(r domain.Reader) error {
					e.reads = map[int]int{}
					_, err0 := clock(r, &e)
					_, err1 := read(r, &e, first)
					_, err2 := read(r, &e, second)
					return cmp.Or(err0, err1, err2)
				})
			}
			if errors.Is(err, errDeliberate) {
				// It changed nothing, so it counts as a view just before the change with
				// that stamp.
				e.update = false
				e.stamp--
				err = nil
			}
			if err != nil {
				return err
			}
			if e.update {
				raiseTo(&acknowledged, e.stamp)
			}
			mu.Lock()
			events = append(events, e)
			mu.Unlock()
		}
		return nil
	})

	// Views come after the update whose stamp they read.
	slices.SortStableFunc(events, func(a, b event) int {
		if a.stamp == b.stamp && a.update != b.update {
			if a.update {
				return -1
			}
			return 1
		}
		return a.stamp - b.stamp
	})
	model, stamp := map[int]int{}, 0
	for _, e := range events {
		if e.stamp < e.after || e.update && e.stamp == e.after {
			t.Errorf("seed %d: an operation at %d began when %d was acknowledged", seed, e.stamp, e.after)
		}
		if e.update {
			stamp++
		}
		if e.stamp != stamp {
			t.Fatalf("seed %d: got stamp %d, want %d", seed, e.stamp, stamp)
		}
		for i, got := range e.reads {
			if got != model[i] {
				t.Errorf("seed %d: at %d register %d: got %d, want %d", seed, e.stamp, i, got, model[i])
			}
		}
		if e.update {
			maps.Copy(model, e.wrote)
		}
	}
	s.reopen(t)
	for i := range registers {
		p, err := s.preset(workspace, register(i))
		if err != nil || p.LatestVersion != model[i] {
			t.Errorf("seed %d: reopened, register %d: got %d and error %v, want %d", seed, i, p.LatestVersion, err, model[i])
		}
	}
}

func reopen(t *testing.T, s *suite) {
	service := domain.NewService(s.Store)
	created, err := service.CreateWorkspace(t.Context(), authorIn(""), domain.WorkspacePatch{Name: new(awkward), Slug: new("w")})
	if err != nil {
		t.Fatal(err)
	}
	w := created.Workspace
	var versions []domain.PresetVersion
	var p domain.Preset
	for i := range 20 {
		out, err := service.ReleasePresetVersion(t.Context(), authorIn(w.ID), "", "p", domain.Capture{
			Dialect: domain.Responses, Config: fmt.Appendf(nil, `{ "n":%d }`, i), SystemPrompt: new(awkward),
		}, domain.Release{})

		if err != nil {
			t.Fatal(err)
		}
		p, versions = out.Preset, append(versions, out.Version)
	}
	k, secret, err := service.IssueKey(t.Context(), authorIn(""), domain.NewKey{Kind: domain.InferenceKey, Workspace: "w"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.reopen(t)
		s.view(t, func(r domain.Reader) {
			wantValue(t, w)(workspaceBySlug(r, "w"))
			wantValue(t, p)(r.Preset(w.ID, "p"))
			for i, want := range versions {
				wantValue(t, want)(r.PresetVersion(p.State(), i+1))
			}
			keys, err := r.Keys()
			for i := range keys {
				keys[i].LastUsedAt = nil // an engine may or may not store it before it closes
			}
			wantValue(t, []domain.Key{k})(keys, err)
		})
		who, err := domain.NewService(s.Store).Authenticate(t.Context(), domain.HashSecret(secret))
		if err != nil || who.KeyID != k.ID {
			t.Errorf("Authenticate: got %v, %v, want key %s", who, err, k.ID)
		}
	}
}

func closed(t *testing.T, s *suite) {
	store := s.Store
	s.Store = nil
	if err := store.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	view := store.View(t.Context(), func(domain.Reader) error {
		t.Error("a view ran after Close")
		return nil
	})
	update := store.Update(t.Context(), func(domain.Tx) error {
		t.Error("an update ran after Close")
		return nil
	})
	if !errors.Is(view, domain.ErrClosed) || !errors.Is(update, domain.ErrClosed) {
		t.Errorf("got errors %v from View and %v from Update, want ErrClosed", view, update)
	}
}
