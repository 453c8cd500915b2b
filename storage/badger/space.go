package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
)

const (
	// flushSpace is what Badger may have to write of what it holds in memory: a
	// table for each memtable, and the one that is being filled.
	flushSpace = 3 * memTableSize
	// minFree is how much space a file system must have left for a write, and for
	// opening a store: Badger writes through memory maps, and the system kills a
	// process that does so without space.
	minFree = 2 * flushSpace // twice, because others write, too

	// logSize is how large Badger makes a write-ahead log.
	logSize = 2 * memTableSize

	ballastName = "BALLAST"
	// ballastSize is how much space is set aside in a file. It is what there is to
	// give to a compaction that is under way when others have filled the disk, and
	// to a start on a disk that is full.
	ballastSize = minFree
	// ballastFloor is when it is given up. What fills the disk would take it too, if
	// it still had the rest to take.
	ballastFloor = 4 << 20
	// quietTime is how long no write was refused until the operator is told so: what is
	// needed comes and goes with each compaction.
	quietTime = 5 * time.Second
	// ballastDelay spares stores that are soon closed again one.
	ballastDelay = 2 * time.Second

	// While a store was written to within busyFor the guard looks at every
	// busyInterval, and else at every idleInterval.
	busyFor      = 10 * time.Second
	busyInterval = 5 * time.Millisecond
	idleInterval = 250 * time.Millisecond
)

// spaceOf returns the space that a database may need for what it does on its own: for
// what it has in memory, and for a compaction of level 0, which writes that and the
// level below anew before it removes anything.
func spaceOf(db *badgerdb.DB) uint64 {
	needed := uint64(flushSpace)
	for _, level := range db.Levels() {
		if level.Level == 0 || level.IsBaseLevel {
			needed += uint64(level.Size)
		}
	}
	return needed
}

// guard sees to it that there is space for what Badger writes. It refuses writes
// while there is little, which Badger would not survive, and gives the ballast to
// what it has begun.
type guard struct {
	folder string
	free   func(folder string) (uint64, error)
	logger *zap.Logger

	needed          atomic.Uint64          // what Badger may need
	ballastDebt     atomic.Uint64          // what the ballast lacks, to have it again before anyone writes
	lastWrite       atomic.Int64           // Unix nanoseconds
	heldCompactions atomic.Int32           // compactions that hold holds
	closing         atomic.Bool            // the store is
	step            atomic.Pointer[func()] // called before each step of a Reclaim, nil without one
	noBallast       bool                   // the file system cannot have one

	opened os.FileInfo // the folder, nil until it was opened

	quiet   time.Duration // without a refusal until that is told of
	mu      sync.Mutex
	level   spaceLevel // as it was told last
	refused time.Time  // the last time

	quit, done chan struct{} // nil until watch
}

// spaceLevel is how much space there is, in an operator's terms.
type spaceLevel int

const (
	spaceAmple spaceLevel = iota
	// spaceLow is less than twice of what writes need.
	spaceLow
	// spaceShort refuses writes.
	spaceShort
)

// newGuard returns a guard of a folder.
func newGuard(folder string, free func(folder string) (uint64, error), logger *zap.Logger) *guard {
	g := &guard{folder: folder, free: free, logger: logger, quiet: quietTime}
	g.needed.Store(minFree)
	if info, err := os.Stat(g.ballast()); err == nil && info.Size() < ballastSize {
		g.ballastDebt.Store(ballastSize) // it was given up, or never finished
	}
	return g
}

func (g *guard) ballast() string { return filepath.Join(g.folder, ballastName) }

// room returns the space there is for us, and an error where Badger may need more.
func (g *guard) room() (free uint64, err error) {
	free, err = g.free(g.folder)
	if err != nil {
		return 0, fmt.Errorf("%w: the free disk space is unknown: %w", errUnavailable, err)
	}
	if needed := g.needed.Load(); free < needed {
		return free, fmt.Errorf("%w: %d MiB are free, %d are needed", ErrDiskFull, free>>20, needed>>20)
	}
	return free, nil
}

// withBallast returns an error where there is too little space, to open a store, say,
// even without the ballast, which it gives up if that helps. Opening takes minFree:
// compactions, which may take more, are held then.
func (g *guard) checkOpening() error {
	_, err := g.room()
	if errors.Is(err, ErrDiskFull) && g.release() {
		_, err = g.room()
	}
	return err
}

// forWriting returns an error where a write has to wait, and tells the operator.
func (g *guard) forWriting() error {
	free, err := g.checkWritable()
	g.logChange(free, err)
	if err == nil {
		g.lastWrite.Store(time.Now().UnixNano())
	}
	return err
}

// writable returns the space there is, and why writes have to wait.
func (g *guard) checkWritable() (free uint64, err error) {
	if err := g.checkSameFolder(); err != nil {
		return 0, err
	}
	if err := checkDescriptors(g.folder); err != nil {
		return 0, err // Badger may be about to begin another log
	}
	if g.heldCompactions.Load() > 0 {
		return 0, errHeld
	}
	free, err = g.room()
	if needed := g.needed.Load() + g.ballastDebt.Load(); err == nil && free < needed {
		err = fmt.Errorf("%w: %d MiB are free, %d are needed until there is a ballast again", ErrDiskFull, free>>20, needed>>20)
	}
	return free, err
}

