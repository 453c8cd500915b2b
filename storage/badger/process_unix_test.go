//go:build unix

package badger

import (
	"os/exec"
	"sync"
	"testing"
)

// TestOpenBesideNewProcesses closes and opens a store while other goroutines start processes.
// A process has the files of its parent, and their locks, until it executes its program.
func TestOpenBesideNewProcesses(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	done := make(chan struct{})
	var starting sync.WaitGroup
	defer starting.Wait()
	defer close(done)
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := exec.Command(program).Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 40 {
		s, err := Open(folder, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
