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

func errorsAsTheyAre(t *testing.T, s *suite) {
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
	s.mustUpdate(t, func(tx domain.Tx) error { return cmp.Or(tx.PutWorkspace(before), tx.PutWorkspace(gone)) })
	changed, p, k := before, newPreset(before.ID, "p"), newKey(1)
	changed.Slug = "after"
	err := s.update(func(tx domain.Tx) error {
		return cmp.Or(
			tx.PutWorkspace(changed), tx.PutPreset(p), tx.PutPresetVersion(p, newVersion(p, 1, "{}")),
			tx.PutKey(k), tx.PutLabelChange(p, "staging", newLabelChange(1)), putAudit(tx, newAudit(1)),
			tx.PutReplay(domain.Replay{ExpiresAt: time.Now().Add(time.Hour)}), tx.DeleteWorkspace(gone), errDeliberate)
	})
	if !errors.Is(err, errDeliberate) {
		t.Fatalf("got error %v, want the function's own", err)
	}
	check := func(t *testing.T) {
		s.mustView(t, func(r domain.Reader) error {
			got, err := workspaceBySlug(r, "before")
			same(t, got, before)
			_, err1 := workspaceBySlug(r, "after")
			_, err2 := r.Preset(before.ID, "p")
			_, err3 := r.Key(k.ID)
			_, err4 := r.KeyByHash(k.Hash)
			_, err6 := r.AuditRecord(1)
			_, err7 := r.Replay(domain.ReplayID{})
			for _, err := range []error{err1, err2, err3, err4, err6, err7} {
				if !errors.Is(err, domain.ErrNotFound) {
					t.Errorf("after a failed update: got error %v, want ErrNotFound", err)
				}
			}
			keys, err5 := r.Keys()
			if len(keys) != 0 {
				t.Errorf("after a failed update there are keys: %v", keys)
			}
			changes, err8 := r.LabelChanges(p, "staging")
			head, err9 := r.AuditHead()
			if changes != 0 || head.Count != 0 {
				t.Errorf("after a failed update there are %d changes of a label and %d of all", changes, head.Count)
			}
			workspacePagesAre(t, r, []domain.Workspace{before, gone}, 1)
			presetPagesAre(t, r, before.ID, nil, 1)
			return errors.Join(err, err5, err8, err9)
		})
	}
	check(t)
	s.reopen(t)
	check(t)
}

func readsOwnWrites(t *testing.T, s *suite) {
	w, k := newWorkspace("w"), newKey(1)
	p := newPreset(w.ID, "p")
	p.LatestVersion = 1
	v := newVersion(p, 1, `{"a": 1}`)
	later := p
	later.Name = "later"
	s.mustUpdate(t, func(tx domain.Tx) error {
		if _, err := tx.Preset(w.ID, "p"); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("before the write: got error %v, want ErrNotFound", err)
		}
		if err := cmp.Or(tx.PutWorkspace(w), tx.PutPreset(p), tx.PutPresetVersion(p, v), tx.PutKey(k), tx.PutPreset(later)); err != nil {
			return err
		}
		gotW, err1 := tx.Workspace(w.ID)
		same(t, gotW, w)
		gotW, err2 := workspaceBySlug(tx, w.Slug)
		same(t, gotW, w)
		gotP, err3 := tx.Preset(w.ID, "p")
		same(t, gotP, later)
		gotV, err4 := tx.PresetVersion(p.State(), 1)
		same(t, gotV, v)
		gotK, err5 := tx.Key(k.ID)
		same(t, gotK, k)
		gotK, err6 := tx.KeyByHash(k.Hash)
		same(t, gotK, k)
		return cmp.Or(err1, err2, err3, err4, err5, err6)
	})
}

func contexts(t *testing.T, s *suite) {
	t.Run("ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := newWorkspace("ended")
		if err := s.Update(ctx, func(tx domain.Tx) error { return tx.PutWorkspace(w) }); !errors.Is(err, context.Canceled) {
			t.Errorf("Update: got error %v, want context.Canceled", err)
		}
		if _, err := get(s, func(r domain.Reader) (domain.Workspace, error) { return r.Workspace(w.ID) }); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the change: got error %v, want ErrNotFound", err)
		}
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
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
	service := domain.NewService(s.Store)
	outcomes := make([]domain.Outcome, writers)
	for i, err := range together(writers, func(i int) (err error) {
		in := domain.Capture{Dialect: domain.Responses, Config: fmt.Appendf(nil, `{"writer":%d}`, i)}
		for {
			outcomes[i], err = service.CreatePresetVersion(context.Background(), by(w.ID), "", "p", in)
			if !errors.Is(err, domain.ErrConflict) {
				return err
			}
		}
	}) {
		if err != nil {
			t.Fatalf("writer %d: %v", i, err)
		}
	}
	check := func() {
		p, err := get(s, func(r domain.Reader) (domain.Preset, error) { return r.Preset(w.ID, "p") })
		if err != nil {
			t.Fatal(err)
		}
		if p.LatestVersion != writers || p.DesignatedVersion != writers {
			t.Errorf("latest version is %d, designated %d, want %d", p.LatestVersion, p.DesignatedVersion, writers)
		}
		for i, out := range outcomes {
			v := out.Version
			if out.Preset.ID != p.ID || out.Preset.LatestVersion != v.Version {
				t.Errorf("writer %d was told of preset %s at %d and version %d, want preset %s", i, out.Preset.ID, out.Preset.LatestVersion, v.Version, p.ID)
			}
			got, err := get(s, func(r domain.Reader) (domain.PresetVersion, error) { return r.PresetVersion(p.State(), v.Version) })
			if err != nil {
				t.Fatalf("version %d of writer %d: %v", v.Version, i, err)
			}
			same(t, got, v) // so no two writers have the same number
		}
	}
	check()
	s.reopen(t)
	check()
}

