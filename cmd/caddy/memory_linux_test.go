package main_test

import (
	"os"
	"syscall"
)

// maxMemory returns the most memory that a process had, in bytes.
func maxMemory(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int64(usage.Maxrss) << 10 //nolint:unconvert // it has 32 bits on some systems
}
