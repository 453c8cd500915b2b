package storage

import "time"

// Salvage is the result of copying what is whole of a damaged store into a new one.
type Salvage struct {
	// StoreID is the id of the new store.
	StoreID string `json:"store_id"`
	// Commit is the last commit that was found. Acknowledged is the last one that was
	// answered, or 0 if that is unknown.
	Commit       uint64 `json:"commit"`
	Acknowledged uint64 `json:"acknowledged"`
	// LastChange is the time of the last record of the audit trail that was found.
	LastChange time.Time `json:"last_change,omitzero"`
	// Copied counts the objects in the new store by what they are, such as versions.
	Copied map[string]int `json:"copied"`
	// Lost are the damaged files, and the objects that were not copied, or not as they were.
	Lost []Loss `json:"lost"`
}

// Loss is damage in a file, or an object that a salvage did not copy, or not as it was. Fields that
// do not apply or are unknown are empty.
type Loss struct {
	// Kind is file, workspace, preset, version, label, key, audit or commits.
	Kind string `json:"kind"`
	// Name is that of the file, or the slugs in the new store, such as workspace/preset/label.
	Name string `json:"name,omitzero"`
	// ID is that of the workspace, the preset or the key.
	ID string `json:"id,omitzero"`
	// First and Last are the numbers of versions, audit records or commits.
	First int    `json:"first,omitzero"`
	Last  int    `json:"last,omitzero"`
	What  string `json:"what"` // without stored content
}
