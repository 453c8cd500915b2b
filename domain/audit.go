package domain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// AuditHash is the SHA-256 that chains the audit trail.
type AuditHash [sha256.Size]byte

// MarshalText writes h as 64 lower-case hexadecimal digits.
func (h AuditHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits, in either case.
func (h *AuditHash) UnmarshalText(text []byte) error { return (*KeyHash)(h).UnmarshalText(text) }

// AuditHead is the end of the audit trail.
type AuditHead struct {
	// Count is the number of records. The newest record has this number.
	Count int `json:"count"`
	// Hash is the hash of the newest record, zero if there is none. With a copy of it, an
	// operator can prove that no earlier record was changed.
	Hash AuditHash `json:"hash"`
}

// AuditObject is the object of a change. Fields that do not apply are empty.
type AuditObject struct {
	Kind        string `json:"kind"` // preset, workspace, key or store
	ID          string `json:"id"`
	WorkspaceID string `json:"workspace_id,omitzero"`
	Slug        string `json:"slug,omitzero"`
	Label       string `json:"label,omitzero"`
	// Split are the versions of a label's new split with their weights, such as 3:90,4:10.
	Split string `json:"split,omitzero"`
	// Status is the status that was set.
	Status PresetStatus `json:"status,omitzero"`
	// Pruned are the versions that were removed, such as 1-97,99.
	Pruned string `json:"pruned,omitzero"`
	// Draft is the new version if it was not designated, else 0.
	Draft int `json:"draft,omitzero"`
	// Message is the author's reason for a new version.
	Message string `json:"message,omitzero"`
	// Protection is set or cleared if the change did that to the label. If Label is empty,
	// it did that to the preset.
	Protection string `json:"protection,omitzero"`
	// Input is the id of the preset's saved input that the change is about.
	Input string `json:"input,omitzero"`
	// ManagedBy is the owner of the preset after the change, empty for none.
	ManagedBy string `json:"managed_by,omitzero"`
	// Name is the name of the key or of the saved input after the change.
	Name string `json:"name,omitzero"`
}

// AuditRecord describes one change: the principal, the operation and the object. It holds
// no key, no prompt and no settings of a version.
type AuditRecord struct {
	Number    int       `json:"number"` // from 1, without a gap
	Time      time.Time `json:"time"`
	KeyID     string    `json:"key_id"` // empty for the admin endpoint and the server itself
	UserID    string    `json:"user_id"`
	RequestID string    `json:"request_id"`
	// Operation is the kind of change, such as preset.designate.
	Operation string      `json:"operation"`
	Object    AuditObject `json:"object"`
	// Before and After are the versions that requests get before and after the change. Such
	// requests name the preset, or the changed label. 0 stands for no version, and for a
	// split.
	Before int `json:"version_before"`
	After  int `json:"version_after"`
	// Override is the owner of the preset that the change overrode, empty for none.
	Override string `json:"override,omitzero"`
	// Actor is the person who used the key, as a trusted proxy names them, empty for none.
	Actor string `json:"actor,omitzero"`
	// Changes are the fields that the update of a key, a workspace or a preset changed, by their names.
	Changes []diff.FieldChange `json:"changes,omitzero"`
	// Previous is the hash of the record before, zero for the first.
	Previous AuditHash `json:"previous"`
	// Hash is the SHA-256 of this record's JSON without its last member, hash.
	Hash AuditHash `json:"hash"`
}

// Concerns returns the ids of the objects that have r in their history. These are its
// preset, if it is about one, and its workspace.
func (r AuditRecord) Concerns() []string {
	var ids []string
	if r.Object.Kind == "preset" {
		ids = append(ids, r.Object.ID)
	}
	if r.Object.WorkspaceID != "" {
		ids = append(ids, r.Object.WorkspaceID)
	}
	return ids
}

// createVersion is the operation of a new version.
const createVersion = "preset.create_version"

// JSON returns r as it is stored and shown. A member of a later version must be left out
// if it is zero, or older trails would not verify.
func (r AuditRecord) JSON() ([]byte, error) { return jsonv2.Marshal(r) }

// after returns r as the record after head, with its JSON.
func (r AuditRecord) after(head AuditHead) (AuditRecord, []byte, error) {
	r.Number, r.Previous = head.Count+1, head.Hash
	text, err := r.seal()
	return r, text, err
}

// seal sets the hash of r and returns its JSON.
func (r *AuditRecord) seal() ([]byte, error) {
	r.Hash = AuditHash{}
	text, err := r.JSON()
	if err != nil {
		return nil, err
	}
	// The hash is about the text before its last member.
	const quoted = `"` + "0000000000000000000000000000000000000000000000000000000000000000" + `"}`
	begin := len(text) - len(`,"hash":`+quoted)
	text[begin] = '}'
	r.Hash = sha256.Sum256(text[:begin+1])
	text[begin] = ','
	hex.Encode(text[len(text)-len(quoted)+1:], r.Hash[:])
	return text, nil
}

// follows returns an error unless r is unchanged and comes right after head.
func (r AuditRecord) follows(head AuditHead) error {
	sealed := r
	_, err := sealed.seal()
	switch {
	case err != nil:
		return err
	case r.Number != head.Count+1:
		return fmt.Errorf("audit record %d stands where number %d should", r.Number, head.Count+1)
	case r.Previous != head.Hash:
		return fmt.Errorf("audit record %d does not follow from the one before it", r.Number)
	case r.Hash != sealed.Hash:
		return fmt.Errorf("audit record %d is not what it was written as", r.Number)
	}
	return nil
}

// MaxAuditPage bounds how many records AuditTrail returns at once.
const MaxAuditPage = 1000

// AuditTrail returns the records after a number, the oldest first. It returns at most limit
// of them, and at most MaxAuditPage. head is the end of the trail at the same moment.
func (s *Service) AuditTrail(ctx context.Context, after, limit int) (records []AuditRecord, head AuditHead, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		if head, err = r.AuditHead(); err != nil {
			return err
		}
		records = nil
		if limit < 1 {
			return nil
		}
		for record, err := range r.AuditTrail(after) {
			if err != nil {
				return err
			}
			if records = append(records, record); len(records) == min(limit, MaxAuditPage) {
				break
			}
		}
		return nil
	})
	return records, head, err
}

