//go:build !linux

package storagetest

// UseMemory does nothing here.
func UseMemory() (undo func()) { return func() {} }
