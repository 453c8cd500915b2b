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
	Copied     Copied    `json:"copied"`
	// Damaged are the places in the old store's files that could not be read.
	Damaged []Place `json:"damaged"`
	// Lost are the objects that were not copied, or not as they were.
	Lost []Loss `json:"lost"`
}

// Copied counts the objects in a salvaged store.
type Copied struct {
	Workspaces   int `json:"workspaces"`
	Presets      int `json:"presets"`
	Versions     int `json:"versions"`
	LabelChanges int `json:"label_changes"`
	Keys         int `json:"keys"`
	Audit        int `json:"audit"`
	Usage        int `json:"usage"`
	Served       int `json:"served"`
	Answers      int `json:"answers"`
}

// Place is damage in a file.
type Place struct {
	File string `json:"file"`
	What string `json:"what"` // without stored content
}

// Loss is an object that a salvage did not copy, or not as it was. Fields that do not apply
// or are unknown are empty.
type Loss struct {
	// Kind is workspace, preset, version, label, key, audit, usage, commits, or records. The last
	// kind is of records that nothing else tells of, and that may be lost or old. Their files are
	// in What.
	Kind      string `json:"kind"`
	Workspace string `json:"workspace,omitzero"` // the slug in the new store
	Preset    string `json:"preset,omitzero"`    // the slug
	Label     string `json:"label,omitzero"`
	// WorkspaceID and PresetID tell more than slugs if these are lost.
	WorkspaceID string `json:"workspace_id,omitzero"`
	PresetID    string `json:"preset_id,omitzero"`
	// First and Last are the numbers of versions, audit records or commits.
	First int `json:"first,omitzero"`
	Last  int `json:"last,omitzero"`
	// ID is the id of a key, or the record's own key in hexadecimal.
	ID   string `json:"id,omitzero"`
	What string `json:"what"`
}
