package records

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
	"github.com/caddy-presets/caddy-presets/storage"
)

// Reader implements domain.Reader over a snapshot. In an update it also shows the
// operation's staged writes. It is not safe for concurrent use.
type Reader struct {
	snapshot Snapshot
	stage    *Stage // nil in a view
	ended    bool
}

// ErrEnded is returned by a Reader or Tx that has ended.
var ErrEnded = errors.New("a transaction was used after its function had returned")

// ErrAbandoned is the value of a Snapshot's panic that ends a run of a function. The engine
// then runs the function again. Tx.Run does not recover this panic either.
var ErrAbandoned = errors.New("a transaction was abandoned")

// NewReader returns a Reader of a snapshot.
func NewReader(s Snapshot) *Reader { return &Reader{snapshot: s} }

// End ends r. From then on all methods return an error, and none reads the snapshot.
func (r *Reader) End() { r.ended = true }

// load reads and decodes the record of a key. A nil key has no record.
func load[T any](r *Reader, k Key, decode func([]byte) (T, error)) (object T, err error) {
	switch {
	case r.ended:
		return object, ErrEnded
	case k == nil:
		return object, domain.ErrNotFound
	}
	if r.stage != nil {
		if w, ok := r.stage.find(k); ok {
			if w.Record == nil {
				return object, domain.ErrNotFound
			}
			return decodeRecord(k, w.Record, decode)
		}
	}
	err = reading(k.Kind(), func() error {
		record, err := r.snapshot.Get(k)
		if err == nil {
			object, err = decodeRecord(k, record, decode)
		}
		return err
	})
	return object, err
}

// loadExisting is load for a record that another record refers to. A missing record is
// damage.
func loadExisting[T any](r *Reader, k Key, decode func([]byte) (T, error)) (T, error) {
	object, err := load(r, k, decode)
	if errors.Is(err, domain.ErrNotFound) {
		err = errMissing(k.Kind())
	}
	return object, err
}

// errMissing returns the error for a record that must be there and is not.
func errMissing(of Kind) error { return damaged(of, "it is missing") }

// loadOrZero is load for an object that is not stored while it is empty.
func loadOrZero[T any](r *Reader, k Key, decode func([]byte) (T, error)) (T, error) {
	object, err := load(r, k, decode)
	if errors.Is(err, domain.ErrNotFound) {
		err = nil
	}
	return object, err
}

// reading runs a read of a snapshot and reports a panic as damage. The read may panic on
// damage. It may also fault, when a mapped file was cut short.
func reading(of Kind, read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch value := recover(); value {
		case nil:
		case ErrAbandoned:
			panic(value)
		default:
			err = fmt.Errorf("%w: reading a %v record: panic: %v", storage.ErrDamaged, of, value)
		}
	}()
	return read()
}

func decodeRecord[T any](k Key, record []byte, decode func([]byte) (T, error)) (object T, err error) {
	payload, err := Unseal(k, record)
	if err != nil {
		return object, err
	}
	return decodePayload(k, payload, decode)
}

// decodePayload decodes the payload of the record under k. Its error does not show the
// cause, which may quote the content.
func decodePayload[T any](k Key, payload []byte, decode func([]byte) (T, error)) (object T, err error) {
	if object, err = decode(payload); err != nil {
		return *new(T), damaged(k.Kind(), "its content cannot be decoded")
	}
	return object, nil
}

// Workspace implements domain.Reader.
func (r *Reader) Workspace(id string) (domain.Workspace, error) {
	return load(r, WorkspaceKey(id), decodeWorkspace)
}

// WorkspaceJSON implements domain.Reader.
func (r *Reader) WorkspaceJSON(id string) ([]byte, error) {
	return load(r, WorkspaceKey(id), func(payload []byte) ([]byte, error) {
		w, err := parseWorkspace(payload)
		return bytes.Clone(w.json), err
	})
}

// WorkspaceID implements domain.Reader.
func (r *Reader) WorkspaceID(slug string) (string, error) {
	return load(r, WorkspaceSlugKey(slug), decodeID)
}

