package badger

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
)

// reader implements domain.Reader over a transaction of Badger's and, in an
// update, the writes that the operation has staged.
type reader struct {
	txn   *badgerdb.Txn
	stage *stage // nil in a view
	ended bool
}

var errEnded = errors.New("a transaction was used after its function had returned")

func (r *reader) end() { r.ended = true }

// load reads and decodes the record of a key.
func load[T any](r *reader, k key, decode func([]byte) (T, error)) (object T, err error) {
	if r.ended {
		return object, errEnded
	}
	if r.stage != nil {
		if w, ok := r.stage.writes[string(k)]; ok {
			if w.record == nil {
				return object, domain.ErrNotFound
			}
			return decodeRecord(k, w.record, decode)
		}
	}
	err = reading(k.kind(), func() error {
		item, err := r.txn.Get(k)
		if errors.Is(err, badgerdb.ErrKeyNotFound) {
			return domain.ErrNotFound
		}
		if err != nil {
			return err
		}
		return item.Value(func(record []byte) error {
			object, err = decodeRecord(k, record, decode)
			return err
		})
	})
	return object, err
}

// loadExisting is load for a record that exists according to others: where it is
// missing, that is damage.
func loadExisting[T any](r *reader, k key, decode func([]byte) (T, error)) (T, error) {
	object, err := load(r, k, decode)
	if errors.Is(err, domain.ErrNotFound) {
		err = damaged(k.kind(), "it is missing")
	}
	return object, err
}

// reading runs a read of Badger's, which panics on some kinds of damage.
func reading(of kind, read func() error) error {
	err := guarded(read)
	if _, ok := errors.AsType[*panicked](err); ok {
		return fmt.Errorf("%w: reading a %v record: %w", ErrDamaged, of, err)
	}
	return err
}

func decodeRecord[T any](k key, record []byte, decode func([]byte) (T, error)) (object T, err error) {
	payload, err := unseal(k, record)
	if err != nil {
		return object, err
	}
	if object, err = decode(payload); err != nil {
		// The cause may quote the content.
		return *new(T), damaged(k.kind(), "its content cannot be decoded")
	}
	return object, nil
}

// Workspace implements domain.Reader.
func (r *reader) Workspace(id string) (domain.Workspace, error) {
	k, ok := workspaceKey(id)
	if !ok {
		return domain.Workspace{}, domain.ErrNotFound
	}
	return load(r, k, decodeJSON[domain.Workspace])
}

// WorkspaceBySlug implements domain.Reader.
func (r *reader) WorkspaceBySlug(slug string) (domain.Workspace, error) {
	k, ok := workspaceSlugKey(slug)
	if !ok {
		return domain.Workspace{}, domain.ErrNotFound
	}
	id, err := load(r, k, decodeID)
	if err != nil {
		return domain.Workspace{}, err
	}
	w, err := r.Workspace(id)
	if errors.Is(err, domain.ErrNotFound) {
		return w, damaged(k.kind(), "its workspace is missing")
	}
	return w, err
}

// Preset implements domain.Reader.
func (r *reader) Preset(workspaceID, slug string) (domain.Preset, error) {
	k, ok := presetKey(workspaceID, slug)
	if !ok {
		return domain.Preset{}, domain.ErrNotFound
	}
	return load(r, k, decodeJSON[domain.Preset])
}

// WorkspacePage implements domain.Reader.
func (r *reader) WorkspacePage(page domain.Page) ([]domain.Workspace, int, error) {
	places, total, err := r.page(workspaces(), page, false)
	if err != nil {
		return nil, 0, err
	}
	all := make([]domain.Workspace, len(places))
	for i, place := range places {
		k, _ := workspaceKey(place.name)
		w, err := load(r, k, decodeJSON[storedWorkspace])
		if err := place.holds(w.Place, err); err != nil {
			return nil, 0, err
		}
		all[i] = w.Workspace
	}
	return all, total, nil
}

// PresetPage implements domain.Reader.
func (r *reader) PresetPage(workspaceID string, page domain.Page) ([]domain.Preset, int, error) {
	l, ok := presetsOf(workspaceID)
	if !ok {
		return nil, 0, nil
	}
	places, total, err := r.page(l, page, true)
	if err != nil {
		return nil, 0, err
	}
	all := make([]domain.Preset, len(places))
	for i, place := range places {
		k, _ := presetKey(workspaceID, place.name)
		p, err := load(r, k, decodeJSON[storedPreset])
		if err := place.holds(p.Place, err); err != nil {
			return nil, 0, err
		}
		all[i] = p.Preset
	}
	return all, total, nil
}

