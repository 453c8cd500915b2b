//go:build !linux

package e2e

import "os"

// peakMemory is not known here.
func peakMemory(*os.ProcessState) string { return "unknown memory" }
