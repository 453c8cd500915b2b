package badger

import (
	"sync/atomic"
	"time"
)

// In a large store, compactions do not keep up with all that the processors can write. Level 0 then
// grows until Badger lets writes wait for the end of a compaction, which takes many seconds. So
// groups are written ever more slowly before that, and none of them waits that long.
const (
	// compactTables is the number of tables from which level 0 is compacted. From slowTables on,
	// groups are slowed down. With stallTables, Badger adds no table and soon takes no write.
	compactTables = 20
	slowTables    = 30
	stallTables   = 40

	// slowRate is how many bytes a second are written with slowTables tables. Each further table
	// halves it, but not below slowestRate. Another table then takes a quarter of a minute.
	slowRate    = 32 << 20
	slowestRate = slowRate >> 6
	// longestPause leaves time for the disk to a group that was slowed down.
	longestPause = diskPatience / 2
)

// pauseOf returns how long a group of this many bytes waits while level 0 has so many tables.
func pauseOf(size, tables int64) time.Duration {
	if tables < slowTables {
		return 0
	}
	rate := max(slowRate>>(tables-slowTables), slowestRate)
	return min(time.Duration(size)*time.Second/time.Duration(rate), longestPause)
}

// pauses lets groups wait for compactions.
type pauses struct {
	sleep func(time.Duration) // time.Sleep, but for tests
	total atomic.Int64        // nanoseconds
}

// pause waits before a group of this many bytes while level 0 has so many tables.
func (p *pauses) pause(size, tables int64) {
	if pause := pauseOf(size, tables); pause > 0 {
		p.sleep(pause)
		p.total.Add(int64(pause))
	}
}
