package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func newWorkspace(slug string) domain.Workspace {
	return domain.Workspace{
		ID: newID(), Name: slug, Slug: slug, DefaultGuardrailID: newID(), IOLoggingAPIKeyIDs: []byte("null"), IOLoggingSamplingRate: 1,
		CreatedAt: time.Now().UTC(), CreatedBy: "test",
	}
}

func newPreset(workspaceID, slug string) domain.Preset {
	return domain.Preset{ID: newID(), Name: slug, Slug: slug, Status: domain.PresetActive, CreatorUserID: "test", WorkspaceID: workspaceID, CreatedAt: time.Now().UTC(), UpdatedAt: time.Now().UTC()}
}

// put stores a new preset.
func put(t *testing.T, s *Store, workspaceID, slug string) domain.Preset {
	t.Helper()
	p := newPreset(workspaceID, slug)
	if err := s.Update(t.Context(), func(tx domain.Tx) error { return tx.PutPreset(p) }); err != nil {
		t.Fatal(err)
	}
	return p
}

// add adds a version to a preset and returns its number. The version's config names its
// writer.
func add(ctx context.Context, s *Store, workspaceID, slug, who string) (n int, err error) {
	err = s.Update(ctx, func(tx domain.Tx) error {
		p, err := tx.Preset(workspaceID, slug)
		if err != nil {
			return err
		}
		p.LatestVersion++
		p.DesignatedVersion, n = p.LatestVersion, p.LatestVersion
		v := domain.PresetVersion{ID: newID(), PresetID: p.ID, Version: n, Dialect: domain.Responses, Config: []byte(fmt.Sprintf(`{"by":%q}`, who)), CreatorID: who, CreatedAt: time.Now().UTC(), UpdatedAt: time.Now().UTC()}
		return cmp.Or(tx.PutPresetVersion(p, v), tx.PutPreset(p))
	})
	return n, err
}

// readNext reads into memory that a preset has no next version, as add does.
func readNext(t *testing.T, s *Store, workspaceID, slug string) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		p, err := r.Preset(workspaceID, slug)
		p.LatestVersion++
		_, _ = r.PresetVersion(p.State(), p.LatestVersion)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// versions returns the writers of a preset's versions, from the first to the latest.
