//go:build unix

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a run looks whether the one before it has ended.
const lockPoll = 20 * time.Millisecond

// lockFolder waits until no other run has locked a folder, and keeps others out until release
// is called. It writes to messages if it has to wait. The lock ends with the process. isAlone
// is false on a file system without such locks. If ctx ends meanwhile, the error is its cause.
func lockFolder(ctx context.Context, name string, messages io.Writer) (release func(), isAlone bool, err error) {
	folder, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	release = func() { _ = folder.Close() }
	for isWaiting := false; ; isWaiting = true {
		if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return release, err == nil, nil
		}
		if !isWaiting {
			fmt.Fprintf(messages, "Waiting for another run, which has locked %s.\n", name)
		}
		select {
		case <-ctx.Done():
			release()
			return nil, false, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}
