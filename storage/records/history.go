package records

import (
	"cmp"
	"fmt"
	"iter"
	"time"

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

// LabelNames implements domain.Reader. It sees the writes that the operation had
// staged when the iteration began.
func (r *Reader) LabelNames(p domain.Preset) iter.Seq2[string, error] {
	prefix := LabelKey(p.ID, "")
	return each(r, prefix, func(c *cursor) (string, error) {
		_, err := decodeAt(c, decodeNumber)
		return string(c.key[len(prefix):]), err
	})
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

// CommitWrite returns the write that stores n as the number of a commit. The first commit
// has number 1.
func CommitWrite(n uint64) Write {
	k := sequenceKey()
	return Write{Key: k, Record: encodeNumber(k, n)}
}

// LastCommit returns the number of the last commit, 0 if there is none.
func (r *Reader) LastCommit() (uint64, error) {
	return loadOrZero(r, sequenceKey(), decodeNumber)
}

// AuditHead implements domain.Reader.
func (r *Reader) AuditHead() (domain.AuditHead, error) {
	return loadOrZero(r, AuditHeadKey(), decodeHead)
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
	return t.putHead(domain.AuditHead{Count: a.Number, Hash: a.Hash, Importing: before.Importing})
}

// putHead stages the end of the audit trail.
func (t *Tx) putHead(head domain.AuditHead) error {
	k := AuditHeadKey()
	if head == (domain.AuditHead{}) {
		return t.write(k, nil, nil)
	}
	return t.write(k, encodeHead(k, head), nil)
}

// BeginImport implements domain.Tx.
func (t *Tx) BeginImport() error {
	k := AuditHeadKey()
	head, err := t.AuditHead()
	if err == nil && head.Count > 1 {
		err = fmt.Errorf("an audit trail of %d records cannot begin anew", head.Count)
	}
	if err == nil && head.Count == 1 {
		var only domain.AuditRecord
		if only, err = t.AuditRecord(1); err == nil {
			err = cmp.Or(t.removeHistory(only), t.write(AuditKey(1), nil, nil))
		}
	}
	if err != nil {
		return t.write(k, nil, err)
	}
	return t.putHead(domain.AuditHead{Importing: true})
}

// EndImport implements domain.Tx.
func (t *Tx) EndImport() error {
	head, err := t.AuditHead()
	if err != nil {
		return t.write(AuditHeadKey(), nil, err)
	}
	head.Importing = false
	return t.putHead(head)
}

// replayMargin is how long a replay is kept after it expires. The clocks of other machines
// may differ.
const replayMargin = time.Hour

// Replay implements domain.Reader.
func (r *Reader) Replay(id domain.ReplayID) (domain.Replay, error) {
	replay, err := load(r, ReplayKey(id), decodeReplay)
	replay.ID = id
	return replay, err
}

// Replay implements domain.Reader. It guesses that there is no answer, because requests are
// seldom repeated.
func (t *Tx) Replay(id domain.ReplayID) (domain.Replay, error) {
	if t.vacant(ReplayKey(id)) {
		return domain.Replay{ID: id}, domain.ErrNotFound
	}
	return t.Reader.Replay(id)
}

// Replays implements domain.Reader. It sees the writes that the operation had
// staged when the iteration began.
func (r *Reader) Replays() iter.Seq2[domain.Replay, error] {
	prefix := KindReplay.Prefix()
	return each(r, prefix, func(c *cursor) (domain.Replay, error) {
		replay, err := decodeAt(c, decodeReplay)
		if err == nil && copy(replay.ID[:], c.key[len(prefix):]) != len(replay.ID) {
			err = damaged(KindReplay, "its key has another length")
		}
		return replay, err
	})
}

// Pad writes count records of size bytes each. They have expired, so nobody can read them.
// Engines use it to fill space.
func (t *Tx) Pad(count, size int) error {
	record := make([]byte, size)
	for n := range count {
		k := ReplayKey(domain.ReplayID{0: 'p', 1: 'a', 2: 'd', 3: byte(n)})
		if err := t.write(k, record, nil); err != nil {
			return err
		}
		t.stage.expire(k, time.Unix(1, 0))
	}
	return nil
}

// PutReplay implements domain.Tx. The record is kept for replayMargin after the replay
// expires, and for replayMargin from now at least.
func (t *Tx) PutReplay(r domain.Replay) error {
	k := ReplayKey(r.ID)
	record, err := encodeReplay(k, r)
	if err := t.write(k, record, err); err != nil {
		return err
	}
	end := r.ExpiresAt
	if now := time.Now(); end.Before(now) {
		end = now
	}
	t.stage.expire(k, end.Add(replayMargin))
	return nil
}