func versions(t *testing.T, s *Store, workspaceID, slug string) (by []string) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		p, err := r.Preset(workspaceID, slug)
		for n := 1; n <= p.LatestVersion && err == nil; n++ {
			var v domain.PresetVersion
			v, err = r.PresetVersion(p.State(), n)
			by = append(by, v.CreatorID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// settled returns the stamp of a preset. A stamp is 0 during a change, which may still go on
// when its commit can be read.
func settled(t *testing.T, s *Store, workspaceID, slug string) (stamp domain.Stamp) {
	t.Helper()
	wait.Until(t, "the stamp is not 0", func() bool {
		stamp = s.Stamps().Preset(workspaceID, slug)
		return stamp != 0
	})
	return stamp
}

func TestStampsOfOthers(t *testing.T) {
	a, b := open(t, Options{}), open(t, Options{})
	w := newID()
	put(t, a, w, "p")
	if err := b.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var slowest time.Duration
	for i := range 20 {
		before := settled(t, b, w, "p")
		if _, err := add(t.Context(), a, w, "p", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		took := wait.Until(t, "the other's stamps tell", func() bool {
			now := b.Stamps().Preset(w, "p")
			return now != before && now != 0 // the stamp is 0 during a change
		})
		slowest = max(slowest, took)
	}
	t.Logf("RESULT stamps of others: slowest of 20 %v", slowest)
	if got := len(versions(t, b, w, "p")); got != 20 {
		t.Errorf("the other has %d versions, want 20", got)
	}
}

// tally is the answers that writers got.
type tally struct {
	mu           sync.Mutex
	acknowledged map[string]map[int]string // by preset and number, its writer
	conflicts    int
	unknown      int
	others       []error
	last         time.Time // the time of each acknowledgement
	gap          time.Duration
}

// write starts writers that add versions to two presets through each store. They end with
// the context or after a number of versions each.
func (l *tally) write(ctx context.Context, stores []*Store, workspaceID string, writers, each int) {
	l.mu.Lock()
	l.acknowledged, l.last = map[string]map[int]string{"p": {}, "q": {}}, time.Now()
	l.mu.Unlock()
	var all sync.WaitGroup
	for i, s := range stores {
		for j := range writers {
			all.Go(func() {
				for n := 0; n < each && ctx.Err() == nil; n++ {
					slug, who := []string{"p", "q"}[(j+n)%2], fmt.Sprintf("%d/%d/%d", i, j, n)
					number, err := add(context.WithoutCancel(ctx), s, workspaceID, slug, who)
					l.record(slug, who, number, err)
				}
			})
		}
	}
	all.Wait()
}

func (l *tally) record(slug, who string, number int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		if other, taken := l.acknowledged[slug][number]; taken {
			l.others = append(l.others, fmt.Errorf("version %d of %s is both %s and %s", number, slug, other, who))
		}
		l.acknowledged[slug][number] = who
		l.gap = max(l.gap, time.Since(l.last))
		l.last = time.Now()
	case errors.Is(err, domain.ErrConflict):
		l.conflicts++
	case errors.Is(err, domain.ErrUnknown):
		l.unknown++
	default:
		l.others = append(l.others, err)
	}
}

// count returns how many writes were acknowledged.
func (l *tally) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, versions := range l.acknowledged {
		n += len(versions)
	}
	return n
}

// check fails the test if an acknowledged write is missing.
func (l *tally) check(t *testing.T, s *Store, workspaceID string) (count int) {
	t.Helper()
	for slug, want := range l.acknowledged {
		got := versions(t, s, workspaceID, slug)
		for n, who := range want {
			if n > len(got) || got[n-1] != who {
				t.Errorf("version %d of %s: not by %s, who was told so", n, slug, who)
			}
		}
		if extra := len(got) - len(want); extra < 0 || extra > l.unknown {
			t.Errorf("%s has %d versions, %d were acknowledged and %d unknown", slug, len(got), len(want), l.unknown)
		}
		sorted := slices.Clone(got)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != len(got) {
			t.Errorf("%s has a change twice", slug)
		}
		count += len(want)
	}
	return count
}

// TestFarNode uses a distant node and one that writes without pause. The distant node's
// writes succeed too.
func TestFarNode(t *testing.T) {
	p := newProxy(t, sharedAddress(t))
	far, near := open(t, Options{Endpoints: []string{p.address}}), open(t, Options{})
	p.set(func() { p.delay = 10 * time.Millisecond })
	w := newID()
	put(t, near, w, "p")
	put(t, near, w, "q")
	ctx, cancel := context.WithCancel(t.Context())
	var l tally
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.write(ctx, []*Store{near}, w, 2, 1<<30)
	}()
	put(t, far, w, "r")
	var slowest time.Duration
	for i := range 20 {
		begun := time.Now()
		if _, err := add(t.Context(), far, w, "r", fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	cancel()
	<-done
	count := l.check(t, near, w)
	if len(l.others) > 0 {
		t.Error(l.others)
	}
	if n := far.Status().Resets; n != 0 {
		t.Errorf("the far node has read all again %d times", n)
	}
	t.Logf("RESULT far node: slowest of 20 %v, %+v; near node: acknowledged=%d conflicts=%d", slowest, far.Status(), count, l.conflicts)
}

// TestUnknownOutcome drops a commit's request or answer and then closes the connection.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]int{"request": requests, "answer": answers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, sharedAddress(t))
			logs, logged := observer.New(zap.WarnLevel)
			s := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: time.Minute, Logger: zap.New(logs)})
			other := open(t, Options{})
			w := newID()
			put(t, s, w, "p")
			for i := range 3 {
				readNext(t, s, w, "p")
				p.set(func() { p.swallowing[direction] = true })
				failed := make(chan error)
				go func() {
					_, err := add(t.Context(), s, w, "p", fmt.Sprint(i))
					failed <- err
				}()
				if i == 1 { // another node commits meanwhile
					wait.Until(t, "the commit is lost", func() bool { return p.lost(direction) > 0 })
					if _, err := add(t.Context(), other, w, "p", "other"); err != nil {
						t.Error(err)
					}
				}
				fences := func() int { return logged.FilterMessageSnippet("finding out whether the change was made").Len() }
				wait.Until(t, "a fence is sent", func() bool { return fences() == i+1 })
				before := p.lost(direction)
				wait.Until(t, "a fence is lost", func() bool { return p.lost(direction) > before })
				p.renew()
				if err := <-failed; err != nil {
					t.Errorf("got error %v, want none", err)
				}
			}
			got := versions(t, other, w, "p")
			slices.Sort(got)
			if want := []string{"0", "1", "2", "other"}; !slices.Equal(got, want) {
				t.Errorf("got versions %q, want each of %q once", got, want)
			}
		})
	}
}

