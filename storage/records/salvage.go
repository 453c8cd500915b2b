package records

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

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
	// Acknowledged is the number of the last commit that was answered, 0 for unknown.
	Acknowledged uint64
	// Incomplete says that the change of a key may be missing without a trace.
	Incomplete bool
	// Cut says that the last changes may be missing without a trace. It implies Incomplete.
	Cut bool
	// KeepKeys copies live keys even if their revocation may be lost.
	KeepKeys bool
	// Now is the time of the salvage.
	Now time.Time
}

// Salvage puts into a new store what of a wreck can be stored again. update makes one change.
// Salvage makes several, and after an error the earlier ones stay. id is that of the new store.
// unchained are whole audit records that are behind a lost one, as JSON.
//
//   - The audit trail is copied up to the first record that is lost. One more record says so.
//   - A preset keeps its whole versions. If the designated one is lost, the newest is designated.
//   - A preset whose record is lost is made anew from its versions, if the trail has its slug. It
//     is archived, because it may have been, and its policy is lost.
//   - A lost workspace that has presets is made anew, without its settings.
//   - Labels of lost versions are removed. The changes of a label are copied up to the first that
//     is lost. One more change then leads to its state.
//   - A key is revoked if its revocation may be lost.
func (w Wreck) Salvage(id string, update func(func(domain.Tx) error) error) (report storage.Salvage, unchained [][]byte, err error) {
	s := &salvager{Wreck: w, update: update, found: make(map[Kind][]Key), trail: make(map[string][]audited), slugs: make(map[string]string)}
	for _, text := range slices.Sorted(maps.Keys(w.Records)) {
		k := Key(text)
		s.found[k.Kind()] = append(s.found[k.Kind()], k)
	}
	s.StoreID, s.Salvage.Acknowledged, s.Lost = id, w.Acknowledged, []storage.Loss{}
	s.Commit, _, _ = find(s, sequenceKey(), decodeNumber)
	if s.Commit < w.Acknowledged {
		s.lose(storage.Loss{Kind: "commits", First: int(s.Commit) + 1, Last: int(w.Acknowledged), What: "the last commits are lost, or a part of them"})
	}
	s.Incomplete = w.Incomplete || w.Cut || w.Acknowledged == 0 || s.Commit < w.Acknowledged
	head := s.salvageTrail()
	if w.Cut {
		s.lose(storage.Loss{Kind: "commits", What: fmt.Sprintf("the last change that was found is of %s: later ones may be lost, such as revocations of keys", s.LastChange.UTC().Format(time.RFC3339))})
	}
	s.salvageWorkspaces()
	s.salvagePresets()
	s.salvageKeys()
	s.salvageRest()
	record, text, err := domain.NewSalvageRecord(head, w.Now, id, s.message())
	if err != nil {
		return s.Salvage, nil, err
	}
	s.put(len(text), &s.Copied.Audit, func(tx domain.Tx) error { return tx.PutAudit(record, text) })
	s.flush()
	return s.Salvage, s.unchained, s.err
}

// salvager is a Salvage that runs.
type salvager struct {
	Wreck
	storage.Salvage
	unchained [][]byte

	found      map[Kind][]Key // the keys of each kind, in order
	trail      map[string][]audited
	trailWhole bool              // no record of the trail is lost
	slugs      map[string]string // of the new store's workspaces, by id

	update func(func(domain.Tx) error) error
	batch  []func(domain.Tx) error
	size   int
	err    error
}

// audited is an audit record as it was found.
type audited struct {
	domain.AuditRecord
	text    []byte
	version uint64
}

// lose names what is lost.
func (s *salvager) lose(l storage.Loss) { s.Lost = append(s.Lost, l) }

// find decodes the record under k. If that cannot be decoded, it is named as lost.
func find[T any](s *salvager, k Key, decode func([]byte) (T, error)) (object T, version uint64, ok bool) {
	f, ok := s.Records[string(k)]
	if !ok {
		return object, 0, false
	}
	object, err := decode(f.Record[recordHeader:])
	if err != nil {
		s.lose(storage.Loss{Kind: "records", ID: hex.EncodeToString(k), What: fmt.Sprintf("the %v record cannot be decoded", k.Kind())})
	}
	return object, f.Version, err == nil
}

