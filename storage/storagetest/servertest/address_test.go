package servertest

import (
	"net"
	"testing"
)

// A server gets its reserved port repeatedly, and no other program gets it.
func TestReserveAddress(t *testing.T) {
	address := FreeAddress(t)
	for range 3 {
		server, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		server.Close()
	}
	given := map[string]bool{address: true}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if given[l.Addr().String()] {
			t.Fatalf("%s was given to another", l.Addr())
		}
		given[l.Addr().String()] = true
	}
}
