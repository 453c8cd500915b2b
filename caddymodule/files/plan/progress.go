package plan

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// concurrency is how many requests read from a server at a time.
const concurrency = 16

// inParallel calls read with all indexes below count, and tells its progress. It returns the first
// error, after which it calls no more.
func inParallel(ctx context.Context, count int, progress func(done, all int), read func(ctx context.Context, i int) error) error {
	told := counter{tell: progress, all: count}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range count {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err // maybe of ctx, without a request
			}
			err := read(groupCtx, i)
			if err == nil {
				told.add()
			}
			return err
		})
	}
	return group.Wait()
}

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