// VerifyAudit checks that records continue the trail from head, and returns its new end.
// The error names the first record that was changed, removed or put in.
func VerifyAudit(head AuditHead, records []AuditRecord) (AuditHead, error) {
	for _, r := range records {
		if err := r.follows(head); err != nil {
			return head, err
		}
		head = AuditHead{Count: r.Number, Hash: r.Hash}
	}
	return head, nil
}

// NewSalvageRecord returns an audit record that follows head, with its JSON. It says that the
// store is a copy of the intact records of a damaged one. message says which records of the
// damaged store's trail are not among those before. id is that of the new store.
func NewSalvageRecord(head AuditHead, at time.Time, id, message string) (AuditRecord, []byte, error) {
	r := AuditRecord{
		Time: at.UTC(), UserID: SalvageUser, Operation: "store.salvage",
		Object: AuditObject{Kind: "store", ID: id, Message: message},
	}
	return r.after(head)
}

// SalvageUser is the user of changes that a salvage makes.
const SalvageUser = "salvage"

// IsIntact reports whether r is unchanged since it was written. VerifyAudit tells whether it
// follows the record before.
func (r AuditRecord) IsIntact() bool {
	return r.follows(AuditHead{Count: r.Number - 1, Hash: r.Previous}) == nil
}

// NewSalvagedWorkspace returns a workspace with default settings, in the place of one whose
// record is lost.
func NewSalvagedWorkspace(id, slug string, now time.Time) Workspace {
	return newWorkspace(id, SalvageUser, now.UTC(), slug, slug)
}
