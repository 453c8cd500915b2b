package domain

import (
	"context"
	"errors"
	"iter"
)

var (
	// ErrNotFound is a Reader's error for an object that is not stored. The Service turns
	// it into a NotFound error that names the object.
	ErrNotFound = errors.New("not stored")
	// ErrConflict is the error of an engine's Update when other writers came first at every
	// try. The engine bounds the number of tries.
	ErrConflict = errors.New("too many concurrent changes")
	// ErrClosed is a Store's error after it was closed.
	ErrClosed = errors.New("store is closed")
	// ErrTooLarge is in the chain of a Put's error for an object that is too large for the
	// engine. For a change that is too large, it is in the chain of Update's error. Every
	// engine can store an object of MaxStoredSize. It can make a change that keeps
	// MaxChangeObjects, MaxChangeSize and MaxChangeRemoved.
	ErrTooLarge = errors.New("too large to store")
	// ErrTaken is in the chain of a Put's error for a number or a secret that is stored
	// already. PutLabelChange also returns it for a number that is not the next one.
	ErrTaken = errors.New("the number is taken")
	// ErrUnavailable is in the chain of a Store's error if the caller is not the cause. An
	// example is a full disk. Nothing was changed. A later retry may succeed.
	ErrUnavailable = &Error{Kind: Unavailable, Message: "Service temporarily unavailable"}
	// ErrUnknown is in the chain of Update's error when the engine does not know whether
	// it made the change.
	ErrUnknown = errors.New("it is not known whether the change was made")
)

// Every engine can do this much in one Update. The Service asks for no more.
const (
	// MaxChangeObjects is how many objects it can put: calls of Tx's Put methods.
	MaxChangeObjects = 350
	// MaxChangeSize is how many bytes those objects can have in all. Each counts as its
	// JSON and 1 KiB for its indexes. A preset that was stored before counts as 4 KiB more,
	// because it leaves its place in a list.
	MaxChangeSize = 1 << 20
	// MaxChangeRemoved is how many versions it can remove. Other writers wait for the
	// change, and the engine holds it in memory.
	MaxChangeRemoved = 1000
)

// Store keeps workspaces, presets, their versions and issued keys. It makes changes
// atomic and durable. The Service decides which changes are right. Every engine passes
// the suite in storage/storagetest.
//
// A Store is safe for concurrent use.
type Store interface {
	// View runs fn with a consistent snapshot of the store. It returns fn's error
	// unchanged, or the engine's own. The Reader must not be used after fn returned.
	//
	// The snapshot has all changes that any node made before the call of View. When fn
	// runs, the stamps tell of them, as after Sync.
	View(ctx context.Context, fn func(Reader) error) error

	// Update runs fn and applies its writes as one atomic change. If fn or the engine
	// fails, it applies none. Updates are serializable. Each sees all writes of earlier
	// ones, and fn's reads are still true when its writes take effect. When Update returns
	// nil, the change survives a crash of the process and of the machine.
	//
	// An engine may run fn several times, later, and on another goroutine. Optimistic
	// engines repeat it after a conflict. So fn only reads and writes through its Tx,
	// and sets variables of its caller afresh on each run. fn never calls View or Update.
	//
	// Update returns fn's error unchanged. ErrConflict means that the engine gave up,
	// ErrUnavailable that it did not begin. If ctx ends before fn has run, Update returns
	// ctx's error and changes nothing. After any other error, such as ErrUnknown, the
	// outcome is unknown.
	Update(ctx context.Context, fn func(Tx) error) error

	// Stamps returns the stamps of the store's objects. Before an Update returns, it
	// changes the stamp of each changed preset, workspace or key. It also changes the stamp
	// of the list that shows the object. Stamps costs no I/O. Stamps may show the changes
	// of other nodes later: see Sync.
	Stamps() *Stamps

	// Node returns the UUID under which this Store writes rows of usage. No two open Stores
	// that write to the same place have the same one. A store of one node has the same one
	// always, so its later process goes on with the rows.
	Node() string

	// Sync returns once the stamps tell of all changes that any node made before the
	// call. In a store that is not shared they always do, and Sync costs nothing. The
	// error is that of ctx or has ErrUnavailable in its chain.
	Sync(ctx context.Context) error
}

// fromReserve is the context key of FromReserve.
type fromReserve struct{}