// Preset implements domain.Reader.
func (r *Reader) Preset(workspaceID, slug string) (domain.Preset, error) {
	return load(r, PresetKey(workspaceID, slug), decodePreset)
}

// PresetJSON implements domain.Reader.
func (r *Reader) PresetJSON(workspaceID, slug string) (state domain.PresetState, text []byte, err error) {
	text, err = load(r, PresetKey(workspaceID, slug), func(payload []byte) ([]byte, error) {
		p, err := parsePreset(payload)
		state = p.PresetState
		return bytes.Clone(p.json), err
	})
	return state, text, err
}

// WorkspacePage implements domain.Reader.
func (r *Reader) WorkspacePage(page domain.Page) ([]byte, int, error) {
	return r.page(workspaces(), selection{0: true}, page)
}

// PresetPage implements domain.Reader.
func (r *Reader) PresetPage(workspaceID string, filter domain.PresetFilter, page domain.Page) ([]byte, int, error) {
	l, ok := presetsOf(workspaceID)
	if !ok {
		return []byte("[]"), 0, nil
	}
	return r.page(l, selectionOf(filter), page)
}

// PresetList implements domain.Reader. It sees the writes that were staged when the
// iteration began.
func (r *Reader) PresetList(workspaceID string, filter domain.PresetFilter) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if l, ok := presetsOf(workspaceID); ok {
			r.eachListed(l, selectionOf(filter), yield)
		}
	}
}

// Presets implements domain.Reader. It sees the writes that were staged when the iteration
// began.
func (r *Reader) Presets(workspaceID string) iter.Seq2[domain.Preset, error] {
	return each(r, PresetKey(workspaceID, ""), func(c *cursor) (domain.Preset, error) { return decodeAt(c, decodePreset) })
}

// PresetVersion implements domain.Reader.
func (r *Reader) PresetVersion(p domain.PresetState, n int) (domain.PresetVersion, error) {
	return loadVersion(r, p, n, decodeVersion)
}

// PresetVersionJSON implements domain.Reader.
func (r *Reader) PresetVersionJSON(p domain.PresetState, n int) ([]byte, error) {
	return loadVersion(r, p, n, func(payload []byte) ([]byte, error) {
		v, err := parseVersion(payload)
		return bytes.Clone(v.json), err
	})
}

// PresetVersionSummary implements domain.Reader.
func (r *Reader) PresetVersionSummary(p domain.PresetState, n int) ([]byte, error) {
	return loadVersion(r, p, n, func(payload []byte) ([]byte, error) {
		v, err := parseVersion(payload)
		if err != nil {
			return nil, err
		}
		return v.summary()
	})
}

// loadVersion reads the record of version n.
func loadVersion[T any](r *Reader, p domain.PresetState, n int, decode func([]byte) (T, error)) (version T, err error) {
	if !p.Has(n) {
		return version, domain.ErrNotFound
	}
	k := VersionKey(p.ID, n)
	if k == nil {
		return version, errMissing(KindVersion)
	}
	return loadExisting(r, k, decode)
}

// Key implements domain.Reader.
func (r *Reader) Key(id string) (domain.Key, error) {
	return load(r, KeyKey(id), decodeJSON[domain.Key])
}

// KeyByHash implements domain.Reader.
func (r *Reader) KeyByHash(hash domain.KeyHash) (domain.Key, error) {
	k := KeyHashKey(hash)
	id, err := load(r, k, decodeID)
	if err != nil {
		return domain.Key{}, err
	}
	issued, err := r.Key(id)
	if errors.Is(err, domain.ErrNotFound) {
		return issued, damaged(k.Kind(), "its issued key is missing")
	}
	return issued, err
}

// Keys implements domain.Reader.
func (r *Reader) Keys() ([]domain.Key, error) {
	var keys []domain.Key
	decode := func(c *cursor) (domain.Key, error) { return decodeAt(c, decodeJSON[domain.Key]) }
	for issued, err := range each(r, KindKey.Prefix(), decode) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, issued)
	}
	slices.SortFunc(keys, func(a, b domain.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return keys, nil
}

var _ domain.Reader = (*Reader)(nil)
