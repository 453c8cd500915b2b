package domain

import (
	"context"
	"errors"
	"iter"
)

var (
	// ErrNotFound is what a Reader returns for an object that is not stored.
	// The Service turns it into a NotFound error that names the object.
	ErrNotFound = errors.New("not stored")
	// ErrConflict is what an engine's Update returns when other writers kept
	// it from finishing within its own bounded number of tries.
	ErrConflict = errors.New("too many concurrent changes")
	// ErrClosed is what a Store returns after it was closed.
	ErrClosed = errors.New("store is closed")
	// ErrTooLarge is in the chain of what a Put returns for an object of which an
	// engine cannot store as much, and of what Update returns for a change that is
	// more than it can make at once. All of them can store an object of MaxStoredSize,
	// and make a change that puts MaxChangeObjects of MaxChangeSize in all and removes
	// MaxChangeRemoved.
	ErrTooLarge = errors.New("too large to store")
	// ErrTaken is in the chain of what a Put returns for a number that is stored
	// already, or is not the next where no other can be.
	ErrTaken = errors.New("the number is taken")
	// ErrUnavailable is in the chain of what a Store returns while it cannot do
	// what was asked, for a reason that is not the caller's: a full disk, say. It
	// has changed nothing, and asking again later may help.
	ErrUnavailable = &Error{Kind: Unavailable, Message: "Service temporarily unavailable"}
	// ErrUnknown is in the chain of what Update returns when the engine has lost sight
	// of a change: it may have been made, and may not.
	ErrUnknown = errors.New("it is not known whether the change was made")
)

// What every engine can do in one Update. Changes of the Service are no larger.
const (
	// MaxChangeObjects is how many objects it can put: calls of Tx's Put methods.
	MaxChangeObjects = 500
	// MaxChangeSize is how many bytes those can have in all. Each counts as its JSON,
	// that of a workspace or a preset twice, as its list has it, too, and 1 KiB for what
	// it takes to find it.
	MaxChangeSize = 1 << 20
	// MaxChangeRemoved is how many versions it can remove. Others who write wait
	// meanwhile, and an engine has to hold all of it.
	MaxChangeRemoved = 1000
)

// Store keeps workspaces, presets, their versions and issued keys. It knows
// how to make a change atomic and durable; which changes are right is the
// Service's business. Every engine passes the suite in storage/storagetest.
//
// A Store is safe for concurrent use.
type Store interface {
	// View runs fn with a consistent snapshot of what is stored. It returns
	// fn's error as it is, or the engine's own. The Reader is dead once fn
	// has returned.
	//
	// The snapshot has all changes that had been made, on whichever node, when View
	// was called, and from then on the stamps tell of them, as after Sync.
	View(ctx context.Context, fn func(Reader) error) error

	// Update runs fn and applies what fn wrote as one atomic change: all of
	// it or, when fn or the engine fails, none. Updates appear to run one
	// after another, each seeing all that earlier ones wrote: what fn read is
	// still so when its writes take effect. When Update returns nil the
	// change survives a crash of the process and of the machine.
	//
	// An engine may run fn several times (optimistic ones repeat it after a
	// conflict), at another time and on another goroutine, so fn does nothing
	// but read and write through its Tx and set variables of its caller,
	// afresh on each run. fn never calls View or Update.
	//
	// fn's error is returned as it is. ErrConflict means that the engine gave
	// up, ErrUnavailable that it did not begin. ctx ending before fn has run
	// returns ctx's error and changes nothing. Any other error, such as ErrUnknown,
	// leaves the outcome unknown to the caller.
	Update(ctx context.Context, fn func(Tx) error) error

	// Stamps returns the stamps of what is stored: after an Update that wrote
	// a preset, a workspace or a key has returned, its stamp differs from
	// what it was when the Update began, and so does that of the list that shows
	// it. It costs no I/O. Of what others change who share what is stored, on other
	// nodes, the stamps may tell later: see Sync.
	Stamps() *Stamps

	// Sync returns once the stamps tell of all changes that had been made, on
	// whichever node, when it was called. Where nobody shares what is stored that
	// is always so, and Sync costs nothing. An error is that of ctx or has
	// ErrUnavailable in its chain.
	Sync(ctx context.Context) error
}

