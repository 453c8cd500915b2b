package storagetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports gives out loopback addresses for servers that tests start. Some systems, and Caddy,
// let several listen on the same port, so tests that run at the same time must not get
// the same: each package has a range of its own, below those that systems give out
// themselves.
type Ports struct {
	first, end int

	mu   sync.Mutex
	last int
}

// NewPorts returns the ports from first up to end, which is not one of them.
func NewPorts(first, end int) *Ports {
	return &Ports{first: first, end: end, last: first + rand.IntN(end-first)}
}

// Address returns an address that nobody listens on, and that no other call gets for long.
// It panics when there is none. It is safe for concurrent use.
func (p *Ports) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.end - p.first {
		if p.last++; p.last >= p.end {
			p.last = p.first
		}
		address := fmt.Sprintf("127.0.0.1:%d", p.last)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	panic("no free port")
}
