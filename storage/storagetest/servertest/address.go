package servertest

import (
	"fmt"
	"net"
	"testing"
)

// ReserveAddress returns a loopback address for a server that a test starts. The kernel
// chooses the port. An open connection holds it until release is called, so the kernel
// gives it to no other process. A server that asks for this port gets it, also after a restart.
// ReserveAddress panics when the system has no port or no file descriptor left. It is safe
// for concurrent use.
func ReserveAddress() (address string, release func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Errorf("reserving a port: %w", err))
	}
	defer listener.Close()
	address = listener.Addr().String()
	near, err := net.Dial("tcp", address)
	if err != nil {
		panic(fmt.Errorf("reserving a port: %w", err))
	}
	far, err := listener.Accept()
	if err != nil {
		panic(fmt.Errorf("reserving a port: %w", err))
	}
	return address, func() {
		near.Close()
		far.Close()
	}
}

// FreeAddress returns a loopback address that ReserveAddress holds until the test ends.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, release := ReserveAddress()
	t.Cleanup(release)
	return address
}
