// Package storagetest is the contract of domain.Store as tests. Every engine
// passes them:
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, func(t *testing.T, place string) storagetest.Store { ... })
//	}
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Store is an engine's store as the suite uses it.
type Store interface {
	domain.Store
	// Close releases the store. The next store at the same place can read everything that
	// this one acknowledged.
	Close() error
}

// Run tests an engine. open returns the store at place, or fails t. A place is an empty
// folder of the test. An embedded engine keeps its files there; a remote one derives the
// name of its key space from it. The suite closes every store, and never opens a place
// twice at the same time.
func Run(t *testing.T, open func(t *testing.T, place string) Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"workspace round trip", workspaceRoundTrip},
		{"preset round trip", presetRoundTrip},
		{"preset version round trip", versionRoundTrip},
		{"key round trip", keyRoundTrip},
		{"largest records", largestRecords},
		{"largest changes", largestChanges},
		{"largest changes of the Service", largestServiceChanges},
		{"not found", notFound},
		{"ids in other notations", otherNotations},
		{"slug released", slugReleased},
		{"version never changes", versionNeverChanges},
		{"keys oldest first", keysOldestFirst},
		{"presets by slug", presetsBySlug},
		{"presets with own writes", presetsWithOwnWrites},
		{"many presets listed", manyPresetsListed},
		{"pages of presets", presetPages},
		{"pages, many writers", pagesManyWriters},
		{"pages in a snapshot", pagesInASnapshot},
		{"pages of workspaces", workspacePages},
		{"label changes", labelChanges},
		{"one label, many writers", labelManyWriters},
		{"audit trail", auditRoundTrip},
		{"audit trail, many writers", auditManyWriters},
		{"histories of objects", objectHistories},
		{"histories of objects, many writers", historiesManyWriters},
		{"pruned versions", versionsPruned},
		{"pruned versions, at random", versionsPrunedAtRandom},
		{"pruned versions, many writers", pruningManyWriters},
		{"pruned versions of another store", versionsPrunedElsewhere},
		{"kept answers", replays},
		{"one answer, many writers", replayManyWriters},
		{"usage", usageRows},
		{"usage refused", usageRefused},
		{"served", served},
		{"spending", spending},
		{"saved inputs", savedInputs},
		{"feedback secret", feedbackSecret},
		{"feedback secret, many writers", feedbackSecretManyWriters},
		{"deleted key", keyDeleted},
		{"deleted key, many writers", keyDeletedManyWriters},
		{"deleted workspace", workspaceDeleted},
		{"erased preset", presetErased},
		{"deleted workspaces, many writers", deletionsManyWriters},
		{"values are the caller's", valuesAreCopied},
		{"errors as they are", errorsUnchanged},
		{"failed update leaves nothing", failedUpdateLeavesNothing},
		{"update reads its own writes", readsOwnWrites},
		{"context", contexts},
		{"use after the end", usedAfterwards},
		{"one preset, many writers", onePresetManyWriters},
		{"many presets", manyPresets},
		{"one slug, many writers", oneSlugManyWriters},
		{"neighbours of a failure", failureAmongOthers},
		{"views are snapshots", viewsAreSnapshots},
		{"history", history},
		{"stamps of changes", stampsOfChanges},
		{"stamps stay", stampsStay},
		{"stamps and readers", stampsAndReaders},
		{"stamps of another store", stampsAfterReopen},
		{"reopen", reopen},
		{"closed", closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{place: t.TempDir(), open: open}
			s.Store = open(t, s.place)
			t.Cleanup(func() {
				if s.Store == nil {
					return
				}
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test.run(t, s)
		})
	}
}

// writers is how many goroutines contend in the concurrent tests.
const writers = 64

type suite struct {
	Store
	place string
	open  func(t *testing.T, place string) Store
}

func (s *suite) reopen(t *testing.T) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	s.Store = nil // if open fails
	s.Store = s.open(t, s.place)
}

