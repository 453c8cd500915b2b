// Package transfer moves the content of one domain.Store to another, whatever their
// engines, as a file of JSON Lines. It does not depend on an engine: it reads through
// domain.Reader and writes through domain.Tx.
//
// # The file
//
// Each line is a JSON object with one member. The member's name is the kind of the line:
//
//	export         the header: the file's format, its version, and the time of the export
//	audit          a record of the audit trail, with its hashes
//	workspace      a workspace
//	preset         a preset of the workspace above, with the numbers of its versions
//	version        a version of the preset above
//	label_change   a change of a label of the preset above
//	served         when versions of the preset above were last served
//	usage          a row of usage of the workspace above
//	answer         an answer that is kept for an Idempotency-Key
//	key            an issued key, with the hash of its secret
//	end            the number of lines of each kind, and the SHA-256 of all lines before
//
// The kinds come in that order: first the trail, then each workspace with its presets. Each
// preset is followed by its versions, the changes of its labels, and when it was last
// served. The usage of a workspace follows its presets. Workspaces are in the order of
// their list. The presets of a workspace are in the order in which they were put last. So
// an import makes the same list. The config of a version and a kept answer keep their form,
// with line breaks, as strings.
//
// A file is refused at the first line that is not, byte for byte, as Export writes it. It
// is refused at its end if the sum differs.
//
// # An unfinished import
//
// Import needs an empty store. The default workspace and its audit record may exist,
// because a server creates them at its first start. Import replaces both. Import writes
// batches. Each batch is one change and includes the progress of the import. The progress
// identifies the file by the SHA-256 of its lines so far. It is stored as a kept answer,
// under an id that no client has. So an interrupted import continues when it is begun again
// with the same file. No other import begins in that store, and Export refuses it. The
// progress of a finished import stays for a day.
//
// The store is consistent at every moment of the import, and only the import changes it.
// The end of its audit trail says that an import is under way. So the Service answers all
// changes with domain.ErrUnavailable. The audit trail comes first, and every change adds to
// it. So a write that bypasses the Service, or comes before the first batch, makes the next
// batch fail. A preset that clients can see has all of its versions and labels. A preset
// that takes several batches is archived until then. Keys come last. Until everything else is
// stored, only the keys of the configuration are known.
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
	// ErrFile is wrapped by the errors about a file. Their text names the line and the
	// field, and quotes nothing else of the line.
	ErrFile = errors.New("the export cannot be used")
	// ErrVersion matches the error about a file of another version of the format. That error
	// wraps ErrFile, too.
	ErrVersion = errors.New("the export is of another version")
	// ErrStore is wrapped by the errors about a store that cannot take an import, or cannot
	// take that file.
	ErrStore = errors.New("the store cannot take the import")
	// ErrUnfinished is returned by Export for a store with an unfinished import.
	ErrUnfinished = errors.New("an import into the store is not finished: begin it again with the same file, or give it up with import --abandon")
)

// Counts are the numbers of objects by kind.
type Counts struct {
	Audit        int `json:"audit"`
	Workspaces   int `json:"workspaces"`
	Presets      int `json:"presets"`
	Versions     int `json:"versions"`
	LabelChanges int `json:"label_changes"`
	Served       int `json:"served"` // presets with a version that was served
	Usage        int `json:"usage"`
	Answers      int `json:"answers"`
	Keys         int `json:"keys"`
}

// Total returns the sum of all counts.
func (c Counts) Total() int {
	return c.Audit + c.Workspaces + c.Presets + c.Versions + c.LabelChanges + c.Served + c.Usage + c.Answers + c.Keys
}

// Summary describes a file. Operators see it under the names of its struct tags.
type Summary struct {
	CreatedAt time.Time `json:"created_at"`
	Counts
	// Digest is the SHA-256 of all lines but the first, the last and the kept answers,
	// which expire. Stores with the same content have the same digest.
	Digest string `json:"digest"`
	// Resumed is the number of the last line of the earlier import that was continued, 0 if
	// there was none.
	Resumed int `json:"resumed_at_line"`
}

// Check reads and checks a file to its end, as Import does, and imports nothing.
func Check(ctx context.Context, r io.Reader) (Summary, error) {
	return Follow(ctx, r, func(int) {})
}

// Follow is Check, and calls progress with the number of objects after each of them. Kept
// answers are not counted.
func Follow(ctx context.Context, r io.Reader, progress func(objects int)) (Summary, error) {
	objects := 0
	return check(ctx, r, func(l line) error {
		if l.Export == nil && l.Answer == nil && l.End == nil {
			objects++
			progress(objects)
		}
		return nil
	})
}

// Objects returns about how many objects an export of a store has. It does not count kept
// answers, because they expire. It counts objects of deleted workspaces that are still stored.
func Objects(ctx context.Context, store domain.Store) (n int, err error) {
	err = store.View(ctx, func(r domain.Reader) error {
		n, err = r.Objects()
		return err
	})
	return n, err
}

// Verify is Check, and also finds two objects with one id, slug or hash. An import finds these
// only while it stores the lines. Verify needs some 100 bytes of memory for each preset.
func Verify(ctx context.Context, r io.Reader) (Summary, error) {
	return check(ctx, r, newTaken().take)
}

// check reads a file to its end, and calls take with each line.
func check(ctx context.Context, r io.Reader, take func(line) error) (Summary, error) {
	f := newFile(r)
	for {
		if err := ctx.Err(); err != nil {
			return Summary{}, err
		}
		l, err := f.next()
		if err == nil {
			if err = take(l); err != nil {
				err = refused(f.number, "%w", err)
			}
		}
		switch {
		case err != nil:
			return Summary{}, err
		case l.End != nil:
			return f.summary(), nil
		}
	}
}

// Unfinished reports whether a store has an unfinished import.
func Unfinished(ctx context.Context, store domain.Store) (unfinished bool, err error) {
	err = store.View(ctx, func(r domain.Reader) error {
		m, err := unfinishedProgress(r)
		unfinished = m != progress{}
		return err
	})
	return unfinished, err
}

// refused returns an error about a line of a file.
func refused(line int, format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %w", ErrFile, line, fmt.Errorf(format, args...))
}
