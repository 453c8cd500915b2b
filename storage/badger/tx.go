package badger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// reader implements domain.Reader over a snapshot and, in an update, the writes that
// the operation has staged.
type reader struct {
	snapshot Snapshot
	stage    *stage // nil in a view
	ended    bool
}

var errEnded = errors.New("a transaction was used after its function had returned")

func (r *reader) end() { r.ended = true }

// load reads and decodes the record of a key.
func load[T any](r *reader, k key, decode func([]byte) (T, error)) (object T, err error) {
	if r.ended {
		return object, errEnded
	}
	if r.stage != nil {
		if w, ok := r.stage.find(k); ok {
			if w.record == nil {
				return object, domain.ErrNotFound
			}
			return decodeRecord(k, w.record, decode)
		}
	}
	err = reading(k.kind(), func() error {
		record, err := r.snapshot.Get(k)
		if err == nil {
			object, err = decodeRecord(k, record, decode)
		}
		return err
	})
	return object, err
}

// loadExisting is load for a record that exists according to others: where it is
// missing, that is damage.
func loadExisting[T any](r *reader, k key, decode func([]byte) (T, error)) (T, error) {
	object, err := load(r, k, decode)
	return object, missing(k.kind(), err)
}

// missing makes damage of ErrNotFound.
func missing(of kind, err error) error {
	if errors.Is(err, domain.ErrNotFound) {
		return damaged(of, "it is missing")
	}
	return err
}

// loadOrZero is load for what is not stored while it is empty.
func loadOrZero[T any](r *reader, k key, decode func([]byte) (T, error)) (T, error) {
	object, err := load(r, k, decode)
	if errors.Is(err, domain.ErrNotFound) {
		err = nil
	}
	return object, err
}

// reading runs a read of a snapshot, which may panic on damage, or be ended by the
// system when a file was cut short under a map of it.
func reading(of kind, read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: reading a %v record: panic: %v", ErrDamaged, of, value)
		}
	}()
	return read()
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
	return loadAt(r, id, workspaceKey, decodeWorkspace)
}

// WorkspaceJSON implements domain.Reader.
func (r *reader) WorkspaceJSON(id string) ([]byte, error) {
	return loadAt(r, id, workspaceKey, func(payload []byte) ([]byte, error) {
		w, err := parseWorkspace(payload)
		return bytes.Clone(w.json), err
	})
}

// WorkspaceID implements domain.Reader.
func (r *reader) WorkspaceID(slug string) (string, error) {
	return loadAt(r, slug, workspaceSlugKey, decodeID)
}

// loadAt is load for what is found by a name that can be anything.
func loadAt[T any](r *reader, name string, at func(string) (key, bool), decode func([]byte) (T, error)) (object T, err error) {
	k, ok := at(name)
	if !ok {
		return object, domain.ErrNotFound
	}
	return load(r, k, decode)
}

// Preset implements domain.Reader.
func (r *reader) Preset(workspaceID, slug string) (domain.Preset, error) {
	k, ok := presetKey(workspaceID, slug)
	if !ok {
		return domain.Preset{}, domain.ErrNotFound
	}
	return load(r, k, decodePreset)
}

// PresetJSON implements domain.Reader.
func (r *reader) PresetJSON(workspaceID, slug string) (state domain.PresetState, text []byte, err error) {
	k, ok := presetKey(workspaceID, slug)
	if !ok {
		return state, nil, domain.ErrNotFound
	}
	text, err = load(r, k, func(payload []byte) ([]byte, error) {
		p, err := parsePreset(payload)
		state = p.PresetState
		return bytes.Clone(p.json), err
	})
	return state, text, err
}

// WorkspacePage implements domain.Reader.
func (r *reader) WorkspacePage(page domain.Page) ([]byte, int, error) {
	return r.page(workspaces(), page, false)
}

