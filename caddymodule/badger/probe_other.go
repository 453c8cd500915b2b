//go:build !linux

package badger

import (
	"os"
	"os/exec"
)

// endWithServer would let a process end when this one does. Here it runs on, and does
// no harm.
func endWithServer(*exec.Cmd) {}

// ownProgram returns the program that runs.
func ownProgram() (string, error) { return os.Executable() }