// FromReserve returns the context of an Update that takes rights away, such as the revocation of a
// key. It may use the disk space that an engine keeps in reserve, and needs only some records.
func FromReserve(ctx context.Context) context.Context {
	return context.WithValue(ctx, fromReserve{}, true)
}

// IsFromReserve reports whether ctx is of FromReserve.
func IsFromReserve(ctx context.Context) bool { return ctx.Value(fromReserve{}) != nil }

// Reader reads one snapshot. A method returns ErrNotFound for an object that is not stored,
// unless its comment says otherwise. For a damaged object it returns an engine error, never
// wrong data. The caller may keep the returned values.
//
// Objects are encoded once, when they are put. Methods that return JSON return that text
// and decode nothing.
type Reader interface {
	Workspace(id string) (Workspace, error)
	// WorkspaceJSON returns the workspace of an id as clients see it.
	WorkspaceJSON(id string) ([]byte, error)
	// WorkspaceID returns the id of the workspace that holds slug.
	WorkspaceID(slug string) (string, error)
	Preset(workspaceID, slug string) (Preset, error)
	// PresetJSON returns the preset of a slug in a workspace, as clients see it in a list.
	// It also returns the state for reading the preset's versions.
	PresetJSON(workspaceID, slug string) (PresetState, []byte, error)
	// WorkspacePage returns a page of the workspaces as a JSON array, and their total
	// number. The workspace that was created first comes first. See PresetPage for the cost.
	WorkspacePage(page Page) ([]byte, int, error)
	// PresetPage returns a page of a workspace's presets that match the filter as a JSON
	// array, and their total number. The preset that was put last comes first. A page costs
	// more at a higher offset, although only the presets of the page are read.
	PresetPage(workspaceID string, filter PresetFilter, page Page) ([]byte, int, error)
	// PresetList yields the JSON of all presets that PresetPage returns, in that order. It
	// does not hold them all in memory. An error ends it.
	PresetList(workspaceID string, filter PresetFilter) iter.Seq2[[]byte, error]
	// Presets yields every preset of a workspace, of any status, by slug in byte order.
	// It does not hold them all in memory. An error ends it. An unknown workspace has
	// none.
	Presets(workspaceID string) iter.Seq2[Preset, error]
	// PresetVersion returns version n of p. If p.Has(n), a missing record is damage and not
	// ErrNotFound.
	PresetVersion(p PresetState, n int) (PresetVersion, error)
	// PresetVersionJSON is PresetVersion for the version's JSON.
	PresetVersionJSON(p PresetState, n int) ([]byte, error)
	// PresetVersionSummary is PresetVersion for the version's Summary. It reads neither the
	// settings nor the prompt.
	PresetVersionSummary(p PresetState, n int) ([]byte, error)
	// LabelChanges returns the number of the latest change of a label of p, 0 if it was
	// never set.
	LabelChanges(p Preset, label string) (int, error)
	LabelChange(p Preset, label string, n int) (LabelChange, error)
	Key(id string) (Key, error)
	// KeyByHash returns the issued key whose secret has this SHA-256.
	KeyByHash(hash KeyHash) (Key, error)
	// Keys returns every issued key, the oldest first.
	Keys() ([]Key, error)
	// AuditHead returns the end of the audit trail, zero where it is empty.
	AuditHead() (AuditHead, error)
	// AuditRecord returns record n of the audit trail. For 1 <= n <= the
	// head's Count a missing record is damage and not ErrNotFound.
	AuditRecord(n int) (AuditRecord, error)
	// AuditTrail yields the records of the audit trail after a number, the oldest first. It
	// does not hold them all in memory. An error ends it. A missing record is damage.
	AuditTrail(after int) iter.Seq2[AuditRecord, error]
	// History returns the numbers of the audit records that concern a preset or a
	// workspace, the newest first. total is how many there are in all: see
	// AuditRecord.Concerns. The cost of a page does not depend on the length of the trail. An
	// unknown id has no records. The records of a deleted workspace stay.
	History(id string, page Page) (numbers []int, total int, err error)
	// Usage returns the content of a row of usage that a node wrote.
	Usage(id UsageID, node string) ([]byte, error)
	// UsageRows yields rows of usage by workspace, preset, start and node. It does not hold
	// them all in memory. Its cost depends on the number of presets that have usage, and of
	// rows that it yields. An error ends it. Rows of a workspace that is deleted may be
	// among them.
	UsageRows(of UsageRange) iter.Seq2[UsageRow, error]
	// Served returns when the versions of a preset were last served. It is empty, and no
	// error, for a preset without a record and for one that does not exist.
	Served(workspaceID, slug string) (Served, error)
	// Spent returns what PutSpent stored for the key, preset or workspace of an id.
	Spent(id string) ([]byte, error)
	// Inputs yields the saved inputs of the preset of an id, as they were put, in the order of their ids. An error ends
	// it.
	Inputs(presetID string) iter.Seq2[[]byte, error]
	Input(presetID, id string) ([]byte, error)
	// FeedbackSecret returns the store's secret for handles of feedback.
	FeedbackSecret() (FeedbackSecret, error)
	// Replay returns the answer that was kept under an id. An expired one may be gone.
	Replay(id ReplayID) (Replay, error)
}

