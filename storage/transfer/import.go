package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxBatch bounds a batch, in bytes as domain.MaxChangeSize counts them. Each object
	// counts as twice its line plus objectCost. A single object may be larger. The
	// progress and an incomplete preset come in addition: spareObjects.
	maxBatch     = 768 << 10
	objectCost   = 1 << 10
	spareObjects = 2
)

// Import reads a file of Export from r to its end and puts its content into store. The
// store must be empty, apart from what a server creates at its first start. It may also
// hold an interrupted import of the same file, which Import continues. If that import was
// complete, and finished less than a day ago, Import has nothing to do. The import is
// unfinished until Import returns nil; the package comment describes the store until then.
//
// Import writes durable batches and needs memory for one batch, whatever the size of the
// file. From the first batch until the import is finished, a Service changes nothing in the
// store. Other writes to the store, or writes before the first batch, make the import fail.
// The store must then be emptied. If the error wraps domain.ErrUnavailable or is ctx's,
// continuing later may help.
func Import(ctx context.Context, store domain.Store, r io.Reader) (Summary, error) {
	return importBy(ctx, store, r, maxBatch)
}

// importBy is Import with batches of a given size.
func importBy(ctx context.Context, store domain.Store, r io.Reader, batch int) (Summary, error) {
	im := &importer{store: store, file: newFile(r), room: batch}
	if err := store.View(ctx, im.checkStore); err != nil {
		return Summary{}, err
	}
	if err := im.all(ctx); err != nil {
		if im.stored.Line > 0 && im.full == nil && !errors.Is(err, errConcurrentImport) {
			toContinue := "; run it again with the same file to continue"
			if errors.Is(err, ErrFile) || errors.Is(err, ErrStore) {
				toContinue = ""
			}
			err = fmt.Errorf("%d lines are stored, and the import is not finished%s: %w", im.stored.Line, toContinue, err)
		}
		return Summary{}, err
	}
	summary := im.file.summary()
	summary.Resumed = im.resumed.Line
	return summary, nil
}

type importer struct {
	store domain.Store
	file  *file
	// resumed is the progress of the earlier import that is continued. stored is the
	// progress that is now in the store.
	resumed, stored progress
	// full is the reason why only the earlier file can be imported. It is nil if the
	// earlier import is unfinished.
	full error
	// head is the stored end of the audit trail.
	head   domain.AuditHead
	header sum

	batch      []operation
	size, room int
	// last is the state after the last line of the batch.
	last reached
}

// operation puts the object of a line.
type operation struct {
	line int
	put  func(domain.Tx) error
}

// reached is the state of the file after a line.
type reached struct {
	head     domain.AuditHead
	preset   *arrival
	size     int // the size of the preset's line
	versions int
	lastID   string // the id of the last version
}

// all imports all lines.
func (im *importer) all(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		l, err := im.file.next()
		if err == nil {
			err = im.add(ctx, l)
		}
		if err != nil || l.End != nil {
			return err
		}
	}
}

// checkStore checks whether something can be imported into the store.
func (im *importer) checkStore(r domain.Reader) (err error) {
	last, err := lastProgress(r)
	if err != nil {
		return err
	}
	if last == (progress{}) || last.Done {
		im.stored.Workspace, err = freshWorkspace(r)
		if !last.Done || !errors.Is(err, ErrStore) {
			return err
		}
		im.full = err
	}
	im.resumed, im.stored = last, last
	return nil
}

var errOtherFile = fmt.Errorf("%w: an import of another file was begun and is not finished; import --abandon gives it up", ErrStore)

// errConcurrentImport is the error of two imports of the same file into one store. One of them
// fails when it finds the other's writes, and the other continues.
var errConcurrentImport = fmt.Errorf("%w: another import of the same file has written to it meanwhile, and is under way or finished; "+
	"begin this one again when that has ended: it goes on where that was, or finds that all is there", ErrStore)

// refuseFile returns the error for a file that is not the one of the earlier import.
func (im *importer) refuseFile() error {
	if im.full != nil {
		return im.full
	}
	return errOtherFile
}

