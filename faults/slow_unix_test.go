//go:build faults && unix

package faults

import "syscall"

// smallBuffer makes the receive buffer of a connection small.
func smallBuffer(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
}
