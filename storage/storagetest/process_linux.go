package storagetest

import (
	"os/exec"
	"syscall"
)

// EndWithTest lets a process that was not started yet end when this one does, however that
// ends: a test that takes too long runs no cleanup.
func EndWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