// Presets implements domain.Reader. It sees the writes that the operation had
// staged when the iteration began.
func (r *reader) Presets(workspaceID string) iter.Seq2[domain.Preset, error] {
	return func(yield func(domain.Preset, error) bool) {
		if r.ended {
			yield(domain.Preset{}, errEnded)
			return
		}
		prefix, ok := presetKey(workspaceID, "")
		if !ok {
			return
		}
		pages := presetPages{r: r, prefix: prefix, next: prefix, staged: r.stage.sorted(prefix)}
		for pages.next != nil {
			page, err := pages.read()
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
				if r.ended {
					yield(domain.Preset{}, errEnded)
					return
				}
			}
			if err != nil {
				yield(domain.Preset{}, err)
				return
			}
		}
	}
}

// presetPages reads the presets of a workspace piece by piece. No cursor stays
// open between the pieces: an update can have only one at a time, and whoever
// reads the presets may read others meanwhile.
type presetPages struct {
	r      *reader
	prefix key
	next   key // where the next page begins, nil after the last
	staged []write
}

// pageSize is how many bytes of records a page has, or a few more.
const pageSize = 16 << 10

// read returns the next page. Before an error it returns what comes before the
// preset that it is about.
func (p *presetPages) read() (page []domain.Preset, err error) {
	err = p.r.walkWith(p.staged, p.prefix, func(c *cursor) error {
		size := 0
		for c.seek(p.next); c.key != nil; c.next() {
			if size >= pageSize {
				p.next = slices.Clone(c.key)
				return nil
			}
			preset, err := decodeAt(c, decodeJSON[domain.Preset])
			if err != nil {
				return err
			}
			page = append(page, preset)
			size += c.size()
		}
		p.next = nil
		return nil
	})
	return page, err
}

// PresetVersion implements domain.Reader.
func (r *reader) PresetVersion(p domain.Preset, n int) (domain.PresetVersion, error) {
	if n < 1 || n > p.LatestVersion {
		return domain.PresetVersion{}, domain.ErrNotFound
	}
	k, ok := versionKey(p.ID, n)
	if !ok {
		return domain.PresetVersion{}, damaged(kindVersion, "it is missing")
	}
	return loadExisting(r, k, decodeVersion)
}

// Key implements domain.Reader.
func (r *reader) Key(id string) (domain.Key, error) {
	k, ok := keyKey(id)
	if !ok {
		return domain.Key{}, domain.ErrNotFound
	}
	return load(r, k, decodeJSON[domain.Key])
}

// KeyByHash implements domain.Reader.
func (r *reader) KeyByHash(hash domain.KeyHash) (domain.Key, error) {
	k := keyHashKey(hash)
	id, err := load(r, k, decodeID)
	if err != nil {
		return domain.Key{}, err
	}
	issued, err := r.Key(id)
	if errors.Is(err, domain.ErrNotFound) {
		return issued, damaged(k.kind(), "its issued key is missing")
	}
	return issued, err
}

