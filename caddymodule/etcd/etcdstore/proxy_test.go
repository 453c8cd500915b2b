package etcdstore

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy is a TCP proxy on loopback between a store and a member. It can simulate failures.
type proxy struct {
	address, to string
	listener    net.Listener

	mu      sync.Mutex
	changed *sync.Cond
	conns   map[net.Conn]bool
	cut     bool // it closes connections, old and new
	// Data read in either direction is held until it may continue, or dropped. After a drop
	// the connection is closed, because later bytes would make no sense.
	paused, swallowing [2]bool
	swallowed          [2]int
	delay              time.Duration // of all, in both directions
	cutAfter           int           // bytes of answers until the connections are closed, or 0
}

// The directions of a proxy.
const (
	requests = 0
	answers  = 1
)

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), to: to, listener: listener, conns: make(map[net.Conn]bool)}
	p.changed = sync.NewCond(&p.mu)
	go p.serve()
	t.Cleanup(func() {
		p.listener.Close()
		p.set(func() { p.cut, p.paused = true, [2]bool{} })
	})
	return p
}

// set changes what the proxy does. A cut ends all connections.
func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	if p.cut {
		for conn := range p.conns {
			conn.Close()
		}
	}
	p.changed.Broadcast()
}

func (p *proxy) setCut(cut bool) { p.set(func() { p.cut = cut }) }

func (p *proxy) serve() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to)
		if err != nil {
			from.Close()
			continue
		}
		p.mu.Lock()
		cut := p.cut
		p.conns[from], p.conns[to] = true, true
		p.mu.Unlock()
		if cut {
			p.end(from, to)
			continue
		}
		go p.copy(requests, from, to)
		go p.copy(answers, to, from)
	}
}

func (p *proxy) end(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

func (p *proxy) copy(direction int, from, to net.Conn) {
	defer p.end(from, to)
	type chunk struct {
		bytes []byte
		due   time.Time
	}
	chunks := make(chan chunk, 1024) // on their way
	defer close(chunks)
	go func() {
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.bytes); err != nil {
				p.end(from, to)
			}
		}
	}()
	for {
		buffer := make([]byte, 64<<10)
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		for p.paused[direction] {
			p.changed.Wait()
		}
		if direction == answers && p.cutAfter > 0 {
			if p.cutAfter -= n; p.cutAfter <= 0 {
				p.cut = true
			}
		}
		cut := p.cut
		swallow, delay := p.swallowing[direction], p.delay
		if swallow {
			p.swallowed[direction] += n
		}
		p.mu.Unlock()
		if cut {
			p.setCut(true)
			return
		}
		if swallow {
			continue
		}
		chunks <- chunk{buffer[:n], time.Now().Add(delay)}
	}
}

// lost returns the number of bytes dropped in a direction since renew.
func (p *proxy) lost(direction int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallowed[direction]
}

// renew closes all connections. New ones work.
func (p *proxy) renew() {
	p.set(func() {
		p.swallowed = [2]int{}
		p.swallowing, p.paused = [2]bool{}, [2]bool{}
		for conn := range p.conns {
			conn.Close()
		}
	})
}

// proxied puts a proxy before each member. It returns the proxies and their addresses.
func proxied(t *testing.T, members []*member) (proxies []*proxy, endpoints []string) {
	t.Helper()
	for _, m := range members {
		p := newProxy(t, m.address)
		proxies, endpoints = append(proxies, p), append(endpoints, p.address)
	}
	return proxies, endpoints
}