var errHeld = fmt.Errorf("%w: a compaction waits until it can write", errUnavailable)

// sameFolder returns an error where the folder is not the one that was opened any more:
// what is written would go to files that no start finds.
func (g *guard) checkSameFolder() error {
	now, err := os.Stat(g.folder)
	if err == nil && g.opened != nil && !os.SameFile(g.opened, now) {
		err = errors.New("another folder has taken its place")
	}
	if err == nil && g.opened != nil {
		_, err = os.Stat(filepath.Join(g.folder, MarkerName))
	}
	if err != nil {
		return fmt.Errorf("%w: files of the open store have been moved or removed; put them back, or restart: %w", errUnavailable, err)
	}
	return nil
}

// tell tells the operator when writes begin to be refused, for err, or are accepted
// again, and when space is getting short.
func (g *guard) logChange(free uint64, err error) {
	needed := g.needed.Load() + g.ballastDebt.Load()
	level := spaceAmple
	switch {
	case err != nil:
		level = spaceShort
	case free < 2*needed:
		level = spaceLow
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.level
	if level == spaceShort {
		g.refused = time.Now()
	} else if before == spaceShort && time.Since(g.refused) < g.quiet {
		return
	}
	if level == before || level == spaceAmple && before == spaceLow && free < 5*needed/2 {
		return // not at every coming and going
	}
	g.level = level
	fields := []zap.Field{zap.String("folder", g.folder), zap.Uint64("free_bytes", free), zap.Uint64("needed_bytes", needed)}
	switch {
	case level == spaceShort:
		g.logger.Error("writes are refused: they cannot be made at the moment; reads go on", append(fields, zap.Error(err))...)
	case before == spaceShort:
		g.logger.Warn("writes are accepted again: there is nothing in their way", fields...)
	case level == spaceLow:
		g.logger.Warn("disk space is getting short: writes will be refused", fields...)
	default:
		g.logger.Info("there is enough disk space again", fields...)
	}
}

// watch keeps an eye on the space while db is open, until stop.
func (g *guard) watch(db *badgerdb.DB) {
	g.quit, g.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(g.done)
		opened, computed := time.Now(), time.Time{}
		for {
			now, interval := time.Now(), busyInterval
			if now.UnixNano()-g.lastWrite.Load() > int64(busyFor) {
				interval = idleInterval
			}
			if now.Sub(computed) >= idleInterval && !g.closing.Load() {
				computed = now
				g.needed.Store(max(spaceOf(db), minFree))
				g.refresh(now.Sub(opened) >= ballastDelay)
			} else if free, err := g.free(g.folder); err == nil && free < ballastFloor {
				g.release()
			}
			select {
			case <-time.After(interval):
			case <-g.quit:
				return
			}
		}
	}()
}

// look tells of the space there is, and gives up the ballast or, where it may,
// makes one: at first if there is ample space, and again as soon as there is room.
func (g *guard) refresh(mayMake bool) {
	free, err := g.checkWritable()
	needed := g.needed.Load()
	if g.ballastDebt.Load() == 0 {
		needed *= 2
	}
	switch {
	case err != nil && !errors.Is(err, ErrDiskFull):
	case free < ballastFloor:
		g.release()
	case mayMake && free >= needed+ballastSize:
		g.makeBallast()
	}
	g.logChange(free, err)
}

// release gives up the ballast. It returns false where there is none.
func (g *guard) release() bool {
	info, err := os.Stat(g.ballast())
	if err != nil || info.Size() == 0 {
		return false
	}
	if err := os.Truncate(g.ballast(), 0); err != nil {
		return false
	}
	g.ballastDebt.Store(ballastSize)
	g.logger.Warn("the disk is full: its ballast was given to the store", zap.String("folder", g.folder))
	return true
}

// makeBallast makes a ballast if there is none. After a failure a later call tries again,
// unless the file system cannot reserve space.
func (g *guard) makeBallast() {
	info, err := os.Stat(g.ballast())
	if g.noBallast || err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == ballastSize {
		return
	}
	file, err := os.OpenFile(g.ballast(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	switch err := allocate(file, ballastSize); {
	case errors.Is(err, errors.ErrUnsupported):
		g.noBallast = true
		_ = os.Remove(g.ballast())
	case err != nil: // the disk is full again; what was allocated goes back
		_ = file.Truncate(0)
		return
	}
	g.ballastDebt.Store(0)
}

// stop ends watching, if anyone watches.
func (g *guard) stop() {
	if g.quit == nil {
		return
	}
	close(g.quit)
	<-g.done
	g.quit = nil
}

// forClosing returns an error where Badger could not write what it holds in memory,
// and compact, without the process being killed for it. It gives up the ballast for
// that.
func (g *guard) checkClosing(db *badgerdb.DB) error {
	g.needed.Store(spaceOf(db))
	err := g.checkOpening()
	if errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("the store is left as it is, which loses nothing: %w", err)
	}
	return nil // perhaps with the space unknown
}
