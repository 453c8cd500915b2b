package groupcommit

import "sync"

// Gate lets calls in until it is closed, and then waits for those inside. Unlike a read
// lock, it turns latecomers away at once. The zero Gate is open. It is safe for concurrent
// use.
type Gate struct {
	mu     sync.RWMutex
	closed bool
	inside sync.WaitGroup
}

// Enter reports whether the gate is open. If so, the call ends with Leave.
func (g *Gate) Enter() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

// Leave ends a call that Enter let in.
func (g *Gate) Leave() { g.inside.Done() }

// Close turns all later calls away.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait returns once all calls have left, after Close.
func (g *Gate) Wait() { g.inside.Wait() }
