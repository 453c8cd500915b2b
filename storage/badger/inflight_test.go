package badger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestBuiltOnWhatFails makes a group fail on its way to the disk while the next one builds
// on it. No operation of either group may be acknowledged.
func TestBuiltOnWhatFails(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	first, second := newWorkspace("first"), newWorkspace("second")
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	s.committer.patience = wait.Limit
	onItsWay, fail := make(chan struct{}), make(chan struct{})
	s.committer.commit = func(func() error) error {
		close(onItsWay)
		<-fail
		return errDeliberate
	}
	release := hold(t, s)
	// Several, so that others do not wait for them.
	wait := enqueue(t, s, put(first), put(newWorkspace("beside")))
	release(2)
	<-onItsWay
	saw, next := make(chan error, 2), make(chan error, 2)
	for _, fn := range []func(domain.Tx) error{func(tx domain.Tx) error {
		saw <- nil
		return tx.PutWorkspace(second)
	}, func(tx domain.Tx) error {
		_, err := tx.WorkspaceID("first") // which is on its way
		saw <- err
		return domain.ErrNotFound // an operation that decides by what it reads
	}} {
		go func() { next <- s.Update(context.Background(), fn) }()
	}
	if err := errors.Join(<-saw, <-saw); err != nil {
		t.Errorf("what is on its way: got error %v, want it to be seen", err)
	}
	close(fail)
	for i, err := range append(wait(), <-next, <-next) {
		if !errors.Is(err, ErrStopped) {
			t.Errorf("operation %d: got error %v, want ErrStopped", i, err)
		}
	}
	if err := s.Update(t.Context(), put(newWorkspace("after"))); !errors.Is(err, ErrStopped) {
		t.Errorf("afterwards: got error %v, want ErrStopped", err)
	}
	err := s.View(t.Context(), func(r domain.Reader) error {
		if _, err := r.WorkspaceID("before"); err != nil {
			return err
		}
		for _, slug := range []string{"first", "second", "after"} {
			if _, err := r.WorkspaceID(slug); !errors.Is(err, domain.ErrNotFound) {
				return fmt.Errorf("%s: got error %w, want ErrNotFound", slug, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSequenceFailsInFlight acknowledges a group whose sequence file cannot be flushed. The
// next one, which is built on it already, changes nothing.
func TestSequenceFailsInFlight(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	s.committer.patience = wait.Limit
	inFlight, goOn := make(chan struct{}), make(chan struct{})
	var commits atomic.Int32
	s.committer.commit = func(commit func() error) error {
		if commits.Add(1) == 1 {
			close(inFlight)
			<-goOn
			s.committer.sequenceFile.mu.Lock()
			s.committer.sequenceFile.failed = errDeliberate
			s.committer.sequenceFile.mu.Unlock()
		}
		return commit()
	}
	release := hold(t, s)
	wait := enqueue(t, s, put(newWorkspace("first")), put(newWorkspace("beside")))
	release(2)
	<-inFlight
	ran, next := make(chan struct{}), make(chan error, 1)
	go func() {
		next <- s.Update(context.Background(), func(tx domain.Tx) error {
			close(ran)
			return tx.PutWorkspace(newWorkspace("second"))
		})
	}()
	<-ran
	close(goOn)
	if err := errors.Join(wait()...); err != nil {
		t.Errorf("the group, which is durable: got error %v, want none", err)
	}
	if err := <-next; !errors.Is(err, ErrStopped) || !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("the next one: got error %v, want ErrStopped and that it is unavailable", err)
	}
	if n := commits.Load(); n != 1 {
		t.Errorf("there were %d commits, want 1", n)
	}
}

// TestManyGroupsInFlight runs until each group builds on one in flight. It then reads back
// the results that each operation got.
func TestManyGroupsInFlight(t *testing.T) {
	folder := t.TempDir()
	s := mustOpen(t, folder)
	home := newWorkspace("home")
	if err := s.Update(t.Context(), put(home)); err != nil {
		t.Fatal(err)
	}
	const writers, each = 32, 40
	var wg sync.WaitGroup
	write := func(i int) error {
		for n := range each {
			err := s.Update(t.Context(), func(tx domain.Tx) error {
				// All count on one, and each on its own.
				all, err := tx.Preset(home.ID, "all")
				if errors.Is(err, domain.ErrNotFound) {
					all, err = newPreset(home.ID, "all"), nil
					all.LatestVersion = 0
				}
				if err != nil {
					return err
				}
				all.LatestVersion++
				own := newPreset(home.ID, fmt.Sprint("p-", i))
				own.LatestVersion = n + 1
				return errors.Join(tx.PutPreset(all), tx.PutPreset(own))
			})
			if err != nil {
				return err
			}
			err = s.View(t.Context(), func(r domain.Reader) error {
				own, err := r.Preset(home.ID, fmt.Sprint("p-", i))
				if own.LatestVersion != n+1 {
					return fmt.Errorf("writer %d: got %d, want %d (%w)", i, own.LatestVersion, n+1, err)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	for i := range writers {
		wg.Go(func() {
			if err := write(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	check := func(s *Store) {
		t.Helper()
		err := s.View(t.Context(), func(r domain.Reader) error {
			all, err := r.Preset(home.ID, "all")
			if all.LatestVersion != writers*each {
				t.Errorf("got %d, want %d", all.LatestVersion, writers*each)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		checkLists(t, s)
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(mustOpen(t, folder))
}

// TestLateCommit is a flush that takes longer than a write waits for. Its outcome is unknown
// until it ends; what comes meanwhile is refused, and is not built on it.
func TestLateCommit(t *testing.T) {
	for name, fails := range map[string]bool{"in the end it works": false, "in the end it fails": true} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir())
			if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
				t.Fatal(err)
			}
			s.committer.patience = 50 * time.Millisecond
			inFlight, goOn := make(chan struct{}), make(chan struct{})
			works := s.committer.commit
			s.committer.commit = func(commit func() error) error {
				s.committer.commit = works
				close(inFlight)
				<-goOn
				if err := commit(); err != nil || !fails {
					return err
				}
				return errDeliberate
			}
			late, behind := make(chan error, 1), make(chan error, 1)
			go func() {
				end := time.Now().Add(wait.Limit)
				for {
					err := s.Update(context.Background(), put(newWorkspace("late")))
					select {
					case <-inFlight:
					case <-time.After(time.Millisecond):
						if errors.Is(err, domain.ErrUnavailable) && time.Now().Before(end) {
							continue // it was given up before it got to the disk
						}
					}
					late <- err
					return
				}
			}()
			select {
			case <-inFlight:
			case err := <-late:
				t.Fatalf("before it got to the disk: got error %v", err)
			}
			go func() { behind <- s.Update(context.Background(), put(newWorkspace("behind"))) }()
			if err := <-late; !errors.Is(err, domain.ErrUnknown) || errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("the late one: got error %v, want ErrUnknown", err)
			}
			first := <-behind
			s.committer.patience = wait.Limit // a slow write that lands would be made twice
			for _, err := range []error{first, s.Update(t.Context(), put(newWorkspace("behind")))} {
				if !errors.Is(err, domain.ErrUnavailable) || errors.Is(err, domain.ErrUnknown) {
					t.Errorf("one behind it: got error %v, want that it is unavailable", err)
				}
			}
			if _, err := workspace(s, "before"); err != nil {
				t.Errorf("a read: %v", err)
			}
			if _, err := workspace(s, "late"); !errors.Is(err, domain.ErrNotFound) {
				t.Errorf("what has not landed: got error %v, want ErrNotFound", err)
			}
			close(goOn)
			if fails {
				wait.Until(t, "writing stops", s.committer.halted.Load)
				if err := s.Update(t.Context(), put(newWorkspace("after"))); !errors.Is(err, ErrStopped) {
					t.Errorf("afterwards: got error %v, want ErrStopped", err)
				}
				return
			}
			wait.Until(t, "the late one is seen", func() bool { _, err := workspace(s, "late"); return err == nil })
			wait.Until(t, "what comes later is built on it", func() bool {
				return s.Update(t.Context(), func(tx domain.Tx) error {
					if _, err := tx.WorkspaceID("late"); err != nil {
						return err
					}
					return tx.PutWorkspace(newWorkspace("after"))
				}) == nil
			})
		})
	}
}
