package badger

import (
	"os/exec"
	"syscall"
)

// endWithServer lets a process that was not started yet end when this one does, or
// the thread that starts it.
func endWithServer(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// ownProgram returns the program that runs, also when a newer one has taken its place,
// which may judge a store differently.
func ownProgram() (string, error) { return "/proc/self/exe", nil }
