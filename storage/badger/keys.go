package badger

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A key is keyVersion, a kind and what tells records of that kind apart. Ids
// are UUIDs and stand as 16 bytes, so that only a slug, which comes last, has
// no fixed length:
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
//	r <SHA-256 of key and request>        an answer kept for those who ask again
//	e <list>                              the end of a list
//	o <list> <place, 8 bytes>             what stands there: a preset or workspace as clients see it
//	b <list> <leaf, 8 bytes>              which of its places are taken
//	c <list> <node, 8 bytes>              how many places are taken in each of its leaves
//	d <workspace id>                      a workspace that was deleted, while some of what was in it is still stored
//	n                                     the number of the last commit
//
// A list is w for that of the workspaces, or p and the workspace's id for that of
// its presets.
type key []byte

const keyVersion = 1

type kind byte

const (
	kindWorkspace     kind = 'w'
	kindWorkspaceSlug kind = 's'
	kindPreset        kind = 'p'
	kindVersion       kind = 'v'
	kindKey           kind = 'k'
	kindKeyHash       kind = 'h'
	kindLabel         kind = 'm'
	kindLabelChange   kind = 'l'
	kindAuditHead     kind = 't'
	kindAudit         kind = 'a'
	kindReplay        kind = 'r'
	kindListEnd       kind = 'e'
	kindPlace         kind = 'o'
	kindLeaf          kind = 'b'
	kindNode          kind = 'c'
	kindDeleted       kind = 'd'
	kindSequence      kind = 'n'
)

// String returns the kind in an operator's words.
func (k kind) String() string {
	switch k {
	case kindWorkspace:
		return "workspace"
	case kindWorkspaceSlug:
		return "workspace slug"
	case kindPreset:
		return "preset"
	case kindVersion:
		return "preset version"
	case kindKey:
		return "issued key"
	case kindKeyHash:
		return "issued key hash"
	case kindLabel:
		return "label"
	case kindLabelChange:
		return "label change"
	case kindAuditHead:
		return "audit head"
	case kindAudit:
		return "audit"
	case kindReplay:
		return "kept answer"
	case kindListEnd:
		return "list end"
	case kindPlace:
		return "place"
	case kindLeaf:
		return "leaf"
	case kindNode:
		return "node"
	case kindDeleted:
		return "deleted workspace"
	case kindSequence:
		return "commit number"
	default:
		return "unknown record"
	}
}

// lasting reports whether records of a kind are never removed once they are stored.
func (k kind) lasting() bool {
	switch k {
	case kindKey, kindAuditHead, kindAudit, kindSequence:
		return true
	default:
		return false
	}
}

func (k key) kind() kind { return kind(k[1]) }

// maxSlug bounds a slug in a key, in bytes: several times what the domain
// allows, and well below Badger's limit for keys.
const maxSlug = 1024

// changes adds to a change what is read by way of the record of k, which is to be
// written or removed. That does for a former slug or hash too, whose record
// is removed, and for an issued key, whose hash record is written with it. Ids
// are in their canonical form.
func (k key) changes(c *domain.Change) {
	switch name := k[2:]; k.kind() {
	case kindWorkspace:
		c.Workspace(uuid.UUID(name).String())
	case kindWorkspaceSlug:
		c.Workspace(string(name))
	case kindPreset:
		id, slug := name[:len(uuid.UUID{})], name[len(uuid.UUID{}):]
		c.Preset(uuid.UUID(id).String(), string(slug))
	case kindPlace:
		if of := name[1 : len(name)-8]; name[0] == byte(kindPreset) {
			c.Presets(uuid.UUID(of).String())
		} else {
			c.Workspaces()
		}
	case kindKeyHash:
		c.Key(domain.KeyHash(name))
	}
}

// The functions below return false for an id or slug that nothing can be
// stored under. Clients choose what is looked up, so that is no more than
// "not found".

func workspaceKey(id string) (key, bool) { return idKey(kindWorkspace, id) }

func workspaceSlugKey(slug string) (key, bool) {
	if len(slug) > maxSlug {
		return nil, false
	}
	return append(newKey(kindWorkspaceSlug, len(slug)), slug...), true
}

func presetKey(workspaceID, slug string) (key, bool) {
	id, ok := parseID(workspaceID)
	if !ok || len(slug) > maxSlug {
		return nil, false
	}
	return append(append(newKey(kindPreset, len(id)+len(slug)), id[:]...), slug...), true
}

func versionKey(presetID string, n int) (key, bool) {
	id, ok := parseID(presetID)
	if !ok || n < 1 {
		return nil, false
	}
	return binary.BigEndian.AppendUint64(append(newKey(kindVersion, len(id)+8), id[:]...), uint64(n)), true
}

func deletedKey(workspaceID string) (key, bool) { return idKey(kindDeleted, workspaceID) }

func keyKey(id string) (key, bool) { return idKey(kindKey, id) }

func keyHashKey(hash domain.KeyHash) key {
	return append(newKey(kindKeyHash, len(hash)), hash[:]...)
}

func labelKey(presetID, label string) (key, bool) {
	id, ok := parseID(presetID)
	if !ok || len(label) > maxSlug {
		return nil, false
	}
	return append(append(newKey(kindLabel, len(id)+len(label)), id[:]...), label...), true
}

func labelChangeKey(presetID, label string, n int) (key, bool) {
	id, ok := parseID(presetID)
	if !ok || len(label) > maxSlug || n < 1 {
		return nil, false
	}
	k := append(append(newKey(kindLabelChange, len(id)+len(label)+8), id[:]...), label...)
	return binary.BigEndian.AppendUint64(k, uint64(n)), true
}

func auditHeadKey() key { return newKey(kindAuditHead, 0) }

func auditKey(n int) key { return binary.BigEndian.AppendUint64(newKey(kindAudit, 8), uint64(n)) }

func replayKey(id domain.ReplayID) key { return append(newKey(kindReplay, len(id)), id[:]...) }

func sequenceKey() key { return newKey(kindSequence, 0) }

func idKey(of kind, text string) (key, bool) {
	id, ok := parseID(text)
	return append(newKey(of, len(id)), id[:]...), ok
}

func newKey(of kind, room int) key {
	return append(make(key, 0, 2+room), keyVersion, byte(of))
}

// parseID reads a UUID in its canonical form of 36 characters, in either case,
// and in none of the other notations.
func parseID(text string) (uuid.UUID, bool) {
	if len(text) != 36 {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
