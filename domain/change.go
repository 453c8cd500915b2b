package domain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// Write has the principal of a change and the conditions of its request.
type Write struct {
	Who Principal
	// RequestID names the request in the audit trail, empty for none.
	RequestID string
	// Actor is the person behind the principal, as a trusted proxy names them, empty for none.
	Actor string
	// Condition must hold before the object is changed.
	Condition Condition
	// Idempotency makes repeated requests change the object once.
	Idempotency Idempotency
	// Owner is the owner that changes a preset, empty for none. A preset without an owner
	// then gets this one.
	Owner string
	// Override is the owner whose presets are changed by someone else, empty for none.
	Override string
}

// By returns a Write of a principal without conditions.
func By(who Principal) Write { return Write{Who: who} }

// MaxIdempotencyKey bounds an Idempotency-Key, in characters.
const MaxIdempotencyKey = 255

// idempotencyLifetime is how long an answer can be replayed.
const idempotencyLifetime = 24 * time.Hour

// Idempotency tells a repeated request from a new one.
type Idempotency struct {
	// Key is the client's name for the request, empty for none. Two principals may use
	// the same key.
	Key string
	// Request is a digest of the request.
	Request [sha256.Size]byte
}

// Replay is the answer to an earlier change. Repeated requests get it again. Its struct
// tags are its stored form.
type Replay struct {
	// ID is a digest of the principal's secret and the client's Idempotency-Key.
	ID        ReplayID  `json:"-"`
	Request   []byte    `json:"request"`
	Answer    []byte    `json:"-"` // the whole JSON: the version in it may be pruned before the replay
	Workspace string    `json:"workspace_id"`
	Version   int       `json:"version"`
	Tag       string    `json:"tag,omitzero"` // see Outcome
	ExpiresAt time.Time `json:"expires_at"`
}

// ReplayID names a Replay.
type ReplayID [sha256.Size]byte

func (w Write) replayID() ReplayID {
	owner := sha256.Sum256(append(w.Who.Hash[:], w.Who.KeyID...)) // all hashes have one length, so two pairs never have the same text
	return sha256.Sum256(append(owner[:], w.Idempotency.Key...))
}

// Outcome is the result of a change.
type Outcome struct {
	// JSON is the answer's data. It is nil if the object is gone.
	JSON []byte
	// Tag is the entity tag of the changed object if it is not the Tag of JSON, else empty.
	Tag string
	// WorkspaceID is the workspace of the object. Number is its version, 0 for none.
	WorkspaceID string
	Number      int
	// Replayed is set if an earlier request with the same Idempotency-Key made the
	// change. JSON is then the answer to that request.
	Replayed bool
	// Records are the audit records of the change, in their order. There is none if nothing
	// changed, and in a replayed answer.
	Records []AuditRecord

	// Preset, Version and Workspace are the objects in JSON. Objects that JSON does not
	// have are zero. All are zero in a replayed answer.
	Preset    Preset
	Version   PresetVersion
	Workspace Workspace
}

// change is one run of an Update that changes something.
type change struct {
	Tx
	Write
	now time.Time
	// overridden is the owner of the preset if the change overrides it.
	overridden string
	out        Outcome
}

// change runs fn as one durable change under the conditions of w, at most once for an
// Idempotency-Key. fn sets c.out. It calls c.record with what it did, and does not call it
// if nothing needs to change.
func (s *Service) change(ctx context.Context, w Write, fn func(c *change) error) (Outcome, error) {
	if err := w.checkOwners(); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	var durable []AuditRecord
	if s.Changing != nil {
		changed := s.Changing()
		defer func() { changed(durable) }()
	}
	err := s.update(ctx, func(tx Tx) error {
		c := &change{Tx: tx, Write: w, now: s.timestamp()}
		done, err := c.replayEarlier()
		if err == nil && !done {
			err = fn(c)
			if err == nil {
				err = c.storeReplay()
			}
		}
		out = c.out
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	durable = out.Records
	return out, nil
}

// errIdempotencyReused is the answer to another request with a used key.
var errIdempotencyReused = &Error{Kind: Unprocessable, Message: "Idempotency-Key was already used for another request"}

// replayEarlier answers a repeated request with the stored answer.
func (c *change) replayEarlier() (done bool, err error) {
	if c.Idempotency.Key == "" {
		return false, nil
	}
	earlier, err := c.Replay(c.replayID())
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case !c.now.Before(earlier.ExpiresAt):
		return false, nil
	case string(earlier.Request) != string(c.Idempotency.Request[:]):
		return false, errIdempotencyReused
	}
	if earlier.Answer != nil { // the workspace may have been deleted
		if err := CheckWorkspace(c, earlier.Workspace); KindOf(err) == NotFound {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	c.out = Outcome{JSON: earlier.Answer, Tag: earlier.Tag, WorkspaceID: earlier.Workspace, Number: earlier.Version, Replayed: true}
	return true, nil
}

// storeReplay stores the answer for repeated requests.
func (c *change) storeReplay() error {
	if c.Idempotency.Key == "" {
		return nil
	}
	return c.PutReplay(Replay{
		ID: c.replayID(), Request: c.Idempotency.Request[:], Answer: c.out.JSON,
		Workspace: c.out.WorkspaceID, Version: c.out.Number, Tag: c.out.Tag, ExpiresAt: c.now.Add(idempotencyLifetime),
	})
}

// record adds what was done to the audit trail.
func (c *change) record(operation string, object AuditObject, before, after int, changes ...diff.FieldChange) error {
	head, err := c.AuditHead()
	if err != nil {
		return err
	}
	r, text, err := AuditRecord{
		Time: c.now, KeyID: c.Who.KeyID, UserID: c.Who.UserID, RequestID: c.RequestID,
		Operation: operation, Object: object, Before: before, After: after, Override: c.overridden, Actor: c.Actor, Changes: changes,
	}.after(head)
	if err != nil {
		return fmt.Errorf("encoding an audit record: %w", err)
	}
	c.out.Records = append(c.out.Records, r)
	return c.PutAudit(r, text)
}
