package badger

import (
	"bytes"
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

// presetPages reads the presets of a workspace piece by piece. No iterator of
// Badger's stays open between the pieces: an update can have only one at a
// time, and whoever reads the presets may read others meanwhile.
type presetPages struct {
	r      *reader
	prefix key
	next   key     // where the next page begins, nil after the last
	staged []write // those that are still to come, in order
}

// pageSize is how many bytes of records a page has, or a few more.
const pageSize = 16 << 10

// read returns the next page. Before an error it returns what comes before the
// preset that it is about.
func (p *presetPages) read() (page []domain.Preset, err error) {
	size := 0
	add := func(k key, record []byte) error {
		preset, err := decodeRecord(k, record, decodeJSON[domain.Preset])
		if err == nil {
			page = append(page, preset)
			size += len(record)
		}
		return err
	}
	// addStaged adds the staged ones up to k, or all, and returns whether k
	// was the last of them.
	addStaged := func(k key) (replaced bool, err error) {
		for len(p.staged) > 0 && (k == nil || bytes.Compare(p.staged[0].key, k) <= 0) {
			w := p.staged[0]
			p.staged = p.staged[1:]
			if err := add(w.key, w.record); err != nil {
				return false, err
			}
			replaced = bytes.Equal(w.key, k)
		}
		return replaced, nil
	}
	err = reading(kindPreset, func() error {
		it := p.r.txn.NewIterator(badgerdb.IteratorOptions{Prefix: p.prefix})
		defer it.Close()
		for it.Seek(p.next); it.Valid(); it.Next() {
			k := key(it.Item().Key())
			if size >= pageSize {
				p.next = slices.Clone(k)
				return nil
			}
			switch replaced, err := addStaged(k); {
			case err != nil:
				return err
			case replaced:
				continue
			}
			if err := it.Item().Value(func(record []byte) error { return add(k, record) }); err != nil {
				return err
			}
		}
		p.next = nil
		_, err := addStaged(nil)
		return err
	})
	return page, err
}

// PresetVersion implements domain.Reader.
func (r *reader) PresetVersion(p domain.Preset, n int) (domain.PresetVersion, error) {
	if n < 1 || n > p.LatestVersion {
		return domain.PresetVersion{}, domain.ErrNotFound
	}
	v, err := domain.PresetVersion{}, domain.ErrNotFound
	if k, ok := versionKey(p.ID, n); ok {
		v, err = load(r, k, decodeVersion)
	}
	if errors.Is(err, domain.ErrNotFound) {
		return v, damaged(kindVersion, "it is missing")
	}
	return v, err
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
	if r.ended {
		return nil, errEnded
	}
	prefix := newKey(kindKey, 0)
	var keys []domain.Key
	add := func(k key, record []byte) error {
		issued, err := decodeRecord(k, record, decodeJSON[domain.Key])
		if err == nil {
			keys = append(keys, issued)
		}
		return err
	}
	err := reading(kindKey, func() error {
		it := r.txn.NewIterator(badgerdb.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			k := key(it.Item().Key())
			if r.stage != nil {
				if _, replaced := r.stage.writes[string(k)]; replaced {
					continue
				}
			}
			err := it.Item().Value(func(record []byte) error { return add(k, record) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.stage != nil {
		for _, w := range r.stage.writes {
			if w.key.kind() != kindKey {
				continue
			}
			if err := add(w.key, w.record); err != nil {
				return nil, err
			}
		}
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
	old, err := t.Workspace(w.ID)
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
	record, err := encodeJSON(k, w)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	return t.point(index, w.ID)
}

// PutPreset implements domain.Tx.
func (t *tx) PutPreset(p domain.Preset) error {
	k, ok := presetKey(p.WorkspaceID, p.Slug)
	if !ok {
		return t.refuse(kindPreset)
	}
	record, err := encodeJSON(k, p)
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
