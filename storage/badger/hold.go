package badger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
)

// spareDescriptors is how many files this process has to be able to open besides, or
// a quarter of what it may if that is less. It is about ten times as many as a server
// accepts connections in the time in which Badger creates a table.
const spareDescriptors = 4096

var errDescriptors = fmt.Errorf("%w: the process has nearly as many files open as it may", errUnavailable)

// holdInterval is how often a compaction that is held looks whether it can go on.
const holdInterval = 50 * time.Millisecond

// tableFollows is what Badger logs, at debug level, on the goroutine of a compaction
// just before this creates a table.
const tableFollows = "[%d] LOG Compact. Added "

// hold holds a compaction that is about to create a table until that will succeed.
//
// Badger takes no notice when a compaction fails to create a table: it removes the
// tables that this was made from all the same, and what was in them is lost. So a
// moment without a free descriptor or inode would lose records, and one without disk
// space would end the process. Its log is the one place where it can be held.
func (g *guard) holdCompaction() {
	err := g.checkTableSpace()
	if err == nil {
		return
	}
	g.heldCompactions.Add(1)
	defer g.heldCompactions.Add(-1)
	g.logger.Error("a compaction is held, and writes are refused, until it can write", zap.String("folder", g.folder), zap.Error(err))
	for err != nil {
		time.Sleep(holdInterval)
		err = g.checkTableSpace()
	}
	g.logger.Warn("a compaction goes on: it can write again", zap.String("folder", g.folder))
}

// trial returns an error where a table could not be created now.
func (g *guard) checkTableSpace() error {
	if err := checkDescriptors(g.folder); err != nil {
		return err
	}
	if free, err := g.free(g.folder); err == nil && free < flushSpace {
		return fmt.Errorf("%w: %d MiB are free", ErrDiskFull, free>>20)
	}
	if err := checkFileCreation(g.folder); err != nil {
		return fmt.Errorf("%w: a file cannot be created: %w", errUnavailable, err)
	}
	return nil
}

// tryFile returns an error where a file cannot be created in folder.
func checkFileCreation(folder string) error {
	file, err := os.CreateTemp(folder, tempPattern)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// tempPattern is the pattern of the names of files that are created to see whether that
// is possible, and of those that are to have another name once they are whole.
const tempPattern = "TRIAL-*"

// holds reports whether what Badger logs says that a table follows.
func announcesTable(format string) bool { return strings.HasPrefix(format, tableFollows) }
