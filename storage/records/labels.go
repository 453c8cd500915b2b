package records

import (
	"fmt"

	"github.com/caddy-presets/caddy-presets/domain"
)

// LabelChanges implements domain.Reader.
func (r *Reader) LabelChanges(p domain.Preset, label string) (int, error) {
	n, err := loadOrZero(r, LabelKey(p.ID, label), decodeNumber)
	return int(n), err
}

// LabelChange implements domain.Reader.
func (r *Reader) LabelChange(p domain.Preset, label string, n int) (domain.LabelChange, error) {
	latest, err := r.LabelChanges(p, label)
	switch {
	case err != nil:
		return domain.LabelChange{}, err
	case n < 1 || n > latest:
		return domain.LabelChange{}, domain.ErrNotFound
	}
	return loadExisting(r, LabelChangeKey(p.ID, label, n), decodeJSON[domain.LabelChange]) // a change is stored, so its key is valid
}

// PutLabelChange implements domain.Tx. It refuses any number but the next.
func (t *Tx) PutLabelChange(p domain.Preset, label string, c domain.LabelChange) error {
	k, latestKey := LabelChangeKey(p.ID, label, c.Number), LabelKey(p.ID, label)
	if k == nil {
		return t.refuse(KindLabelChange)
	}
	latest, err := t.LabelChanges(p, label)
	if err == nil && c.Number != latest+1 {
		err = fmt.Errorf("%w: change %d of a label cannot follow change %d", domain.ErrTaken, c.Number, latest)
	}
	if err != nil {
		return t.write(k, nil, err)
	}
	record, err := encodeJSON(k, c)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	return t.write(latestKey, encodeNumber(latestKey, uint64(c.Number)), nil)
}