// salvageTrail copies the audit trail up to the first record that is lost, and returns its end.
func (s *salvager) salvageTrail() (end domain.AuditHead) {
	whole := make(map[int]audited)
	last := 0
	for _, k := range s.found[KindAudit] {
		a, version, ok := find(s, k, decodeJSON[domain.AuditRecord])
		if ok && bytes.Equal(AuditKey(a.Number), k) && a.IsIntact() {
			one := audited{a, s.Records[string(k)].Record[recordHeader:], version}
			whole[a.Number] = one
			s.trail[a.Object.ID] = append(s.trail[a.Object.ID], one)
			if a.Number > last {
				last, s.LastChange = a.Number, a.Time
			}
		}
	}
	head, _, ok := find(s, AuditHeadKey(), decodeJSON[domain.AuditHead])
	last = max(last, head.Count)
	for n := 1; n <= last; n++ {
		a := whole[n]
		next, err := domain.VerifyAudit(end, []domain.AuditRecord{a.AuditRecord})
		if err != nil {
			break
		}
		end = next
		s.put(len(a.text), &s.Copied.Audit, func(tx domain.Tx) error { return tx.PutAudit(a.AuditRecord, a.text) })
	}
	s.trailWhole = ok && end.Count == last && (head.Count < last || head.Hash == end.Hash)
	for n := end.Count + 1; n <= last; n++ {
		from := n
		for n <= last && whole[n].text == nil {
			n++
		}
		if n > from {
			s.lose(storage.Loss{Kind: "audit", First: from, Last: n - 1, What: "the records are lost"})
		}
		if n <= last {
			s.unchained = append(s.unchained, whole[n].text)
		}
	}
	if n := len(s.unchained); n > 0 {
		s.lose(storage.Loss{Kind: "audit", First: end.Count + 1, Last: last, What: fmt.Sprintf("%d whole records follow a lost one, so they are not in the trail", n)})
	}
	return end
}

// later returns the audit records of an object from after a version, in order.
func (s *salvager) later(id string, version uint64) []audited {
	return slices.DeleteFunc(slices.Clone(s.trail[id]), func(a audited) bool { return a.version <= version })
}

// salvageWorkspaces copies all workspaces that were not deleted.
func (s *salvager) salvageWorkspaces() {
	type found struct {
		domain.Workspace
		version uint64
	}
	var all []found
	for _, k := range s.found[KindWorkspace] {
		if w, version, ok := find(s, k, decodeWorkspace); ok && bytes.Equal(WorkspaceKey(w.ID), k) && !s.isDeleted(w.ID) {
			all = append(all, found{w, version})
		}
	}
	// The newest first, because the slug of an older state may have a new holder.
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(b.version, a.version) })
	taken := make(map[string]bool)
	for i, w := range all {
		if len(s.later(w.ID, w.version)) > 0 {
			s.lose(storage.Loss{Kind: "workspace", Workspace: w.Slug, WorkspaceID: w.ID, What: "its newest settings are lost: it has earlier ones"})
		}
		if taken[w.Slug] {
			all[i].Slug = newSlug(w.ID)
			s.lose(storage.Loss{Kind: "workspace", Workspace: all[i].Slug, WorkspaceID: w.ID, What: "its newest slug is lost, and another workspace has the earlier one " + w.Slug})
		}
		taken[all[i].Slug], s.slugs[w.ID] = true, all[i].Slug
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, w := range all {
		s.putWorkspace(w.Workspace)
	}
	s.makeWorkspaces(taken)
}

func (s *salvager) putWorkspace(w domain.Workspace) {
	s.put(4<<10, &s.Copied.Workspaces, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
}

func newSlug(id string) string { return "salvaged-" + id[:8] }

// isDeleted reports whether the workspace of an id was deleted.
func (s *salvager) isDeleted(id string) bool {
	_, ok := s.Records[string(deletedKey(id))]
	return ok || slices.ContainsFunc(s.trail[id], func(a audited) bool { return a.Operation == "workspace.delete" })
}

// makeWorkspaces makes workspaces for presets whose own workspace is lost.
func (s *salvager) makeWorkspaces(taken map[string]bool) {
	of := s.idsOf(KindPreset)
	for id, records := range s.trail {
		switch object := records[len(records)-1].Object; object.Kind {
		case "workspace":
			of[id] = nil
		case "preset":
			of[object.WorkspaceID] = nil
		}
	}
	delete(of, "")
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if s.slugs[id] != "" || s.isDeleted(id) || WorkspaceKey(id) == nil {
			continue
		}
		slug := newSlug(id)
		for _, a := range s.trail[id] {
			if a.Object.Slug != "" && !taken[a.Object.Slug] {
				slug = a.Object.Slug
			}
		}
		taken[slug], s.slugs[id] = true, slug
		s.putWorkspace(domain.NewSalvagedWorkspace(id, slug, s.Now))
		s.lose(storage.Loss{Kind: "workspace", Workspace: slug, WorkspaceID: id, What: "its settings are lost, with the server tools that it disabled: it was made anew"})
	}
}

// idsOf returns the keys of a kind by the id with which they begin.
func (s *salvager) idsOf(of Kind) map[string][]Key {
	all := make(map[string][]Key)
	for _, k := range s.found[of] {
		if len(k) > 2+len(uuid.UUID{}) {
			id := uuid.UUID(k[2 : 2+len(uuid.UUID{})]).String()
			all[id] = append(all[id], k)
		}
	}
	return all
}

