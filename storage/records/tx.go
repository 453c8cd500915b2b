package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Tx implements domain.Tx over a snapshot. It puts its writes into a stage. It is not safe
// for concurrent use.
type Tx struct {
	Reader
	// failed is the error of the first failed write. A change that lacks a write must not
	// take effect, even if fn ignores the error.
	failed error
}

// NewTx returns a Tx over a snapshot and the layers below the stage. The stage must be
// empty.
func NewTx(s Snapshot, stage *Stage) *Tx {
	return &Tx{Reader: Reader{snapshot: s, stage: stage}}
}

// Run runs fn with t and ends t. It returns fn's error, or the error of the first failed
// write. The stage may be stored only if Run returns nil.
func (t *Tx) Run(fn func(*Tx) error) error {
	defer t.End()
	err := fn(t) // sets t.failed, so it runs first
	return cmp.Or(err, t.failed)
}

// write stages a record. If err is not nil, the write fails with err.
func (t *Tx) write(k Key, record []byte, err error) error {
	switch {
	case t.ended:
		return ErrEnded
	case err == nil && len(record) > MaxRecord:
		err = fmt.Errorf("%w: a %v record of %d bytes is more than the %d that fit", domain.ErrTooLarge, k.Kind(), len(record), MaxRecord)
	}
	if err != nil {
		t.failed = cmp.Or(t.failed, err)
		return err
	}
	t.stage.put(k, record)
	return nil
}

// refuse fails a write whose object has no valid key.
func (t *Tx) refuse(of Kind) error {
	return t.write(nil, nil, fmt.Errorf("a %v cannot be stored: its id is not a UUID, its number not positive or its slug too long", of))
}

// putIndex stages an index record from k to id.
func (t *Tx) putIndex(k Key, id string) error { return t.write(k, Seal(k, []byte(id)), nil) }