// Tx reads and writes within one Update. Reads see the Tx's own writes.
type Tx interface {
	Reader

	// PutWorkspace stores w under its id and its slug. It replaces an earlier state of
	// the same id and releases its earlier slug. The caller has made sure that no other
	// workspace holds the slug.
	PutWorkspace(w Workspace) error
	// DeleteWorkspace removes w and releases its slug. The engine removes its presets,
	// their versions and their labels at once or later. So callers look for the workspace
	// first, in the same snapshot. Its id is not used again.
	DeleteWorkspace(w Workspace) error
	// PutPreset stores p under its workspace and slug. p.Kept must be as p was read. A
	// new preset has none, unless it is salvaged: the versions that it lacks were never stored
	// here.
	PutPreset(p Preset) error
	// PutPresetVersion stores a version of p under its number. A version is
	// never changed once it is stored: ErrTaken.
	PutPresetVersion(p Preset, v PresetVersion) error
	// PruneVersions removes versions of a stored preset for good. Its Kept becomes the
	// result of Without. The rest of p stays as stored, and so does its place in its
	// list. p has versions of these numbers. The numbers are in order.
	PruneVersions(p Preset, numbers []int) error
	// DeletePreset removes a stored preset with its versions, at most MaxChangeRemoved, for good. The
	// engine removes its labels, and answers kept for repeated requests that show it, at once or later.
	DeletePreset(p Preset) error
	// PutLabelChange stores a change of a label of p under its number. The error is
	// ErrTaken unless that number is the latest one plus 1.
	PutLabelChange(p Preset, label string, c LabelChange) error
	// PutKey stores k under its id and its hash.
	PutKey(k Key) error
	// DeleteKey removes the issued key of k's id, with its hash. Nothing happens if it is
	// not stored. The audit trail keeps its records.
	DeleteKey(k Key) error
	// PutAudit adds r to the end of the audit trail. Its Number is one more than the
	// head's. text is its JSON.
	PutAudit(r AuditRecord, text []byte) error
	// PutUsage stores a row of usage, and replaces what its node stored before. It changes no
	// stamp. Without the workspace it returns ErrNotFound.
	PutUsage(r UsageRow) error
	// RemoveUsage removes the row of usage that a node wrote, if it is stored.
	RemoveUsage(id UsageID, node string) error
	// PutServed stores when the versions of a stored preset were last served. It replaces
	// what is stored, and changes the preset's stamp. s has at most MaxServed versions.
	// Without the workspace it returns ErrNotFound.
	PutServed(workspaceID, slug string, s Served) error
	// PutSpent stores what was spent under the id of a key, a preset or a workspace, in at most
	// MaxSpentSize bytes. It replaces what is stored, and changes no stamp. The content is removed
	// with the object. The caller has made sure that the object exists.
	PutSpent(id string, content []byte) error
	// PutInput stores the JSON of a saved input, in at most MaxStoredSize bytes. It replaces what is stored, and changes
	// no stamp. The input is removed with the preset's workspace. The caller has made sure that the preset exists.
	PutInput(presetID, id string, content []byte) error
	// RemoveInput removes a saved input, if it is stored.
	RemoveInput(presetID, id string) error
	// PutFeedbackSecret stores the secret for handles of feedback. It changes no stamp. A
	// stored secret is never changed: ErrTaken.
	PutFeedbackSecret(secret FeedbackSecret) error
	// PutReplay stores r under its id. After its ExpiresAt the engine may remove it.
	PutReplay(r Replay) error
}
