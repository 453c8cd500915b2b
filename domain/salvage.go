package domain

import "time"

// salvaged is the operation of the record that NewSalvageRecord returns.
const salvaged = "store.salvage"

// NewSalvageRecord returns an audit record that follows head, with its JSON. It says that the
// store is a copy of the intact records of a damaged one. message says which records of the
// damaged store's trail are not among those before. id is that of the new store.
func NewSalvageRecord(head AuditHead, at time.Time, id, message string) (AuditRecord, []byte, error) {
	r := AuditRecord{
		Number: head.Count + 1, Time: at.UTC(), UserID: SalvageUser, Operation: salvaged,
		Object: AuditObject{Kind: "store", ID: id, Message: message}, Previous: head.Hash,
	}
	text, err := r.seal()
	return r, text, err
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
	return newWorkspace(id, SalvageUser, now.UTC(), NewWorkspace{Name: slug, Slug: slug})
}
