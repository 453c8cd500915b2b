//go:build unix

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockFolder waits until no other run has locked a folder, and keeps others out until release
// is called. It writes to messages if it has to wait. The lock ends with the process. isAlone
// is false on a file system without such locks. If ctx ends meanwhile, the error is its cause.
func lockFolder(ctx context.Context, name string, messages io.Writer) (release func(), isAlone bool, err error) {
	folder, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	unlock := func() { _ = folder.Close() }
	if err = flock(folder, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return unlock, err == nil, nil
	}
	fmt.Fprintf(messages, "Waiting for another run, which has locked %s.\n", name)
	locked := make(chan error)
	go func() {
		err := flock(folder, unix.LOCK_EX)
		select {
		case locked <- err:
		case <-ctx.Done():
			unlock()
		}
	}()
	select {
	case err := <-locked:
		return unlock, err == nil, nil
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}

// flock is the system call. Signals do not end it.
func flock(file *os.File, how int) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(file.Fd()), how)
	}
	return err
}