func manyPresets(t *testing.T, s *suite) {
	const each = 5
	w := newWorkspace("w")
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
	service := domain.NewService(s.Store)
	for i, err := range together(writers, func(i int) error {
		for n := 1; n <= each; {
			out, err := service.CreatePresetVersion(context.Background(), by(w.ID), "w", slugOf(i), domain.Capture{Config: []byte("{}")})
			switch {
			case errors.Is(err, domain.ErrConflict):
				continue
			case err != nil:
				return err
			case out.Version.Version != n:
				return fmt.Errorf("got version %d, want %d", out.Version.Version, n)
			}
			n++
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	for i := range writers {
		p, err := get(s, func(r domain.Reader) (domain.Preset, error) { return r.Preset(w.ID, slugOf(i)) })
		if err != nil || p.LatestVersion != each {
			t.Errorf("preset %d: got latest version %d and error %v, want %d", i, p.LatestVersion, err, each)
		}
	}
}

func oneSlugManyWriters(t *testing.T, s *suite) {
	service := domain.NewService(s.Store)
	winners := make([]domain.Outcome, writers)
	won := -1
	for i, err := range together(writers, func(i int) (err error) {
		for {
			winners[i], err = service.CreateWorkspace(context.Background(), by(""), domain.NewWorkspace{Name: "w", Slug: "taken"})
			if !errors.Is(err, domain.ErrConflict) {
				return err
			}
		}
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
		t.Fatal("nobody got the slug")
	}
	got, err := get(s, func(r domain.Reader) (domain.Workspace, error) { return workspaceBySlug(r, "taken") })
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, winners[won].Workspace)
}

func neighboursOfAFailure(t *testing.T, s *suite) {
	presets := make([]domain.Preset, writers)
	workspace := newID()
	for i, err := range together(writers, func(i int) error {
		presets[i] = newPreset(workspace, slugOf(i))
		return s.update(func(tx domain.Tx) error {
			if err := tx.PutPreset(presets[i]); err != nil {
				return err
			}
			if i%3 == 0 {
				return errDeliberate
			}
			return nil
		})
	}) {
		_, found := get(s, func(r domain.Reader) (domain.Preset, error) { return r.Preset(workspace, presets[i].Slug) })
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
	s.mustUpdate(t, func(tx domain.Tx) error { return cmp.Or(tx.PutPreset(left), tx.PutPreset(right)) })
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				err := s.update(func(tx domain.Tx) error {
					l, err1 := tx.Preset(workspace, "left")
					r, err2 := tx.Preset(workspace, "right")
					l.LatestVersion++
					r.LatestVersion++
					return cmp.Or(err1, err2, tx.PutPreset(l), tx.PutPreset(r))
				})
				if err != nil {
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
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := tx.PutPreset(newPreset(workspace, "clock"))
		for i := range registers {
			err = cmp.Or(err, tx.PutPreset(newPreset(workspace, register(i))))
		}
		return err
	})

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
	errs := together(clients, func(client int) error {
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
				for {
					known := acknowledged.Load()
					if int64(e.stamp) <= known || acknowledged.CompareAndSwap(known, int64(e.stamp)) {
						break
					}
				}
			}
			mu.Lock()
			events = append(events, e)
			mu.Unlock()
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}

	// Views come after the update whose stamp they read.
	slices.SortStableFunc(events, func(a, b event) int {
		switch {
		case a.stamp != b.stamp:
			return a.stamp - b.stamp
		case a.update == b.update:
			return 0
		case a.update:
			return -1
		default:
			return 1
		}
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
		p, err := get(s, func(r domain.Reader) (domain.Preset, error) { return r.Preset(workspace, register(i)) })
		if err != nil || p.LatestVersion != model[i] {
			t.Errorf("seed %d: reopened, register %d: got %d and error %v, want %d", seed, i, p.LatestVersion, err, model[i])
		}
	}
}

func reopen(t *testing.T, s *suite) {
	service := domain.NewService(s.Store)
	created, err := service.CreateWorkspace(t.Context(), by(""), domain.NewWorkspace{Name: awkward, Slug: "w"})
	if err != nil {
		t.Fatal(err)
	}
	w := created.Workspace
	var versions []domain.PresetVersion
	var p domain.Preset
	for i := range 20 {
		out, err := service.CreatePresetVersion(t.Context(), by(w.ID), "", "p", domain.Capture{
			Dialect: domain.Responses, Config: fmt.Appendf(nil, `{ "n":%d }`, i), SystemPrompt: new(awkward),
		})
		if err != nil {
			t.Fatal(err)
		}
		p, versions = out.Preset, append(versions, out.Version)
	}
	k, secret, err := service.IssueKey(t.Context(), by(""), domain.NewKey{Kind: domain.InferenceKey, Workspace: "w"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.reopen(t)
		s.mustView(t, func(r domain.Reader) error {
			gotW, err1 := workspaceBySlug(r, "w")
			same(t, gotW, w)
			gotP, err2 := r.Preset(w.ID, "p")
			same(t, gotP, p)
			for i, want := range versions {
				v, err := r.PresetVersion(gotP.State(), i+1)
				same(t, v, want)
				err2 = cmp.Or(err2, err)
			}
			keys, err3 := r.Keys()
			for i := range keys {
				keys[i].LastUsedAt = nil // an engine may or may not store it before it closes
			}
			same(t, keys, []domain.Key{k})
			return cmp.Or(err1, err2, err3)
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
