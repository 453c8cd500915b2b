//go:build unix

package badger

import "golang.org/x/sys/unix"

// refusals are the system's errors that say nothing about what is in a file: another
// user, another limit or another time would read it. EIO is none of them: a disk that
// cannot read is as good as damaged.
var refusals = []error{
	unix.EACCES, unix.EPERM, unix.EROFS,
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT,
	unix.EAGAIN, unix.EINTR, unix.EBUSY,
	unix.ESTALE, unix.ETIMEDOUT, unix.ENOTCONN, // of a file system elsewhere
}