// update is Update, repeated while the engine gives up.
func (s *suite) update(fn func(domain.Tx) error) error {
	for range 1000 {
		err := s.Update(context.Background(), fn)
		if !errors.Is(err, domain.ErrConflict) {
			return err
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
	return domain.ErrConflict
}

func (s *suite) mustUpdate(t *testing.T, fn func(domain.Tx) error) {
	t.Helper()
	if err := s.update(fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

// try runs fn in an update. The update fails if fails is set, and must succeed otherwise.
func (s *suite) try(t *testing.T, fails bool, fn func(domain.Tx) error) {
	t.Helper()
	err := s.update(func(tx domain.Tx) error {
		err := fn(tx)
		if err == nil && fails {
			err = errDeliberate
		}
		return err
	})
	if fails != errors.Is(err, errDeliberate) || !fails && err != nil {
		t.Fatalf("got error %v; fails: %t", err, fails)
	}
}

// put stores objects in one update.
func (s *suite) put(t *testing.T, objects ...any) {
	t.Helper()
	s.mustUpdate(t, func(tx domain.Tx) error { return put(tx, objects...) })
}

// put stores objects, in their order.
func put[T any](tx domain.Tx, objects ...T) error {
	for _, object := range objects {
		var err error
		switch o := any(object).(type) {
		case domain.Workspace:
			err = tx.PutWorkspace(o)
		case domain.Preset:
			err = tx.PutPreset(o)
		case domain.Key:
			err = tx.PutKey(o)
		case domain.Replay:
			err = tx.PutReplay(o)
		case domain.AuditRecord:
			err = putAudit(tx, o)
		default:
			err = fmt.Errorf("%T is no object of a store", o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) mustView(t *testing.T, fn func(domain.Reader) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// view runs check in a view.
func (s *suite) view(t *testing.T, check func(r domain.Reader)) {
	t.Helper()
	s.mustView(t, func(r domain.Reader) error {
		check(r)
		return nil
	})
}

// inBoth runs check in a view and in an update.
func (s *suite) inBoth(t *testing.T, check func(r domain.Reader)) {
	t.Helper()
	s.view(t, check)
	s.mustUpdate(t, func(tx domain.Tx) error {
		check(tx)
		return nil
	})
}

// checkAcrossReopen runs check inBoth, and again after the store was reopened.
func (s *suite) checkAcrossReopen(t *testing.T, check func(r domain.Reader)) {
	t.Helper()
	s.inBoth(t, check)
	s.reopen(t)
	s.inBoth(t, check)
}

// get runs one read in a view.
func get[T any](s *suite, read func(domain.Reader) (T, error)) (T, error) {
	var value T
	err := s.View(context.Background(), func(r domain.Reader) (err error) {
		value, err = read(r)
		return err
	})
	return value, err
}

// preset reads a preset in a view.
func (s *suite) preset(workspaceID, slug string) (domain.Preset, error) {
	return get(s, func(r domain.Reader) (domain.Preset, error) { return r.Preset(workspaceID, slug) })
}

// wantValue returns a function that compares the result of a read with want. It is called as
// wantValue(t, w)(r.Workspace(w.ID)).
func wantValue[T any](t *testing.T, want T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("got error %v, want %s", err, formatJSON(want))
			return
		}
		checkSame(t, got, want)
	}
}

// wantNotFound returns a function that checks that a read found nothing.
func wantNotFound(t *testing.T, what string) func(any, error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("%s: got error %v, want ErrNotFound", what, err)
		}
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// timeAt returns a time with the Service's precision, different for each n.
func timeAt(n int) time.Time {
	return time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC).Add(time.Duration(n) * time.Millisecond)
}

// awkward is text that a careless encoder would change.
const awkward = awkwardName + "\t\n\r\u007f\u0000"

// awkwardName is awkward, and may be the name of an object.
const awkwardName = "Ünï ☃ 😀 <b>&\"'\\/\u2028\u2029 é e\u0301 \ufeff\ufffd"

// authorIn has the terms of a principal with all rights, in a workspace.
func authorIn(workspaceID string) domain.Write {
	return domain.By(domain.Principal{KeyID: "test", UserID: "test", Kind: domain.ManagementKey, WorkspaceID: workspaceID})
}

func newWorkspace(slug string) domain.Workspace {
	return domain.Workspace{
		ID: newID(), Name: "Workspace " + slug, Slug: slug,
		DefaultGuardrailID: newID(), IOLoggingAPIKeyIDs: []byte("null"), IOLoggingSamplingRate: 1,
		CreatedAt: timeAt(0), CreatedBy: "test",
	}
}

func newPreset(workspaceID, slug string) domain.Preset {
	return domain.Preset{
		ID: newID(), Name: slug, Slug: slug, Status: domain.PresetActive, CreatorUserID: "test",
		WorkspaceID: workspaceID, CreatedAt: timeAt(0), UpdatedAt: timeAt(0),
	}
}

func newVersion(p domain.Preset, n int, config string) domain.PresetVersion {
	return domain.PresetVersion{
		ID: newID(), PresetID: p.ID, Version: n, Dialect: domain.Responses,
		Config: []byte(config), CreatorID: "test", CreatedAt: timeAt(n), UpdatedAt: timeAt(n),
	}
}

func newKey(n int) domain.Key {
	return domain.Key{
		ID: newID(), Kind: domain.InferenceKey, Hash: domain.HashSecret(newID()), Hint: "abcd",
		CreatedAt: timeAt(n),
	}
}

// invalidNames are client strings that are neither an id nor a slug.
func invalidNames() []string {
	return []string{
		"", " ", "x", "default", "\x00", "\xff\xfe", "../..", "*", "%", "a/b", awkward,
		newID(), "00000000-0000-0000-0000-000000000000", strings.Repeat("z", 36),
		strings.Repeat("-", 36), newID() + " ", newID()[1:],
		strings.Repeat("a", 127), strings.Repeat("a", 70_000), strings.Repeat("é", 1<<20),
	}
}

// concurrently runs n calls of fn concurrently and returns their results.
func concurrently(n int, fn func(i int) error) []error {
	start, errs := make(chan struct{}), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// mustConcurrently is concurrently for calls that must succeed.
func mustConcurrently(t *testing.T, n int, fn func(i int) error) {
	t.Helper()
	if err := errors.Join(concurrently(n, fn)...); err != nil {
		t.Fatal(err)
	}
}

// retry repeats a change of a Service while other writers are first. It gives up after
// 1,000 tries. No fair engine needs so many.
func retry(change func() (domain.Outcome, error)) (out domain.Outcome, err error) {
	for range 1000 {
		if out, err = change(); !errors.Is(err, domain.ErrConflict) {
			break
		}
	}
	return out, err
}

// createVersion adds a version to a preset through a Service. It is for a lone writer, which
// no engine may refuse.
func createVersion(service *domain.Service, terms domain.Write, slug string) (domain.Outcome, error) {
	return service.ReleasePresetVersion(context.Background(), terms, "", slug, domain.Capture{Config: []byte("{}")}, domain.Release{})
}

// createVersionAmongWriters is createVersion with retry.
func createVersionAmongWriters(service *domain.Service, terms domain.Write, slug string) (domain.Outcome, error) {
	return retry(func() (domain.Outcome, error) { return createVersion(service, terms, slug) })
}

func slugOf(i int) string { return fmt.Sprintf("slug-%d", i) }
