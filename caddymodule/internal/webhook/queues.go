package webhook

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"sync"
	"time"
)

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

// State is how a receiver is doing.
type State struct {
	Host string `json:"host"`
	// Waiting is how many events wait or are being sent.
	Waiting int `json:"waiting"`
	// LastDelivery and LastFailure are the ends of the last requests, nil for none.
	LastDelivery *time.Time `json:"last_delivery"`
	LastFailure  *time.Time `json:"last_failure"`
}

// State returns how the receivers are doing, in the order of their hosts.
func (q *Queues) State() []State {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]State, 0, len(q.queues))
	for _, queue := range q.queues {
		queue.mu.Lock()
		all = append(all, State{queue.last.Host, queue.waiting, queue.delivered.Load(), queue.failed.Load()})
		queue.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b State) int { return cmp.Compare(a.Host, b.Host) })
	return all
}

// ParseURL returns an error unless text can be the URL of a receiver. The error does not show the URL,
// which may hold a token.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.Fragment != "":
		return nil, errors.New("must be an absolute URL with http or https, and without a fragment")
	case u.User != nil:
		return nil, errors.New("must hold no user and password, since the configuration can be read")
	}
	return u, nil
}
