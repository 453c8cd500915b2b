package plan

import "sync"

// counter counts what several goroutines did, and tells somebody.
type counter struct {
	tell func(done, all int) // may be nil
	all  int

	mu   sync.Mutex
	done int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if c.tell != nil {
		c.tell(c.done, c.all)
	}
}
