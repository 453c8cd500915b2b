package records

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A record of KindInput is the JSON of its writer. It is under the ids of its preset and of the input.

func inputKey(presetID, id string) Key {
	of, ok1 := parseID(presetID)
	input, ok2 := parseID(id)
	if !ok1 || !ok2 {
		return nil
	}
	return append(KindInput.under(of), input[:]...)
}

func decodeObject(payload []byte) ([]byte, error) { return bytes.Clone(payload), checkObject(payload) }

// Inputs implements domain.Reader. It sees the writes that were staged when the iteration began.
func (r *Reader) Inputs(presetID string) iter.Seq2[[]byte, error] {
	var prefix Key // nil has none
	if of, ok := parseID(presetID); ok {
		prefix = KindInput.under(of)
	}
	return each(r, prefix, func(c *cursor) ([]byte, error) { return decodeAt(c, decodeObject) })
}

// Input implements domain.Reader.
func (r *Reader) Input(presetID, id string) ([]byte, error) {
	return load(r, inputKey(presetID, id), decodeObject)
}

// PutInput implements domain.Tx.
func (t *Tx) PutInput(presetID, id string, content []byte) error {
	k := inputKey(presetID, id)
	if k == nil {
		return t.refuse(KindInput)
	}
	if len(content) > domain.MaxStoredSize {
		return t.write(nil, nil, fmt.Errorf("%w: an input of %d bytes", domain.ErrTooLarge, len(content)))
	}
	return t.write(k, Seal(k, content), checkObject(content))
}

// RemoveInput implements domain.Tx.
func (t *Tx) RemoveInput(presetID, id string) error {
	k := inputKey(presetID, id)
	if k == nil {
		return nil
	}
	return t.write(k, nil, nil)
}
