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

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

const (
	// flushSpace is the space that Badger needs to write its memory to tables. One memtable is
	// written, numMemtables wait for that, and one is in use. A table has at most the content
	// of a log.
	flushSpace = (numMemtables + 2) * reservedLog
	// minFree is the space that a write, and opening a store, needs at least. Badger
	// writes through memory maps, and the system kills a process whose write to a map
	// finds no space. It is more than flushSpace, because other processes write too.
	minFree = 8 * memTableSize

	// reservedLog is how much of a write-ahead log is reserved. Badger makes the file twice
	// as long as a memtable. It begins the next log once this one has the length of a
	// memtable. Before that it writes at most one more transaction. A transaction has at
	// most 15 % of a memtable, and 26 bytes for each of its entries.
	reservedLog = memTableSize + memTableSize/4

	ballastName = "BALLAST"
	// ballastSize is the size of the ballast, a file that reserves space. It is freed when
	// the disk is full, for the revocation of a key or for a start.
	ballastSize = minFree
	// quietTime is the time without a refused write after which the log says that writes
	// are accepted again. The needed space changes with each compaction.
	quietTime = 5 * time.Second
	// ballastDelay is the time after opening until the ballast is made. A store that is
	// closed sooner needs none.
	ballastDelay = 2 * time.Second

	// levelsInterval is how often the guard looks at the levels.
	levelsInterval = 250 * time.Millisecond
)

// spaceOf returns the space that a database with these levels may need in the background. It
// writes its memory to tables, and compacts level 0. A compaction rewrites level 0 and the level
// below before it removes anything.
func spaceOf(levels []badgerdb.LevelInfo) uint64 {
	needed := uint64(flushSpace)
	for _, level := range levels {
		if level.Level == 0 || level.IsBaseLevel {
			needed += uint64(level.Size)
		}
	}
	return needed
}

// guard refuses writes while the disk has too little space, because Badger would crash.
type guard struct {
	folder string
	free   func(folder string) (uint64, error)
	logger *zap.Logger

	needed          atomic.Uint64 // what Badger may need
	levelZero       atomic.Int64  // tables of level 0
	ballastDebt     atomic.Uint64 // space that writes leave free until there is a ballast
	heldCompactions atomic.Int32  // compactions that wait until they can write
	noBallast       bool          // the file system cannot have one

	opened os.FileInfo // the folder, nil until it was opened

	mu      sync.Mutex
	refused time.Time // when a write was last refused, zero once the log says that writes are accepted

	quit, done chan struct{} // nil until watch
}

// newGuard returns a guard of a folder.
func newGuard(folder string, free func(folder string) (uint64, error), logger *zap.Logger) *guard {
	g := &guard{folder: folder, free: free, logger: logger}
	g.needed.Store(minFree)
	if info, err := os.Stat(g.ballast()); err == nil && info.Size() < ballastSize {
		g.ballastDebt.Store(ballastSize) // it was given up, or never finished
	}
	return g
}

func (g *guard) ballast() string { return filepath.Join(g.folder, ballastName) }

// room returns the free space, and an error if Badger may need more.
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

// checkOpening returns an error if there is too little space to open a store. It frees the
// ballast if that is needed. Opening needs minFree. A compaction, which may need more, is
// held meanwhile.
func (g *guard) checkOpening() error {
	_, err := g.room()
	if errors.Is(err, ErrDiskFull) && g.release() {
		_, err = g.room()
	}
	return err
}

// checkWritesAllowed returns an error while writes are refused, and logs a change of that.
func (g *guard) checkWritesAllowed() error {
	free, err := g.checkWritable()
	g.logChange(free, err)
	return err
}

// useReserve returns an error unless there is space to write what Badger has in memory to tables. It
// frees the ballast if that is needed. A few small writes are safe then, although others are refused:
// what they require besides is for compactions, which are held, and for other programs.
func (g *guard) useReserve() error {
	free, err := g.free(g.folder)
	if err == nil && free < flushSpace && g.release() {
		free, err = g.free(g.folder)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: the free disk space is unknown: %w", errUnavailable, err)
	case free < flushSpace:
		return fmt.Errorf("%w: %d MiB are free, and the reserve is used up", ErrDiskFull, free>>20)
	}
	return nil
}

// checkWritable returns the free space, and the reason while writes are refused.
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

var errHeld = fmt.Errorf("%w: a compaction is held until it can write", errUnavailable)

// checkSameFolder returns an error if the folder was moved or replaced since it was opened.
// The next start would not find what is written then.
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

// logChange logs that writes are refused because of err, or that they are accepted again.
func (g *guard) logChange(free uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, wasRefused := time.Now(), !g.refused.IsZero()
	fields := []zap.Field{zap.String("folder", g.folder), zap.Uint64("free_bytes", free), zap.Uint64("needed_bytes", g.needed.Load()+g.ballastDebt.Load())}
	switch {
	case err != nil:
		g.refused = now
		if !wasRefused {
			g.logger.Error("writes are refused: they cannot be made at the moment; reads go on", append(fields, zap.Error(err))...)
		}
	case wasRefused && now.Sub(g.refused) >= quietTime: // the free space goes up and down
		g.refused = time.Time{}
		g.logger.Warn("writes are accepted again: there is nothing in their way", fields...)
	}
}

// watch measures the free space while db is open, until stop.
func (g *guard) watch(db *badgerdb.DB) {
	g.quit, g.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(g.done)
		for opened := time.Now(); ; {
			fileowner.Adopt(g.folder) // a killed server of root leaves its files, too
			g.measure(db)
			g.refresh(time.Since(opened) >= ballastDelay)
			select {
			case <-time.After(levelsInterval):
			case <-g.quit:
				return
			}
		}
	}()
}

// measure computes what depends on the levels of db.
func (g *guard) measure(db *badgerdb.DB) {
	levels := db.Levels()
	g.needed.Store(max(spaceOf(levels), minFree))
	g.levelZero.Store(int64(levels[0].NumTables))
}

// refresh logs a change of the free space. It makes a ballast if mayMake is set and there is
// space. The first ballast needs ample space, and a later one less.
func (g *guard) refresh(mayMake bool) {
	free, err := g.checkWritable()
	needed := g.needed.Load()
	if g.ballastDebt.Load() == 0 {
		needed *= 2
	}
	if mayMake && (err == nil || errors.Is(err, ErrDiskFull)) && free >= needed+ballastSize {
		g.makeBallast()
	}
	g.logChange(free, err)
}

// release frees the ballast. It returns false if there is none.
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

// checkClosing returns an error if Badger has too little space to write its memory to
// tables and to compact them. It frees the ballast if needed.
func (g *guard) checkClosing(db *badgerdb.DB) error {
	g.needed.Store(spaceOf(db.Levels()))
	err := g.checkOpening()
	if errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("the store is left as it is, which loses nothing: %w", err)
	}
	return nil // the free space may be unknown
}