// add processes the next line.
func (im *importer) add(ctx context.Context, l line) error {
	f := im.file
	switch f.number {
	case 2:
		im.header = f.sums.sum()
		if im.resumed.Line > 0 && im.resumed.Header != im.header {
			return im.refuseFile()
		}
	case im.resumed.Line + 1:
		if im.resumed.Line > 1 && im.resumed.Sum != f.sums.sum() {
			return im.refuseFile()
		}
		if im.resumed.Done {
			if l.End == nil {
				return im.refuseFile()
			}
			return nil // everything is stored
		}
	}
	switch {
	case f.number > im.resumed.Line:
		if err := im.collect(ctx, l); err != nil {
			return err
		}
	case l.End != nil:
		return im.refuseFile() // the earlier file has more lines
	}
	im.trackLine(l)
	if f.number <= im.resumed.Line {
		im.head = im.last.head
		if im.last.preset != nil {
			im.last.preset.stored = im.last.versions > 0
		}
	}
	if l.End != nil {
		return im.flush(ctx, true)
	}
	return nil
}

// trackLine updates last after a line.
func (im *importer) trackLine(l line) {
	im.last.head, im.last.preset = im.file.order.head, im.file.order.preset
	im.last.versions = 0
	if p := im.last.preset; p != nil {
		im.last.versions = p.versions
	}
	switch {
	case l.Preset != nil:
		im.last.size = len(im.file.raw)
	case l.Version != nil:
		im.last.lastID = l.Version.ID
	}
}

// collect adds the object of a line to the batch. If the batch is full, it is written
// first.
func (im *importer) collect(ctx context.Context, l line) error {
	var ops []operation
	size := 0
	put := func(length int, put func(domain.Tx) error) {
		ops = append(ops, operation{im.file.number, put})
		size += objectCost + 2*length
	}
	length := len(im.file.raw)
	if p := im.last.preset; p != nil && im.file.order.preset != p { // the preset is complete
		put(im.last.size, func(tx domain.Tx) error { return p.put(tx, p.Preset) })
	}
	switch {
	case l.Audit != nil:
		put(length, func(tx domain.Tx) error {
			text, err := l.Audit.JSON()
			if err != nil {
				return err
			}
			return tx.PutAudit(*l.Audit, text)
		})
	case l.Workspace != nil:
		put(length, func(tx domain.Tx) error { return putWorkspace(tx, *l.Workspace, im.stored.Workspace) })
	case l.Version != nil:
		p, v := im.file.order.preset.Preset, l.Version.version()
		put(length, func(tx domain.Tx) error { return tx.PutPresetVersion(p, v) })
	case l.LabelChange != nil:
		p, c := im.file.order.preset.Preset, *l.LabelChange
		put(length, func(tx domain.Tx) error { return tx.PutLabelChange(p, c.Label, c.LabelChange) })
	case l.Served != nil:
		p, served := im.file.order.preset.Preset, l.Served.Hours
		put(length, func(tx domain.Tx) error { return tx.PutServed(p.WorkspaceID, p.Slug, served) })
	case l.Usage != nil:
		row := l.Usage.row()
		put(length, func(tx domain.Tx) error { return tx.PutUsage(row) })
	case l.Answer != nil:
		answer := l.Answer.replay()
		put(length, func(tx domain.Tx) error { return tx.PutReplay(answer) })
	case l.Key != nil:
		put(length, func(tx domain.Tx) error { return putKey(tx, *l.Key) })
	case l.End != nil:
		put(length, func(tx domain.Tx) error { return deleteFreshWorkspace(tx, im.stored.Workspace) })
	}
	full := im.size+size > im.room || len(im.batch)+len(ops) > domain.MaxChangeObjects-spareObjects
	if full && len(im.batch) > 0 {
		if err := im.flush(ctx, false); err != nil {
			return err
		}
	}
	im.batch = append(im.batch, ops...)
	im.size += size
	return nil
}

