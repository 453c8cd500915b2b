//go:build !unix && !windows

package badger

import "io/fs"

// refusals are the system's errors that say nothing about what is in a file.
var refusals = []error{fs.ErrPermission}
