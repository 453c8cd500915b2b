// Package transfer moves all that is in one domain.Store to another, of whichever
// engine, by way of a file of JSON Lines. It knows no engine: it reads through
// domain.Reader and writes through domain.Tx.
//
// # The file
//
// Each line is a JSON object with one member, whose name tells what it is:
//
//	export         what the file is: its format, its version, and when it was made
//	audit          a record of the audit trail, with its hashes
//	workspace      a workspace
//	preset         a preset of the workspace above, with the numbers of its versions
//	version        a version of the preset above
//	label_change   a change of a label of the preset above
//	answer         an answer that is kept for an Idempotency-Key
//	key            an issued key, with the hash of its secret
//	end            how many there are of each, and the SHA-256 of all lines before
//
// They come in that order: first the trail, then each workspace with its presets, of
// which each has its versions and the changes of its labels behind it. Workspaces
// stand in the order of their list, and the presets of a workspace in the order in
// which they have to be put so that their list is the same: first those that are
// archived, by slug, and then the others, the one that was put last at the end.
// Text that need not be JSON without line breaks, the config of a version and the
// answer kept, is a string, or {"base64":…} where it is no UTF-8.
//
// A file is refused at the first line that is not what Export would have written at
// its place, byte for byte, and at its end if the sum is another.
//
// # An import that is not finished
//
// Import goes into a store that has nothing in it but the default workspace that a
// server makes when it starts first, and the audit record of that. Both are replaced.
// It writes batches, each a change of its own together with a mark that says how far
// the import is and which file it is of, by the SHA-256 of its lines so far. The mark
// is an answer that is kept under an id of its own, which is no client's. So an import
// that was interrupted goes on where it was when it is begun again with the same
// file; no other import begins in that store; and Export refuses it. The mark of one that
// was finished stays for a day.
//
// Until then the store is in order at every moment, and nobody but the import changes
// anything: the end of its audit trail says that an import is under way, and so the
// Service answers all changes with domain.ErrUnavailable. The audit trail comes first, so
// that whatever is written to the store past the Service, or before the first batch, as
// each change adds to the trail, makes the next batch fail. A
// preset that clients can see has all of its versions and labels: one that takes
// several batches is archived until then. Keys come last, so that until all else is
// there only keys of the configuration are known.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

var (
	// ErrFile is in the chain of what is wrong with a file, whose line the text
	// names, and the field. It quotes nothing else of the line.
	ErrFile = errors.New("the export cannot be used")
	// ErrStore is in the chain of the error about a store that nothing can be
	// imported into, or not that file.
	ErrStore = errors.New("the store cannot take the import")
	// ErrUnfinished is what Export returns for a store into which an import was
	// begun and not finished.
	ErrUnfinished = errors.New("an import into the store is not finished: begin it again with the same file")
)

// Counts tell how many objects of each kind there are.
type Counts struct {
	Audit        int `json:"audit"`
	Workspaces   int `json:"workspaces"`
	Presets      int `json:"presets"`
	Versions     int `json:"versions"`
	LabelChanges int `json:"label_changes"`
	Answers      int `json:"answers"`
	Keys         int `json:"keys"`
}

// Summary is what there is to say of a file. Its struct tags are what operators see.
type Summary struct {
	CreatedAt time.Time `json:"created_at"`
	Counts
	// Digest is a SHA-256 of all lines but the first, the last and those of kept
	// answers, which expire: stores that hold the same have the same.
	Digest string `json:"digest"`
	// Resumed is the number of the line that an earlier import had come to, 0 for
	// none.
	Resumed int `json:"resumed_at_line"`
}

// Check reads a file to its end, as Import does, and imports nothing.
func Check(ctx context.Context, r io.Reader) (Summary, error) {
	f := newFile(r)
	for {
		if err := ctx.Err(); err != nil {
			return Summary{}, err
		}
		switch l, err := f.next(); {
		case err != nil:
			return Summary{}, err
		case l.End != nil:
			return f.summary(), nil
		}
	}
}

// Unfinished reports whether an import into a store was begun and not finished.
func Unfinished(ctx context.Context, store domain.Store) (unfinished bool, err error) {
	err = store.View(ctx, func(r domain.Reader) error {
		m, err := readMark(r)
		unfinished = m != mark{}
		return err
	})
	return unfinished, err
}

// refused is an error about a line of a file.
func refused(line int, format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %w", ErrFile, line, fmt.Errorf(format, args...))
}
