package webhook

import "sync"

// Queues are the queues of one store's events, by the URL of their receiver. They outlive
// reloads. Their methods are safe for concurrent use.
type Queues struct {
	limits Limits // of each queue
	mu     sync.Mutex
	queues map[string]*Queue
}

// NewQueues returns an empty set of queues. Each queue will have these limits.
func NewQueues(by Limits) *Queues { return &Queues{limits: by, queues: make(map[string]*Queue)} }

// Add makes queues use receivers, until Remove. The newest receiver of a URL applies.
func (q *Queues) Add(receivers []*Receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range receivers {
		queue := q.queues[r.URL]
		if queue == nil {
			queue = newQueue(q.limits)
			q.queues[r.URL] = queue
		}
		queue.add(r)
	}
}

// Remove undoes an Add of the same receivers. It returns the queues without a receiver, for
// Queue.Stop.
func (q *Queues) Remove(receivers []*Receiver) (unused []*Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range receivers {
		if queue := q.queues[r.URL]; queue.remove(r) {
			delete(q.queues, r.URL)
			unused = append(unused, queue)
		}
	}
	return unused
}

// IsEmpty reports whether an event would have no receiver.
func (q *Queues) IsEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queues) == 0
}

// Push queues an event for all receivers. It does not wait for them.
func (q *Queues) Push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, queue := range q.queues {
		queue.push(e)
	}
}