// Reader reads one snapshot. Every method returns ErrNotFound for what is not
// stored, and an engine error, never wrong data, for what is stored but
// damaged. Values returned are the caller's to keep.
//
// Objects are encoded once, when they are put: the methods that return JSON give
// what the object's own method JSON returned then, and decode nothing.
type Reader interface {
	// Workspace returns the workspace of an id.
	Workspace(id string) (Workspace, error)
	// WorkspaceJSON returns the workspace of an id as clients see it.
	WorkspaceJSON(id string) ([]byte, error)
	// WorkspaceID returns the id of the workspace that holds slug.
	WorkspaceID(slug string) (string, error)
	// Preset returns the preset of a slug in a workspace.
	Preset(workspaceID, slug string) (Preset, error)
	// PresetJSON returns the preset of a slug in a workspace as clients see it in
	// a list, and what else it takes to read the rest of it.
	PresetJSON(workspaceID, slug string) (PresetState, []byte, error)
	// WorkspacePage returns a page of the workspaces as a JSON array, in the order
	// in which they were stored first, and how many there are. As the Service has
	// a clock that never goes back, the oldest comes first. What a page costs does
	// not depend on its offset.
	WorkspacePage(page Page) ([]byte, int, error)
	// PresetPage returns a page of the presets of a workspace that a filter lets
	// through as a JSON array, and how many those are. First comes the one that was
	// put last. What a page costs does not depend on its offset, nor on how many
	// presets there are of other statuses.
	PresetPage(workspaceID string, filter PresetFilter, page Page) ([]byte, int, error)
	// Presets yields every preset of a workspace, whatever its status, by
	// slug in byte order, without holding them all in memory. An error ends
	// it. An unknown workspace has none.
	Presets(workspaceID string) iter.Seq2[Preset, error]
	// PresetVersion returns version n of p. Where p.Has(n), a missing record is
	// damage and not ErrNotFound.
	PresetVersion(p PresetState, n int) (PresetVersion, error)
	// PresetVersionJSON returns version n of p as clients see it, and otherwise
	// does what PresetVersion does.
	PresetVersionJSON(p PresetState, n int) ([]byte, error)
	// LabelChanges returns the number of the latest change of a label of p, 0
	// where it was never set.
	LabelChanges(p Preset, label string) (int, error)
	// LabelChange returns change n of a label of p.
	LabelChange(p Preset, label string, n int) (LabelChange, error)
	// LabelNames yields the name of every label of p that was ever set, also of
	// those that were removed since, in byte order, as Presets does.
	LabelNames(p Preset) iter.Seq2[string, error]
	// Key returns the issued key of an id.
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
	// Replay returns the answer that was kept under an id. One that has
	// expired may be gone.
	Replay(id ReplayID) (Replay, error)
	// Replays yields every answer that is kept, by id in byte order, as Presets
	// does. One that has expired may be among them.
	Replays() iter.Seq2[Replay, error]
}

// Tx reads and writes within one Update. Reads see the Tx's own writes.
type Tx interface {
	Reader

	// PutWorkspace stores w under its id and its slug, replacing an earlier
	// state of the same id and releasing a slug that it no longer has. The
	// caller has made sure that no other workspace holds the slug.
	PutWorkspace(w Workspace) error
	// DeleteWorkspace removes w and releases its slug. Its presets, their
	// versions and their labels go with it, at once or later: callers look for
	// the workspace before they look for anything in it, and in the same
	// snapshot. Its id is not used again.
	DeleteWorkspace(w Workspace) error
	// PutPreset stores p under its workspace and slug. p.Kept is what it is when p
	// is read. Of a new one it is zero, or, where p comes from another store, what it
	// was there: versions that p does not have were never stored here.
	PutPreset(p Preset) error
	// PutPresetVersion stores a version of p under its number. A version is
	// never changed once it is stored: ErrTaken.
	PutPresetVersion(p Preset, v PresetVersion) error
	// PruneVersions removes versions of p, which is stored and has them, for good:
	// its Kept is then what Without gives. All else of p stays as it is stored, and
	// so does its place in its list. The numbers are in order.
	PruneVersions(p Preset, numbers []int) error
	// PutLabelChange stores a change of a label of p under its number, which
	// is one more than that of the latest, or ErrTaken.
	PutLabelChange(p Preset, label string, c LabelChange) error
	// PutKey stores k under its id and its hash.
	PutKey(k Key) error
	// PutAudit adds r to the end of the audit trail, of which it is the new
	// head. Its Number is one more than that of the head. text is its JSON.
	PutAudit(r AuditRecord, text []byte) error
	// BeginImport empties an audit trail of one record at most, that of the default
	// workspace which a server makes when it starts first: what comes from another
	// store brings its own trail. It refuses any longer one, which nothing removes.
	// From then on the head has Importing, whatever is added to the trail, and so the
	// Service makes no change, on whichever node.
	BeginImport() error
	// EndImport takes Importing from the head.
	EndImport() error
	// PutReplay stores r under its id. After its ExpiresAt nobody asks for it
	// any more, and its space can be had again.
	PutReplay(r Replay) error
}
