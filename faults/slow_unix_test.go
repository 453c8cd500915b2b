//go:build faults && unix

package faults

import "syscall"

// smallBuffer lets a connection take in little that nobody has read yet.
func smallBuffer(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
}