// PresetPage implements domain.Reader.
func (r *reader) PresetPage(workspaceID string, page domain.Page) ([]byte, int, error) {
	l, ok := presetsOf(workspaceID)
	if !ok {
		return []byte("[]"), 0, nil
	}
	return r.page(l, page, true)
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
		pages := presetPages{r: r, prefix: prefix, next: prefix, staged: r.staged(prefix)}
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
	err = p.r.walkWith(p.staged, p.next, p.prefix, func(c *cursor) error {
		size := 0
		for ; c.key != nil; c.next() {
			if size >= pageSize {
				p.next = slices.Clone(c.key)
				return nil
			}
			preset, err := decodeAt(c, decodePreset)
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
func (r *reader) PresetVersion(p domain.PresetState, n int) (domain.PresetVersion, error) {
	return loadVersion(r, p, n, decodeVersion)
}

// PresetVersionJSON implements domain.Reader.
func (r *reader) PresetVersionJSON(p domain.PresetState, n int) ([]byte, error) {
	return loadVersion(r, p, n, func(payload []byte) ([]byte, error) {
		v, err := parseVersion(payload)
		return bytes.Clone(v.json), err
	})
}

func loadVersion[T any](r *reader, p domain.PresetState, n int, decode func([]byte) (T, error)) (version T, err error) {
	if !p.Has(n) {
		return version, domain.ErrNotFound
	}
	k, ok := versionKey(p.ID, n)
	if !ok {
		return version, damaged(kindVersion, "it is missing")
	}
	return loadExisting(r, k, decode)
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

// run runs fn with t, which is dead once fn has returned. It returns fn's error, or
// that of the first write that failed.
func (t *tx) run(fn func(*tx) error) error {
	defer t.end()
	return cmp.Or(fn(t), t.failed)
}

// write stages a record, unless making it has failed.
func (t *tx) write(k key, record []byte, err error) error {
	switch {
	case t.ended:
		return errEnded
	case err == nil && len(record) > maxRecord:
		err = fmt.Errorf("%w: a %v record of %d bytes is more than the %d that fit", domain.ErrTooLarge, k.kind(), len(record), maxRecord)
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
	text, err := w.JSON()
	if err != nil {
		return t.write(k, nil, err)
	}
	stored, err := loadOrZero(&t.reader, k, parseWorkspace)
	if err == nil && stored.json != nil {
		err = t.releaseSlug(stored, w.Slug)
	}
	switch {
	case err != nil:
	case stored.place == 0:
		stored.place, err = t.place(workspaces(), 0, text)
	default:
		err = t.stand(workspaces(), stored.place, text)
	}
	if err != nil {
		return t.write(k, nil, err)
	}
	stored.json = text
	if err := t.write(k, encodeWorkspace(k, stored), nil); err != nil {
		return err
	}
	return t.point(index, w.ID)
}

// releaseSlug removes the index record of the slug that a workspace has, unless it
// keeps it.
func (t *tx) releaseSlug(old storedWorkspace, slug string) error {
	w, err := old.decode()
	if err != nil || w.Slug == slug {
		return err
	}
	former, _ := workspaceSlugKey(w.Slug)
	return t.unpoint(former, w.ID)
}

// DeleteWorkspace implements domain.Tx. What is in the workspace is removed by
// and by.
func (t *tx) DeleteWorkspace(w domain.Workspace) error {
	k, ok := workspaceKey(w.ID)
	deleted, _ := deletedKey(w.ID)
	if !ok {
		return t.refuse(kindWorkspace)
	}
	old, err := load(&t.reader, k, parseWorkspace)
	if errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = t.releaseSlug(old, "")
	}
	return cmp.Or(
		t.write(k, nil, err),
		t.displace(workspaces(), old.place),
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
	text, err := p.JSON()
	if err != nil {
		return t.write(k, nil, err)
	}
	old, err := loadOrZero(&t.reader, k, parsePreset)
	if err != nil {
		return t.write(k, nil, err)
	}
	stored := storedPreset{PresetState: p.State(), json: text}
	if p.Status != domain.PresetArchived {
		stored.place, err = t.place(l, old.place, text)
	} else if old.place != 0 {
		err = t.displace(l, old.place)
	}
	if err != nil {
		return err
	}
	record, err := encodePreset(k, stored)
	return t.write(k, record, err)
}

// PutPresetVersion implements domain.Tx. It refuses a number that is taken.
func (t *tx) PutPresetVersion(p domain.Preset, v domain.PresetVersion) error {
	k, ok := versionKey(p.ID, v.Version)
	if !ok {
		return t.refuse(kindVersion)
	}
	switch _, err := load(&t.reader, k, parseVersion); {
	case err == nil:
		return t.write(k, nil, fmt.Errorf("version %d of a preset is already stored", v.Version))
	case !errors.Is(err, domain.ErrNotFound):
		return t.write(k, nil, err)
	}
	record, err := encodeVersion(k, v)
	return t.write(k, record, err)
}

// PruneVersions implements domain.Tx. It refuses a number that p does not have.
func (t *tx) PruneVersions(p domain.Preset, numbers []int) error {
	k, ok := presetKey(p.WorkspaceID, p.Slug)
	if !ok {
		return t.refuse(kindPreset)
	}
	stored, err := load(&t.reader, k, func(payload []byte) (storedPreset, error) {
		return parsePreset(bytes.Clone(payload))
	})
	if err != nil {
		return t.write(k, nil, err)
	}
	for _, n := range numbers {
		version, ok := versionKey(stored.ID, n)
		if !ok || !stored.Has(n) {
			return t.write(k, nil, fmt.Errorf("version %d of a preset is not stored and cannot be removed", n))
		}
		if err := t.write(version, nil, nil); err != nil {
			return err
		}
	}
	stored.Kept = stored.Kept.Without(numbers)
	record, err := encodePreset(k, stored)
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