// TestOutcomeNeverKnown checks an outcome that cannot be determined before the timeout.
func TestOutcomeNeverKnown(t *testing.T) {
	t.Parallel()
	p := newProxy(t, sharedAddress(t))
	s, other := open(t, Options{Endpoints: []string{p.address}, MaxStaleness: time.Minute, RequestTimeout: 3 * time.Second}), open(t, Options{})
	preset := put(t, other, newID(), "p")
	change := func(name string) error { // of the records in memory
		return s.Update(t.Context(), func(tx domain.Tx) error {
			preset.Name = name
			return tx.PutPreset(preset)
		})
	}
	wait.Until(t, "the preset is changed", func() bool { return change("before") == nil })
	p.set(func() { p.swallowing[answers] = true })
	begun := time.Now()
	err := change("unknown")
	if !errors.Is(err, domain.ErrUnknown) || errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("got error %v, want ErrUnknown", err)
	}
	took := time.Since(begun)
	p.renew()
	wait.Until(t, "the preset is changed again", func() bool { return change("later") == nil })
	err = other.View(t.Context(), func(r domain.Reader) error {
		got, err := r.Preset(preset.WorkspaceID, "p")
		if got.Name != "later" {
			t.Errorf("got name %q, want the later one", got.Name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("RESULT never settled: ErrUnknown after %v", took)
}

// TestLeaderKilled kills the leader of three members twice, during writes.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	stores := []*Store{open(t, Options{Endpoints: addresses(members)}), open(t, Options{Endpoints: addresses(members)})}
	w := newID()
	put(t, stores[0], w, "p")
	put(t, stores[0], w, "q")
	ctx, cancel := context.WithCancel(t.Context())
	var l tally
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.write(ctx, stores, w, 2, 1<<30)
	}()
	admin := client(t, addresses(members)...)
	goOn := func(when string) {
		t.Helper()
		before := l.count()
		wait.Until(t, "writes go on "+when, func() bool { return l.count() >= before+50 })
	}
	for range 2 {
		goOn("by three members")
		var leader *member
		wait.Until(t, "there is a leader", func() bool {
			for _, m := range members {
				if status, err := admin.Status(t.Context(), m.address); err == nil && status.Leader == status.Header.MemberId {
					leader = m
				}
			}
			return leader != nil
		})
		leader.kill()
		goOn("by two members")
		if err := leader.start(); err != nil {
			t.Fatal(err)
		}
	}
	goOn("in the end")
	cancel()
	<-done
	count := l.check(t, stores[1], w)
	for _, err := range l.others {
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Error(err)
		}
	}
	if l.gap > 30*time.Second { // two members elect a leader after a second or two
		t.Errorf("no write was acknowledged for %v", l.gap)
	}
	t.Logf("RESULT leader killed: acknowledged=%d conflicts=%d unknown=%d unavailable=%d longest gap %v", count, l.conflicts, l.unknown, len(l.others), l.gap)
}
