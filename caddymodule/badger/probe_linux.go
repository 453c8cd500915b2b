package badger

import (
	"os/exec"
	"syscall"
)

// endWithServer makes a process end when the thread that starts it ends. Call it before
// the start.
func endWithServer(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// ownProgram returns the running program, even if its file was replaced. Another version
// might judge a store differently.
func ownProgram() (string, error) { return "/proc/self/exe", nil }
