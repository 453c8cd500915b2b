package records

import (
	"fmt"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A record of KindSpent is the text of its writer. It is under the id of a key, a preset or a workspace
// alone, so that it goes with that.

func spentKey(id string) Key {
	of, ok := parseID(id)
	if !ok {
		return nil
	}
	return KindSpent.under(of)
}

// Spent implements domain.Reader.
func (r *Reader) Spent(id string) ([]byte, error) { return load(r, spentKey(id), decodeBytes) }

// PutSpent implements domain.Tx.
func (t *Tx) PutSpent(id string, content []byte) error {
	k := spentKey(id)
	if k == nil {
		return t.refuse(KindSpent)
	}
	if len(content) > domain.MaxSpentSize {
		return t.write(nil, nil, fmt.Errorf("%w: spending of %d bytes", domain.ErrTooLarge, len(content)))
	}
	return t.write(k, Seal(k, content), nil)
}
