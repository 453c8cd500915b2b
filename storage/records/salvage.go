package records

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// FoundRecord is the newest copy of a record that was found in a damaged store.
type FoundRecord struct {
	Record []byte
	// Version orders copies: a later commit has a higher one. Records of one commit have
	// the same.
	Version uint64
}

// Wreck is what was found of a damaged store. Each record is whole: Unseal accepts it. An
// older copy may be there instead of one that is lost.
type Wreck struct {
	Records map[string]FoundRecord // by their keys
	// Incomplete says that a change may be missing without a trace. A whole file or commit is
	// missing, or a part of a file is. That part may have held a change of a key.
	Incomplete bool
	// Undamaged says that nothing is damaged or missing. If an import was not finished, its
	// audit trail may then tell of objects that were never stored.
	Undamaged bool
	// KeepKeys copies live keys even if their revocation may be lost.
	KeepKeys bool
	// Now is the time of the salvage.
	Now time.Time
}

// Salvaged is what can be stored of a Wreck. Its objects agree with each other.
type Salvaged struct {
	Lost []storage.Loss
	// Unchained are whole audit records that are behind a lost one, as JSON.
	Unchained [][]byte

	workspaces []domain.Workspace // in the order of their list
	presets    []salvagedPreset   // in an order that gives the same lists
	keys       []domain.Key
	trail      []audited
	usage      []domain.UsageRow
	replays    []domain.Replay
	feedback   *domain.FeedbackSecret
}

type salvagedPreset struct {
	domain.Preset
	place    uint64
	versions []domain.PresetVersion
	labels   map[string][]domain.LabelChange
	served   domain.Served
}

// audited is an audit record as it was found.
type audited struct {
	domain.AuditRecord
	text    []byte
	version uint64
}

// salvager makes a Salvaged.
type salvager struct {
	Wreck
	out *Salvaged

	audit      map[int]audited
	trailWhole bool // no record of the trail is lost
	imported   int  // up to this record, the trail may tell of objects that were never stored
	byID       map[string][]audited
	slugs      map[string]string      // of workspaces, by id
	found      map[Kind][]Key         // the keys of each kind, in order
	presets    map[string]foundPreset // by id
}

// Salvage returns what of a wreck can be stored again:
//
//   - A preset keeps its whole versions. Kept says which. If the designated one is lost, the
//     newest whole one is designated. A preset without a whole version is lost.
//   - A preset without a record is lost, since its slug and status are unknown.
//     It could serve requests although it was disabled.
//   - A lost workspace that still has presets gets no settings. If its slug is unknown, it
//     gets a new one.
//   - Labels of lost versions are removed. The changes of a label are copied up to the first
//     that is lost. One more change then leads to its state.
//   - The audit trail is copied up to the first record that is lost.
//   - A key is revoked if that may have been lost.
func (w Wreck) Salvage() *Salvaged {
	s := &salvager{Wreck: w, out: new(Salvaged), byID: make(map[string][]audited), slugs: make(map[string]string), found: make(map[Kind][]Key)}
	for _, text := range slices.Sorted(maps.Keys(w.Records)) {
		k := Key(text)
		s.found[k.Kind()] = append(s.found[k.Kind()], k)
	}
	s.readTrail()
	s.readWorkspaces()
	s.readPresets()
	s.readKeys()
	s.readRest()
	return s.out
}

// reportLoss adds to what the salvage names as lost.
func (s *salvager) reportLoss(l storage.Loss) { s.out.Lost = append(s.out.Lost, l) }

// find decodes the record under k.
func find[T any](s *salvager, k Key, decode func([]byte) (T, error)) (object T, version uint64, ok bool) {
	f, ok := s.Records[string(k)]
	if !ok {
		return object, 0, false
	}
	object, err := decode(f.Record[recordHeader:])
	return object, f.Version, err == nil
}

// neverStored ends the What of an object that may never have been stored. Only the audit
// trail tells of it, and an import stores the trail first.
const neverStored = "; it may never have been stored, since an import was not finished"

// reportFromTrail reports an object as lost that only the audit trail tells of.
func (s *salvager) reportFromTrail(id string, l storage.Loss) {
	if records := s.byID[id]; records[len(records)-1].Number <= s.imported {
		if s.Undamaged {
			return
		}
		l.What += neverStored
	}
	s.reportLoss(l)
}

// reportUnusable reports a record that is whole but cannot be used.
func (s *salvager) reportUnusable(kind string, k Key, what string) {
	s.reportLoss(storage.Loss{Kind: kind, ID: hex.EncodeToString(k), What: what})
}

