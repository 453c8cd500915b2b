package badger

import (
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
)

// In a large store, compactions do not keep up with all that the processors can write. Level 0 then
// grows until Badger lets writes wait for the end of a compaction, which takes many seconds. So
// the store takes writes ever more slowly before that.
const (
	// compactTables is the number of tables from which level 0 is compacted. From slowTables on,
	// writes are held back. With stallTables, Badger adds no table and soon takes no write.
	compactTables = 20
	slowTables    = 30
	stallTables   = 40

	// slowRate is how many bytes a second the store takes with slowTables tables. Each further
	// table halves it, but not below slowestRate. Another table then takes a quarter of a minute.
	slowRate    = 32 << 20
	slowestRate = slowRate >> 6

	// backlogInterval is the least time between two messages about writes that are held back.
	backlogInterval = time.Minute
)

// durationOf returns how long this many bytes take while level 0 has so many tables, 0 if nothing
// holds them back.
func durationOf(size, tables int64) time.Duration {
	if tables < slowTables {
		return 0
	}
	rate := max(slowRate>>(tables-slowTables), slowestRate)
	return time.Duration(size) * time.Second / time.Duration(rate)
}

// backlog holds groups back while compactions do not keep up.
type backlog struct {
	due    time.Time    // when what was admitted has taken its duration
	logged time.Time    // when a message was last logged
	held   atomic.Int64 // nanoseconds
}

// Admit implements groupcommit.Exclusive. A group waits until the groups before it have taken their
// durations. It does not wait if it will be refused.
func (c *committer) Admit(g *groupcommit.Group[*badgerdb.Txn]) {
	if c.guard == nil {
		return
	}
	b, tables := &c.backlog, c.guard.levelZero.Load()
	if tables < slowTables {
		b.due = time.Time{}
		return
	}
	if wait := time.Until(b.due); wait > 0 {
		if _, err := c.guard.checkWritable(); err != nil {
			return
		}
		if time.Since(b.logged) > backlogInterval {
			b.logged = time.Now()
			c.logger.Warn("writes are held back: compactions do not keep up", zap.String("folder", c.guard.folder), zap.Int64("tables", tables))
		}
		c.hold(wait)
	}
	if now := time.Now(); b.due.Before(now) {
		b.due = now
	}
	b.due = b.due.Add(durationOf(limitsOf(c.db).SizeOf(g.Writes), tables))
}

// hold waits, but not for a store that is being closed.
func (c *committer) hold(wait time.Duration) {
	start := time.Now()
	defer func() { c.backlog.held.Add(int64(time.Since(start))) }()
	select {
	case <-time.After(wait):
	case <-c.closing.Done():
	}
}