// removeIndex removes an index record if it still points to id.
func (t *Tx) removeIndex(k Key, id string) error {
	switch holder, err := load(&t.Reader, k, decodeID); {
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
func (t *Tx) PutWorkspace(w domain.Workspace) error {
	k, index := WorkspaceKey(w.ID), WorkspaceSlugKey(w.Slug)
	if k == nil || index == nil {
		return t.refuse(KindWorkspace)
	}
	text, err := w.JSON()
	if err != nil {
		return t.write(k, nil, err)
	}
	stored, err := loadOrZero(&t.Reader, k, parseWorkspace)
	if err == nil && stored.json != nil {
		err = t.releaseSlug(stored, w.Slug)
	}
	if err == nil && stored.place == 0 {
		stored.place, err = t.putLast(workspaces(), k, spot{}, 0)
	}
	if err != nil {
		return t.write(k, nil, err)
	}
	stored.json = text
	if err := t.write(k, encodeWorkspace(k, stored), nil); err != nil {
		return err
	}
	return t.putIndex(index, w.ID)
}

// releaseSlug removes the index record of a workspace's old slug, unless the slug stays.
func (t *Tx) releaseSlug(old storedWorkspace, slug string) error {
	w, err := old.decode()
	if err != nil || w.Slug == slug {
		return err
	}
	return t.removeIndex(WorkspaceSlugKey(w.Slug), w.ID)
}

// DeleteWorkspace implements domain.Tx. Purge removes the content of the workspace later.
func (t *Tx) DeleteWorkspace(w domain.Workspace) error {
	k := WorkspaceKey(w.ID)
	if k == nil {
		return t.refuse(KindWorkspace)
	}
	old, err := load(&t.Reader, k, parseWorkspace)
	if errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = t.releaseSlug(old, "")
	}
	return cmp.Or(
		t.write(k, nil, err),
		t.removeListed(workspaces(), k, spot{place: old.place}),
		t.putIndex(deletedKey(w.ID), w.ID),
	)
}

// PutPreset implements domain.Tx.
func (t *Tx) PutPreset(p domain.Preset) error {
	k := PresetKey(p.WorkspaceID, p.Slug)
	l, _ := presetsOf(p.WorkspaceID)
	state, ok := stateOf(p.Status)
	if k == nil || !ok {
		return t.refuse(KindPreset)
	}
	text, err := p.JSON()
	if err != nil {
		return t.write(k, nil, err)
	}
	old, err := loadOrZero(&t.Reader, k, parsePreset)
	if err != nil {
		return t.write(k, nil, err)
	}
	place, err := t.putLast(l, k, old.spot, state)
	if err != nil {
		return err
	}
	stored := storedPreset{PresetState: p.State(), spot: spot{place, state}, json: text}
	record, err := encodePreset(k, stored)
	return t.write(k, record, err)
}

// PutPresetVersion implements domain.Tx. It refuses a number that is taken.
func (t *Tx) PutPresetVersion(p domain.Preset, v domain.PresetVersion) error {
	k := VersionKey(p.ID, v.Version)
	if k == nil {
		return t.refuse(KindVersion)
	}
	_, err := load(&t.Reader, k, parseVersion)
	switch {
	case err == nil:
		return t.write(k, nil, fmt.Errorf("%w: version %d of a preset is already stored", domain.ErrTaken, v.Version))
	case !errors.Is(err, domain.ErrNotFound):
		return t.write(k, nil, err)
	}
	text, err := v.JSON()
	if err != nil {
		return t.write(k, nil, fmt.Errorf("encoding a %v record: %w", KindVersion, err))
	}
	return t.write(k, encodeVersion(k, text, len(v.Config)), nil)
}

// PruneVersions implements domain.Tx. It refuses a number that p does not have.
func (t *Tx) PruneVersions(p domain.Preset, numbers []int) error {
	k := PresetKey(p.WorkspaceID, p.Slug)
	if k == nil {
		return t.refuse(KindPreset)
	}
	stored, err := load(&t.Reader, k, func(payload []byte) (storedPreset, error) {
		return parsePreset(bytes.Clone(payload))
	})
	if err != nil {
		return t.write(k, nil, err)
	}
	for _, n := range numbers {
		version := VersionKey(stored.ID, n)
		if version == nil || !stored.Has(n) {
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

// DeletePreset implements domain.Tx. Purge removes what leads to no text later: labels and spending, and
// answers that were kept.
func (t *Tx) DeletePreset(p domain.Preset) error {
	k := PresetKey(p.WorkspaceID, p.Slug)
	l, _ := presetsOf(p.WorkspaceID)
	if k == nil {
		return t.refuse(KindPreset)
	}
	old, err := load(&t.Reader, k, func(payload []byte) (storedPreset, error) {
		return parsePreset(bytes.Clone(payload))
	})
	if err != nil {
		return t.write(k, nil, err)
	}
	for n := range old.Versions() {
		if err := t.write(VersionKey(old.ID, n), nil, nil); err != nil {
			return err
		}
	}
	return cmp.Or(
		t.write(k, nil, nil), t.write(servedKey(p.WorkspaceID, p.Slug), nil, nil),
		t.removeListed(l, k, old.spot), t.putIndex(deletedKey(old.ID), old.ID),
	)
}

// PutKey implements domain.Tx.
func (t *Tx) PutKey(issued domain.Key) error {
	k := KeyKey(issued.ID)
	if k == nil {
		return t.refuse(KindKey)
	}
	if err := t.removeHashes(issued.ID, issued.Hashes()...); err != nil {
		return err
	}
	record, err := encodeJSON(k, issued)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	for _, hash := range issued.Hashes() {
		if err := t.putIndex(KeyHashKey(hash), issued.ID); err != nil {
			return err
		}
	}
	return nil
}

// removeHashes removes the index records of a stored key's hashes, but for some that stay.
func (t *Tx) removeHashes(id string, stay ...domain.KeyHash) error {
	old, err := t.Key(id)
	if errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	if err != nil {
		return t.write(KeyKey(id), nil, err)
	}
	for _, hash := range old.Hashes() {
		if slices.Contains(stay, hash) {
			continue
		}
		if err := t.removeIndex(KeyHashKey(hash), id); err != nil {
			return err
		}
	}
	return nil
}

// DeleteKey implements domain.Tx.
func (t *Tx) DeleteKey(issued domain.Key) error {
	k := KeyKey(issued.ID)
	if k == nil {
		return t.refuse(KindKey)
	}
	if _, err := t.Key(issued.ID); errors.Is(err, domain.ErrNotFound) {
		return nil
	}
	return cmp.Or(t.removeHashes(issued.ID), t.write(k, nil, nil), t.write(spentKey(issued.ID), nil, nil))
}

var _ domain.Tx = (*Tx)(nil)
