package records

import (
	"cmp"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A Key is keyVersion, a kind and the fields that identify a record of that kind. Ids are
// UUIDs of 16 bytes. Only a slug or a label has no fixed length:
//
//	w <workspace id>                      the workspace
//	s <workspace slug>                    its id, as text
//	p <workspace id> <preset slug>        the preset
//	v <preset id> <number, 8 bytes>       one version of it
//	k <key id>                            the issued key
//	h <SHA-256 of the secret>             its id, as text
//	m <preset id> <label>                 the number of the label's latest change
//	l <preset id> <label> <number>        one change of it
//	t                                     the end of the audit trail
//	a <number, 8 bytes>                   one record of it
//	i <preset or workspace id>            the number of entries of the object's history
//	j <preset or workspace id> <number, 8 bytes>  its entry of an audit record, in descending order
//	u <workspace id> <preset id> <d or h> <hour, 8 bytes> <node>  a row of usage, of a day or an hour
//	x <workspace id> <preset slug>        when the versions of the preset were last served
//	c <key, preset or workspace id>       what was spent in the current windows of its limits
//	f                                     the secret for handles of feedback
//	r <SHA-256 of key and request>        an answer kept for repeated requests
//	e <list>                              the head of a list
//	o <list> <block, 8 bytes>             the names of the block's objects
//	d <workspace or preset id>            one that is deleted, until its content is removed
//	n                                     the number of the last commit
//
// The list of the workspaces is w. The list of a workspace's presets is p and the
// workspace's id.
type Key []byte

const keyVersion = 1

// Kind is the kind of a record.
type Kind byte

// The kinds of records.
const (
	KindWorkspace     Kind = 'w'
	KindWorkspaceSlug Kind = 's'
	KindPreset        Kind = 'p'
	KindVersion       Kind = 'v'
	KindKey           Kind = 'k'
	KindKeyHash       Kind = 'h'
	KindLabel         Kind = 'm'
	KindLabelChange   Kind = 'l'
	KindAuditHead     Kind = 't'
	KindAudit         Kind = 'a'
	KindHistory       Kind = 'i'
	KindHistoryEntry  Kind = 'j'
	KindUsage         Kind = 'u'
	KindServed        Kind = 'x'
	KindSpent         Kind = 'c'
	KindInput         Kind = 'q'
	KindFeedback      Kind = 'f'
	KindReplay        Kind = 'r'
	KindListHead      Kind = 'e'
	KindListBlock     Kind = 'o'
	KindDeleted       Kind = 'd'
	KindSequence      Kind = 'n'
)

var kindNames = map[Kind]string{
	KindWorkspace:     "workspace",
	KindWorkspaceSlug: "workspace slug",
	KindPreset:        "preset",
	KindVersion:       "preset version",
	KindKey:           "issued key",
	KindKeyHash:       "issued key hash",
	KindLabel:         "label",
	KindLabelChange:   "label change",
	KindAuditHead:     "audit head",
	KindAudit:         "audit",
	KindHistory:       "history",
	KindHistoryEntry:  "history entry",
	KindUsage:         "usage",
	KindServed:        "last served",
	KindSpent:         "spending",
	KindInput:         "input",
	KindFeedback:      "feedback secret",
	KindReplay:        "kept answer",
	KindListHead:      "list head",
	KindListBlock:     "list block",
	KindDeleted:       "deletion",
	KindSequence:      "commit number",
}

// String returns the kind as operators call it.
func (k Kind) String() string { return cmp.Or(kindNames[k], "unknown record") }

// Lasting reports whether stored records of a kind are never removed.
func (k Kind) Lasting() bool {
	switch k {
	case KindAuditHead, KindAudit, KindHistory, KindHistoryEntry, KindFeedback, KindSequence:
		return true
	default:
		return false
	}
}

// Valid reports whether k has a version and a kind. Only a valid key has a Kind.
func (k Key) Valid() bool { return len(k) >= 2 && k[0] == keyVersion }

// Kind returns the kind of the record under k.
func (k Key) Kind() Kind { return Kind(k[1]) }

// Changes adds to c the objects that are read by way of the record under k, which the caller
// is about to write or remove. A former slug or hash is covered, because its record is
// removed, and an issued key, because its hash record is written or removed with it. Ids are
// in their canonical form. A key of an unknown form adds nothing.
func (k Key) Changes(c *domain.Change) {
	if !k.Valid() {
		return
	}
	name := k[2:]
	id, err := uuid.FromBytes(name[:min(len(name), len(uuid.UUID{}))])
	switch kind := k.Kind(); {
	case kind == KindWorkspaceSlug:
		c.Workspace(string(name))
	case kind == KindKeyHash && len(name) == len(domain.KeyHash{}):
		c.Key(domain.KeyHash(name))
	case err != nil:
	case kind == KindWorkspace:
		c.Workspace(id.String())
		c.Workspaces()
	case kind == KindPreset:
		c.Presets(id.String())
		fallthrough
	case kind == KindServed:
		c.Preset(id.String(), string(name[len(id):]))
	}
}

// maxSlug bounds a slug in a key, in bytes. The domain allows much less, and Badger allows
// much longer keys.
const maxSlug = 1024

// The functions below return nil for an id or slug that cannot be stored. Clients choose
// these names, so a nil key has no record.

// WorkspaceKey is the key of a workspace.
func WorkspaceKey(id string) Key { return idKey(KindWorkspace, id) }

// WorkspaceSlugKey is the key of the record that maps a slug to a workspace.
func WorkspaceSlugKey(slug string) Key {
	if len(slug) > maxSlug {
		return nil
	}
	return append(newKey(KindWorkspaceSlug, len(slug)), slug...)
}

// PresetKey is the key of a preset.
func PresetKey(workspaceID, slug string) Key {
	return namedKey(KindPreset, workspaceID, slug, 0)
}

func servedKey(workspaceID, slug string) Key {
	return namedKey(KindServed, workspaceID, slug, 0)
}

// VersionKey is the key of version n of a preset.
func VersionKey(presetID string, n int) Key {
	id, ok := parseID(presetID)
	if !ok || n < 1 {
		return nil
	}
	return binary.BigEndian.AppendUint64(KindVersion.under(id), uint64(n))
}

func deletedKey(id string) Key { return idKey(KindDeleted, id) }

// KeyKey is the key of an issued key.
func KeyKey(id string) Key { return idKey(KindKey, id) }

// KeyHashKey is the key of the record that maps a hash to an issued key.
func KeyHashKey(hash domain.KeyHash) Key {
	return append(newKey(KindKeyHash, len(hash)), hash[:]...)
}

// LabelKey is the key of the number of a label's latest change.
func LabelKey(presetID, label string) Key {
	return namedKey(KindLabel, presetID, label, 0)
}

// LabelChangeKey is the key of change n of a label.
func LabelChangeKey(presetID, label string, n int) Key {
	k := namedKey(KindLabelChange, presetID, label, 8)
	if k == nil || n < 1 {
		return nil
	}
	return binary.BigEndian.AppendUint64(k, uint64(n))
}

// AuditHeadKey is the key of the end of the audit trail.
func AuditHeadKey() Key { return newKey(KindAuditHead, 0) }

// AuditKey is the key of record n of the audit trail.
func AuditKey(n int) Key { return binary.BigEndian.AppendUint64(newKey(KindAudit, 8), uint64(n)) }

// ReplayKey is the key of a kept answer.
func ReplayKey(id domain.ReplayID) Key { return append(newKey(KindReplay, len(id)), id[:]...) }

// sequenceKey is the key of the number of the last commit.
func sequenceKey() Key { return newKey(KindSequence, 0) }

func idKey(of Kind, text string) Key { return namedKey(of, text, "", 0) }

// namedKey is the key of an id and a name, with room for more bytes.
func namedKey(of Kind, text, name string, room int) Key {
	id, ok := parseID(text)
	if !ok || len(name) > maxSlug {
		return nil
	}
	return append(append(newKey(of, len(id)+len(name)+room), id[:]...), name...)
}

// Prefix returns the common prefix of the keys of a kind.
func (k Kind) Prefix() Key { return newKey(k, 0) }

// under returns the common prefix of the keys of a kind and an id, with room for a number.
func (k Kind) under(id uuid.UUID) Key { return append(newKey(k, len(id)+8), id[:]...) }

func newKey(of Kind, room int) Key {
	return append(make(Key, 0, 2+room), keyVersion, byte(of))
}

// parseID reads a UUID in its canonical form of 36 characters, in either case. It accepts
// no other notation.
func parseID(text string) (uuid.UUID, bool) {
	if len(text) != 36 {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
