//go:build !linux

package badger

import (
	"os"
	"os/exec"
)

// endWithServer does nothing on this system. The other process ends by itself.
func endWithServer(*exec.Cmd) {}

// ownProgram returns the program that runs.
func ownProgram() (string, error) { return os.Executable() }
