package caddymodule

import (
	"os/exec"
	"syscall"
)

// endWithServer lets a process that was not started yet end when this one does, or
// the thread that starts it.
func endWithServer(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
