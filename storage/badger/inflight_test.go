package badger

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

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