// salvageKeys copies the issued keys. A key is revoked if its revocation may be lost: a revoked
// key must never be live again. A key that the audit trail says was removed is neither copied
// nor lost. An older copy of it may be whole.
func (s *salvager) salvageKeys() {
	known := make(map[string]bool)
	for id, records := range s.trail {
		known[id] = slices.ContainsFunc(records, func(a audited) bool { return a.Operation == "key.remove" })
	}
	var all []domain.Key
	for _, k := range s.found[KindKey] {
		issued, version, ok := find(s, k, decodeJSON[domain.Key])
		if !ok || !bytes.Equal(KeyKey(issued.ID), k) || known[issued.ID] {
			continue
		}
		known[issued.ID] = true
		holder, hashed, found := find(s, KeyHashKey(issued.Hash), decodeID)
		if found && (holder != issued.ID || hashed > version) {
			s.lose(storage.Loss{Kind: "key", ID: issued.ID, What: "its newest state is lost: it was not copied"})
			continue
		}
		for _, a := range s.trail[issued.ID] { // whenever: a revoked key stays revoked
			if a.Operation == "key.revoke" && issued.RevokedAt == nil {
				issued.RevokedAt = new(a.Time)
			}
		}
		mayBeRevoked := s.Incomplete || !s.trailWhole && (!found || hashed != version)
		if issued.Live(s.Now) && mayBeRevoked && !s.KeepKeys {
			issued.RevokedAt = new(s.Now.UTC())
			s.lose(storage.Loss{Kind: "key", ID: issued.ID, What: "it may have been revoked in a change that is lost: it is revoked now"})
		}
		all = append(all, issued)
	}
	for _, k := range s.found[KindKeyHash] {
		if id, _, ok := find(s, k, decodeID); ok && !known[id] {
			known[id] = true
			s.lose(storage.Loss{Kind: "key", ID: id, What: "the key is lost"})
		}
	}
	for id, records := range s.trail {
		if records[0].Object.Kind == "key" && !known[id] {
			s.lose(storage.Loss{Kind: "key", ID: id, What: "the key is lost"})
		}
	}
	slices.SortFunc(all, func(a, b domain.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, k := range all {
		s.put(1<<10, &s.Copied.Keys, func(tx domain.Tx) error { return tx.PutKey(k) })
	}
}

// salvageRest copies usage, kept answers and the secret of feedback.
func (s *salvager) salvageRest() {
	for _, k := range s.found[KindUsage] {
		row, ok := cutUsageKey(k)
		switch {
		case ok && s.slugs[row.workspace.String()] != "":
			r := row.row()
			r.Content = s.Records[string(k)].Record[recordHeader:]
			s.put(len(r.Content), &s.Copied.Usage, func(tx domain.Tx) error { return tx.PutUsage(r) })
		case ok && !s.isDeleted(row.workspace.String()):
			s.lose(storage.Loss{Kind: "usage", WorkspaceID: row.workspace.String(), ID: hex.EncodeToString(k), What: "its workspace is lost"})
		}
	}
	for _, k := range s.found[KindReplay] {
		if r, _, ok := find(s, k, decodeReplay); ok && copy(r.ID[:], k[2:]) == len(r.ID) {
			s.put(len(r.Answer), &s.Copied.Answers, func(tx domain.Tx) error { return tx.PutReplay(r) })
		}
	}
	if secret, _, ok := find(s, feedbackKey(), decodeFeedbackSecret); ok {
		s.put(64, new(int), func(tx domain.Tx) error { return tx.PutFeedbackSecret(secret) })
	}
}

// message says in the audit trail what of it is lost.
func (s *salvager) message() string {
	var text strings.Builder
	text.WriteString("copied from a damaged store")
	for _, l := range s.Lost {
		if l.Kind == "audit" && text.Len() < 400 {
			fmt.Fprintf(&text, "; audit records %d to %d: %s", l.First, l.Last, l.What)
		}
	}
	return text.String()
}

// salvageBatch bounds the size of one change, in bytes, and salvageObjects its objects.
const (
	salvageBatch   = domain.MaxChangeSize / 2
	salvageObjects = domain.MaxChangeObjects / 2
)

// put stores an object of about a size with others in one change, and counts it.
func (s *salvager) put(size int, count *int, put func(domain.Tx) error) {
	if s.size += size + 2<<10; s.size > salvageBatch && len(s.batch) > 0 || len(s.batch) >= salvageObjects {
		s.flush()
		s.size = size
	}
	s.batch = append(s.batch, put)
	*count++
}

func (s *salvager) flush() {
	if s.err == nil && len(s.batch) > 0 {
		s.err = s.store(s.batch)
	}
	s.batch, s.size = nil, 0
}

// store makes one change of a batch, or several if it is too large for one. The sizes that put
// gets are those of usual objects.
func (s *salvager) store(batch []func(domain.Tx) error) error {
	err := s.update(func(tx domain.Tx) error {
		for _, put := range batch {
			if err := put(tx); err != nil {
				return fmt.Errorf("storing a salvaged object: %w", err)
			}
		}
		return nil
	})
	if half := len(batch) / 2; half > 0 && errors.Is(err, domain.ErrTooLarge) {
		return cmp.Or(s.store(batch[:half]), s.store(batch[half:]))
	}
	return err
}
