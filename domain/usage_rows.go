package domain

import "time"

// UsageID names a row of usage, of an hour or a day. It is that of one preset, or of the
// requests without one.
type UsageID struct {
	WorkspaceID string
	// PresetID is empty for requests without a preset.
	PresetID string
	// Day tells the row of a day from that of an hour.
	Day bool
	// Start is the beginning of the hour or the day, in UTC. It is not before 1970.
	Start time.Time
}

// UsageRow is a row of usage. Each node of a store has rows of its own, and their sum counts.
type UsageRow struct {
	UsageID
	// Node is the Store.Node of the node that writes the row.
	Node string
	// Content is a row as package usage encodes it. It has at most MaxUsageSize bytes.
	Content []byte
}

// MaxUsageSize bounds the content of a row of usage, in bytes.
const MaxUsageSize = 256 << 10

// UsageRange selects rows of usage.
type UsageRange struct {
	// WorkspaceID selects the rows of a workspace. Empty selects those of all.
	WorkspaceID string
	// PresetID selects the rows of a preset of the workspace, and &"" those of requests
	// without one. nil selects all rows of the workspace.
	PresetID *string
	// Day selects rows of days, and not of hours.
	Day bool
	// From and To select rows that start in this time. To is exclusive.
	From, To time.Time
}
