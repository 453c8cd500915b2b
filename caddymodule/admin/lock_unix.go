//go:build unix

package admin

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFolder waits until no other run has locked a folder, and keeps others out until release
// is called. The kernel calls release for a process that is killed. isAlone is false on a file
// system without such locks. If ctx ends meanwhile, the error is its cause.
func lockFolder(ctx context.Context, name string) (release func(), isAlone bool, err error) {
	folder, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	locked := make(chan error)
	go func() {
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(int(folder.Fd()), unix.LOCK_EX)
		}
		select {
		case locked <- err:
		case <-ctx.Done():
			_ = folder.Close()
		}
	}()
	select {
	case err := <-locked:
		return func() { _ = folder.Close() }, err == nil, nil
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
}
