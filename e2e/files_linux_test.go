package e2e

import (
	"fmt"
	"os"
	"syscall"
)

// peakMemory returns the largest resident memory of a process that ended.
func peakMemory(state *os.ProcessState) string {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return "unknown memory"
	}
	return fmt.Sprintf("%d MiB resident", usage.Maxrss>>10)
}
