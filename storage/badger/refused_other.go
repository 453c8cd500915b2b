//go:build !unix && !windows

package badger

import "io/fs"

// refusals are the system's errors that say nothing about the content of a file.
var refusals = []error{fs.ErrPermission}
