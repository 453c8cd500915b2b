//go:build !unix

package badger

import "os"

// lock only creates the file here. Badger takes its own lock once all tables were read.
func lock(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) }

// lockExisting only opens the file here.
func lockExisting(name string) (*os.File, error) { return os.Open(name) }
