//go:build unix

package badger

import "golang.org/x/sys/unix"

// refusals are the system's errors that say nothing about the content of a file. Another
// user or process could read it, or this one later. EIO is not among them: a disk that
// cannot read counts as damaged.
var refusals = []error{
	unix.EACCES, unix.EPERM, unix.EROFS,
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT,
	unix.EAGAIN, unix.EINTR, unix.EBUSY,
	unix.ESTALE, unix.ETIMEDOUT, unix.ENOTCONN, // of a file system elsewhere
}
