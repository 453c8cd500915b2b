package records

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/caddy-presets/caddy-presets/domain"
)

// AuditHead implements domain.Reader.
func (r *Reader) AuditHead() (domain.AuditHead, error) {
	return loadOrZero(r, AuditHeadKey(), decodeJSON[domain.AuditHead])
}

// AuditRecord implements domain.Reader.
func (r *Reader) AuditRecord(n int) (domain.AuditRecord, error) {
	head, err := r.AuditHead()
	switch {
	case err != nil:
		return domain.AuditRecord{}, err
	case n < 1 || n > head.Count:
		return domain.AuditRecord{}, domain.ErrNotFound
	}
	return loadExisting(r, AuditKey(n), decodeJSON[domain.AuditRecord])
}

// AuditTrail implements domain.Reader. It sees the writes that were staged when the
// iteration began.
func (r *Reader) AuditTrail(after int) iter.Seq2[domain.AuditRecord, error] {
	return func(yield func(domain.AuditRecord, error) bool) {
		head, err := r.AuditHead()
		if err != nil {
			yield(domain.AuditRecord{}, err)
			return
		}
		n := max(after, 0)
		if n >= head.Count {
			return
		}
		for record, err := range (pages[domain.AuditRecord]{r: r, prefix: KindAudit.Prefix(), next: AuditKey(n + 1), decode: decodeTrail(n)}).each {
			if n++; !yield(record, err) || err != nil || n == head.Count {
				return
			}
		}
		yield(domain.AuditRecord{}, errMissing(KindAudit))
	}
}

// decodeTrail decodes the records after a number. Each must follow the one before.
func decodeTrail(after int) func(c *cursor) (domain.AuditRecord, error) {
	return func(c *cursor) (domain.AuditRecord, error) {
		if after++; !bytes.Equal(c.key, AuditKey(after)) {
			return domain.AuditRecord{}, errMissing(KindAudit)
		}
		return decodeAt(c, decodeJSON[domain.AuditRecord])
	}
}

// PutAudit implements domain.Tx. It refuses any number but the next.
func (t *Tx) PutAudit(a domain.AuditRecord, text []byte) error {
	k := AuditKey(a.Number)
	before, err := t.AuditHead()
	if err == nil && a.Number != before.Count+1 {
		err = fmt.Errorf("audit record %d cannot follow record %d", a.Number, before.Count)
	}
	if err != nil {
		return t.write(k, nil, err)
	}
	if err := t.write(k, Seal(k, text), nil); err != nil {
		return err
	}
	if err := t.putHistory(a); err != nil {
		return err
	}
	record, err := encodeJSON(AuditHeadKey(), domain.AuditHead{Count: a.Number, Hash: a.Hash})
	return t.write(AuditHeadKey(), record, err)
}