// Keys implements domain.Reader.
func (r *reader) Keys() ([]domain.Key, error) {
	prefix := newKey(kindKey, 0)
	var keys []domain.Key
	err := r.walk(prefix, func(c *cursor) error {
		for ; c.key != nil; c.next() {
			issued, err := decodeAt(c, decodeJSON[domain.Key])
			if err != nil {
				return err
			}
			keys = append(keys, issued)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(keys, func(a, b domain.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return keys, nil
}

// tx implements domain.Tx.
type tx struct {
	reader
	// failed is the first write that failed: a change that lacks one of its
	// writes must not take effect, even if fn overlooks the error.
	failed error
}

// write stages a record, unless making it has failed.
func (t *tx) write(k key, record []byte, err error) error {
	switch {
	case t.ended:
		return errEnded
	case err == nil && len(record) > maxRecord:
		err = fmt.Errorf("a %v record of %d bytes is more than the %d that fit", k.kind(), len(record), maxRecord)
	}
	if err != nil {
		t.failed = cmp.Or(t.failed, err)
		return err
	}
	t.stage.put(k, record)
	return nil
}

// refuse fails a write for which no key can be made.
func (t *tx) refuse(of kind) error {
	return t.write(nil, nil, fmt.Errorf("a %v cannot be stored: its id is not a UUID, its number not positive or its slug too long", of))
}

// point stages an index record from k to id.
func (t *tx) point(k key, id string) error { return t.write(k, encodeID(k, id), nil) }

// unpoint removes an index record, provided that it still points to id.
func (t *tx) unpoint(k key, id string) error {
	switch holder, err := load(&t.reader, k, decodeID); {
	case errors.Is(err, domain.ErrNotFound):
		return nil
	case err != nil:
		return t.write(k, nil, err)
	case holder != id:
		return nil
	default:
		return t.write(k, nil, nil)
	}
}

// PutWorkspace implements domain.Tx.
func (t *tx) PutWorkspace(w domain.Workspace) error {
	k, ok := workspaceKey(w.ID)
	index, okSlug := workspaceSlugKey(w.Slug)
	if !ok || !okSlug {
		return t.refuse(kindWorkspace)
	}
	old, err := load(&t.reader, k, decodeJSON[storedWorkspace])
	switch {
	case errors.Is(err, domain.ErrNotFound):
	case err != nil:
		return t.write(k, nil, err)
	case old.Slug != w.Slug:
		former, _ := workspaceSlugKey(old.Slug)
		if err := t.unpoint(former, w.ID); err != nil {
			return err
		}
	}
	stored := storedWorkspace{w, old.placed}
	if stored.Place == 0 {
		if stored.Place, err = t.place(workspaces(), 0, w.ID); err != nil {
			return err
		}
	}
	record, err := encodeJSON(k, stored)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	return t.point(index, w.ID)
}

// DeleteWorkspace implements domain.Tx. What is in the workspace is removed by
// and by.
func (t *tx) DeleteWorkspace(w domain.Workspace) error {
	k, ok := workspaceKey(w.ID)
	deleted, _ := deletedKey(w.ID)
	if !ok {
		return t.refuse(kindWorkspace)
	}
	old, err := load(&t.reader, k, decodeJSON[storedWorkspace])
	if errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	index, _ := workspaceSlugKey(old.Slug)
	return cmp.Or(
		t.write(k, nil, err),
		t.unpoint(index, w.ID),
		t.displace(workspaces(), old.Place),
		t.point(deleted, w.ID),
	)
}

// PutPreset implements domain.Tx.
func (t *tx) PutPreset(p domain.Preset) error {
	k, ok := presetKey(p.WorkspaceID, p.Slug)
	l, _ := presetsOf(p.WorkspaceID)
	if !ok {
		return t.refuse(kindPreset)
	}
	old, err := load(&t.reader, k, decodeJSON[placed])
	if err != nil && !errors.Is(err, domain.ErrNotFound) {
		return t.write(k, nil, err)
	}
	stored := storedPreset{Preset: p}
	if p.Status != domain.PresetArchived {
		if stored.Place, err = t.place(l, old.Place, p.Slug); err != nil {
			return err
		}
	} else if old.Place != 0 {
		if err := t.displace(l, old.Place); err != nil {
			return err
		}
	}
	record, err := encodeJSON(k, stored)
	return t.write(k, record, err)
}

// PutPresetVersion implements domain.Tx. It refuses a number that is taken.
func (t *tx) PutPresetVersion(p domain.Preset, v domain.PresetVersion) error {
	k, ok := versionKey(p.ID, v.Version)
	if !ok {
		return t.refuse(kindVersion)
	}
	switch _, err := load(&t.reader, k, decodeVersion); {
	case err == nil:
		return t.write(k, nil, fmt.Errorf("version %d of a preset is already stored", v.Version))
	case !errors.Is(err, domain.ErrNotFound):
		return t.write(k, nil, err)
	}
	record, err := encodeVersion(k, v)
	return t.write(k, record, err)
}

// PutKey implements domain.Tx.
func (t *tx) PutKey(issued domain.Key) error {
	k, ok := keyKey(issued.ID)
	if !ok {
		return t.refuse(kindKey)
	}
	old, err := t.Key(issued.ID)
	switch {
	case errors.Is(err, domain.ErrNotFound):
	case err != nil:
		return t.write(k, nil, err)
	case old.Hash != issued.Hash:
		if err := t.unpoint(keyHashKey(old.Hash), issued.ID); err != nil {
			return err
		}
	}
	record, err := encodeJSON(k, issued)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	return t.point(keyHashKey(issued.Hash), issued.ID)
}

var (
	_ domain.Reader = (*reader)(nil)
	_ domain.Tx     = (*tx)(nil)
)
