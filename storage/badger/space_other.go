//go:build !linux && !darwin && !freebsd && !dragonfly

package badger

import "math"

// freeSpace reports unlimited space here, so nothing protects against a full disk.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }
