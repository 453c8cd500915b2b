package badger

import "fmt"

// minFree is how much space the file system must have left for a write: Badger
// writes through memory maps, and the system kills a process that does so
// without space. It is enough for what may already be on its way to the disk:
// the tables waiting to be written and a compaction.
const minFree = max(48<<20, 6*memTableSize)

func checkSpace(free uint64, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("the free disk space is unknown: %w", err)
	case free < minFree:
		return fmt.Errorf("%w: %d MiB are free, %d are needed", ErrDiskFull, free>>20, minFree>>20)
	default:
		return nil
	}
}