// flush writes the batch. The batch ends before the line that was read last, or with it if
// that is the file's last line.
func (im *importer) flush(ctx context.Context, final bool) error {
	next := progress{Line: im.file.number - 1, Sum: im.file.sums.sum(), Header: im.header, Workspace: im.stored.Workspace, Done: final}
	partial := im.last.preset
	if partial != nil && (im.last.versions == 0 || final) {
		partial = nil
	}
	if partial != nil {
		next.Preset = partial.WorkspaceID + "/" + partial.Slug
	}
	err := im.store.Update(ctx, func(tx domain.Tx) error {
		if err := im.checkUnchanged(tx); err != nil {
			return err
		}
		for _, op := range im.batch {
			switch err := op.put(tx); {
			case errors.Is(err, domain.ErrTaken), errors.Is(err, errTaken):
				return refused(op.line, "%w", errTaken)
			case errors.Is(err, domain.ErrTooLarge):
				return refused(op.line, "it is larger than what can be stored")
			case err != nil:
				return fmt.Errorf("line %d: %w", op.line, err)
			}
		}
		if p := partial; p != nil {
			if err := p.put(tx, p.soFar(im.last.versions, im.last.lastID)); err != nil {
				return fmt.Errorf("line %d: %w", next.Line, err)
			}
		}
		if final {
			if err := tx.EndImport(); err != nil {
				return err
			}
		}
		return next.put(tx)
	})
	if err != nil {
		return err
	}
	if p := im.last.preset; p != nil && im.last.versions > 0 {
		p.stored = true
	}
	im.stored, im.head = next, im.last.head
	im.batch, im.size = im.batch[:0], 0
	return nil
}

// checkUnchanged returns nil if the store is as the last batch left it. Before the first
// batch it empties the audit trail.
func (im *importer) checkUnchanged(tx domain.Tx) error {
	changed := fmt.Errorf("%w: something else was written to it meanwhile; begin anew with an empty store", ErrStore)
	m, err := lastProgress(tx)
	switch {
	case err != nil:
		return err
	case m == im.stored:
	case m.Header == im.header:
		return errConcurrentImport
	case m.Line > 0 && !m.Done:
		return errOtherFile
	}
	if im.stored.Line == 0 {
		switch fresh, err := freshWorkspace(tx); {
		case err != nil:
			return err
		case fresh != im.stored.Workspace:
			return changed
		}
		return tx.BeginImport()
	}
	head, err := tx.AuditHead()
	if err != nil {
		return err
	}
	want := im.head
	if want.Importing = true; m != im.stored || head != want {
		return changed
	}
	return nil
}

var errTaken = errors.New("its id, slug or hash is that of an object before")

// checkFree returns nil if err tells that a read found nothing. It returns errTaken if err
// is nil.
func checkFree(err error) error {
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return errTaken
}

// put stores a with the given state.
func (a *arrival) put(tx domain.Tx, state domain.Preset) error {
	if !a.stored {
		_, err := tx.Preset(a.WorkspaceID, a.Slug)
		if err := checkFree(err); err != nil {
			return err
		}
	}
	return tx.PutPreset(state)
}

// putWorkspace stores w. It replaces the default workspace with the id fresh if that has
// the same slug.
func putWorkspace(tx domain.Tx, w domain.Workspace, fresh string) error {
	_, err := tx.Workspace(w.ID)
	if err := checkFree(err); err != nil {
		return err
	}
	switch id, err := tx.WorkspaceID(w.Slug); {
	case err == nil && id == fresh:
		if err := deleteFreshWorkspace(tx, fresh); err != nil {
			return err
		}
	default:
		if err := checkFree(err); err != nil {
			return err
		}
	}
	return tx.PutWorkspace(w)
}

func putKey(tx domain.Tx, k domain.Key) error {
	_, err := tx.Key(k.ID)
	if err := checkFree(err); err != nil {
		return err
	}
	_, err = tx.KeyByHash(k.Hash)
	if err := checkFree(err); err != nil {
		return err
	}
	return tx.PutKey(k)
}
