package badger

import (
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
)

// spareDescriptors is how many more files this process must be able to open. A quarter of
// its limit is enough if that is less. A server accepts about a tenth as many connections
// while Badger creates a table.
const spareDescriptors = 4096

var errDescriptors = fmt.Errorf("%w: the process has nearly as many files open as it may", errUnavailable)

// holdInterval is the time between two attempts of a held compaction to go on.
const holdInterval = 50 * time.Millisecond

// tableFollows begins the debug message that Badger logs just before a compaction creates
// a table, on the compaction's goroutine.
const tableFollows = "[%d] LOG Compact. Added "

// holdCompaction blocks a compaction that is about to create a table until that will
// succeed. It counts as held meanwhile, and writes are refused.
//
// Badger ignores the failure of a compaction to create a table. It removes the source
// tables, and their records are lost. So a moment without a free descriptor or inode would
// lose records. A moment without disk space would end the process. Badger's logger is the
// only place where a compaction can be held.
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

// checkTableSpace returns an error if a table cannot be created now.
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

// checkFileCreation returns an error if a file cannot be created in folder.
func checkFileCreation(folder string) error {
	file, err := os.CreateTemp(folder, tempPattern)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// tempPattern is the pattern of the names of temporary files.
const tempPattern = "TRIAL-*"