// readTrail reads the audit trail up to the first record that is lost.
func (s *salvager) readTrail() {
	s.audit = make(map[int]audited)
	last := 0
	for _, k := range s.found[KindAudit] {
		a, version, ok := find(s, k, decodeJSON[domain.AuditRecord])
		if !ok || !bytes.Equal(AuditKey(a.Number), k) || !a.IsIntact() {
			s.reportUnusable("audit", k, "the record is not one of the trail")
			continue
		}
		one := audited{a, s.Records[string(k)].Record[recordHeader:], version}
		s.audit[a.Number] = one
		s.byID[a.Object.ID] = append(s.byID[a.Object.ID], one)
		last = max(last, a.Number)
		if a.Operation == "store.abandon_import" {
			s.imported = max(s.imported, a.Number)
		}
	}
	head, _, ok := find(s, AuditHeadKey(), decodeHead)
	if ok {
		last = max(last, head.Count)
	}
	if head.Importing {
		s.imported = last
	}
	end := domain.AuditHead{}
	for n := 1; n <= last; n++ {
		next, found := s.audit[n]
		var err error
		if found {
			if end, err = domain.VerifyAudit(end, []domain.AuditRecord{next.AuditRecord}); err != nil {
				break
			}
			s.out.trail = append(s.out.trail, next)
			continue
		}
		break
	}
	s.trailWhole = ok && len(s.out.trail) == last && (head.Count < last || head.Hash == end.Hash)
	for n := len(s.out.trail) + 1; n <= last; n++ {
		from := n
		for n <= last && s.isLost(n) {
			n++
		}
		if n > from {
			s.reportLoss(storage.Loss{Kind: "audit", First: from, Last: n - 1, What: "the records are lost"})
		}
		for ; n <= last && !s.isLost(n); n++ {
			s.out.Unchained = append(s.out.Unchained, s.audit[n].text)
		}
		n--
	}
	if n := len(s.out.Unchained); n > 0 {
		s.reportLoss(storage.Loss{Kind: "audit", First: len(s.out.trail) + 1, Last: last, What: fmt.Sprintf("%d whole records follow a lost one, so they are not in the trail", n)})
	}
}

func (s *salvager) isLost(n int) bool { _, ok := s.audit[n]; return !ok }

// later returns the audit records of an object from after a version, in order.
func (s *salvager) later(id string, version uint64) (records []audited) {
	for _, a := range s.byID[id] {
		if a.version > version {
			records = append(records, a)
		}
	}
	return records
}

// readWorkspaces reads all workspaces that were not deleted.
func (s *salvager) readWorkspaces() {
	type placed struct {
		domain.Workspace
		place   uint64
		version uint64
	}
	all := make(map[string]placed)
	for _, k := range s.found[KindWorkspace] {
		w, version, ok := find(s, k, decodeWorkspace)
		stored, _, _ := find(s, k, parseWorkspace)
		if !ok || !bytes.Equal(WorkspaceKey(w.ID), k) {
			s.reportUnusable("workspace", k, "the record cannot be decoded")
			continue
		}
		all[w.ID] = placed{w, stored.place, version}
	}
	taken := make(map[string]bool)
	order := slices.SortedFunc(maps.Values(all), func(a, b placed) int { return cmp.Or(cmp.Compare(b.version, a.version), cmp.Compare(a.ID, b.ID)) })
	for i, w := range order { // the newest first: the slug of an older state may have a new holder
		later := s.later(w.ID, w.version)
		if s.isDeleted(w.ID) {
			order[i].ID = ""
			continue
		}
		if len(later) > 0 {
			s.reportLoss(storage.Loss{Kind: "workspace", Workspace: w.Slug, WorkspaceID: w.ID, What: "its newest settings are lost: it has earlier ones"})
		}
		if taken[w.Slug] {
			s.reportLoss(storage.Loss{Kind: "workspace", Workspace: w.Slug, WorkspaceID: w.ID, What: "its newest slug is lost, and another workspace has this one: it is now " + newSlug(w.ID)})
			order[i].Slug = newSlug(w.ID)
		}
		taken[order[i].Slug] = true
		s.slugs[w.ID] = order[i].Slug
	}
	slices.SortStableFunc(order, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	for _, w := range order {
		if w.ID != "" {
			s.out.workspaces = append(s.out.workspaces, w.Workspace)
		}
	}
	s.presets = s.newestPresets()
	s.addLostWorkspaces(taken)
}

func newSlug(id string) string { return "salvaged-" + id[:8] }

// isDeleted reports whether the workspace of an id was deleted.
func (s *salvager) isDeleted(id string) bool {
	if _, ok := s.Records[string(deletedKey(id))]; ok {
		return true
	}
	for _, a := range s.byID[id] {
		if a.Operation == "workspace.delete" {
			return true
		}
	}
	return false
}

// addLostWorkspaces makes workspaces for presets whose own workspace is lost.
func (s *salvager) addLostWorkspaces(taken map[string]bool) {
	of := s.idsOf(KindPreset)
	for _, f := range s.presets {
		of[f.WorkspaceID] = nil
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if s.slugs[id] != "" || s.isDeleted(id) {
			continue
		}
		slug := newSlug(id)
		for _, a := range s.byID[id] {
			if a.Object.Slug != "" && !taken[a.Object.Slug] {
				slug = a.Object.Slug
			}
		}
		taken[slug], s.slugs[id] = true, slug
		w := domain.NewSalvagedWorkspace(id, slug, s.Now)
		s.out.workspaces = append(s.out.workspaces, w)
		s.reportLoss(storage.Loss{Kind: "workspace", Workspace: slug, WorkspaceID: id, What: "its settings are lost, with the server tools that it disabled: it was made anew for its presets"})
	}
	for id, records := range s.byID {
		if object := records[len(records)-1].Object; object.Kind == "workspace" && s.slugs[id] == "" && !s.isDeleted(id) {
			s.reportFromTrail(id, storage.Loss{Kind: "workspace", Workspace: object.Slug, WorkspaceID: id, What: "the workspace is lost, and no preset of it was found"})
		}
	}
}
