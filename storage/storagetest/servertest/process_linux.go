package servertest

import (
	"os/exec"
	"syscall"
)

// EndWithTest makes a process end when this one does. It must not have been started yet. A
// test that times out runs no cleanup, so cleanups are not enough.
func EndWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
