//go:build !unix

package badger

import "os"

// locks reports whether lock locks anything here.
const locks = false

// lock only creates the file here. Badger takes its own lock once all tables were read.
func lock(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600) }

// lockExisting only opens the file here.
func lockExisting(name string) (*os.File, error) { return os.Open(name) }

// unlock closes a file that lock returned.
func unlock(file *os.File) error { return file.Close() }

// checkDescriptors does nothing here: the number of open files has no limit.
func checkDescriptors(string) error { return nil }
