//go:build faults && !unix

package faults

import "syscall"

// smallBuffer does nothing on this system.
func smallBuffer(_, _ string, _ syscall.RawConn) error { return nil }
