package records

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// FoundRecord is the newest copy of a record that was found in a damaged store. Later commits
// have a higher Version, and the records of one commit have the same.
type FoundRecord struct {
	Record  []byte
	Version uint64
}

// Wreck is what was found of a damaged store.
type Wreck struct {
	// Records are whole, by their keys: Unseal accepts each. An older copy may be there instead
	// of one that is lost.
	Records map[string]FoundRecord
	// Update makes one change in the new store, like that of domain.Store.
	Update func(fn func(*Tx) error) error
	// Salvage has StoreID, Acknowledged, and the damaged files. Copy adds the rest.
	storage.Salvage

	found map[Kind][]Key    // the keys of each kind, in order
	trail map[string]trace  // by the id of the object
	slugs map[string]string // of the new store's workspaces, by id
	now   time.Time
	puts  []func(*Tx) error
}

// trace is what the audit trail tells of an object.
type trace struct {
	domain.AuditObject        // of its last record
	version            uint64 // of its last record
	latest             int    // the highest version of a preset
	isRemoved          bool
}

// Copy puts into a new store what of a wreck can be stored again. It makes several changes, and
// after an error the earlier ones stay.
//
//   - The audit trail is copied up to the first record that is lost. One more record says so.
//   - A preset keeps its whole versions. If the designated one is lost, the newest is designated.
//   - A preset whose newest record is lost is archived, because it may have been, and its policy
//     may have been stricter. It has an earlier record, or is made anew if the trail has its slug.
//   - A lost workspace that has presets is made anew, without its settings.
//   - Labels of lost versions are removed. The changes of a label are copied up to the first that
//     is lost.
//   - All keys are revoked, because the revocation of each may be lost.
//   - Answers that are kept for repeated requests are not copied.
func (w *Wreck) Copy() error {
	w.found, w.trail, w.slugs = make(map[Kind][]Key), make(map[string]trace), make(map[string]string)
	w.Copied, w.now = make(map[string]int), time.Now().UTC()
	for _, text := range slices.Sorted(maps.Keys(w.Records)) {
		k := Key(text)
		w.found[k.Kind()] = append(w.found[k.Kind()], k)
	}
	w.Commit, _, _ = find(w, sequenceKey(), decodeNumber)
	end := w.copyTrail()
	if w.Commit < w.Acknowledged {
		w.Lose(storage.Loss{
			Kind: "commits", First: int(w.Commit) + 1, Last: int(w.Acknowledged),
			What: "the changes are lost; the last one that was found is of " + w.LastChange.UTC().Format(time.RFC3339),
		})
	}
	presets := w.findPresets()
	w.copyWorkspaces(presets)
	for _, p := range slices.SortedFunc(maps.Values(presets), func(a, b *foundPreset) int { return a.UpdatedAt.Compare(b.UpdatedAt) }) {
		if w.slugs[p.WorkspaceID] != "" {
			w.copyPreset(p)
		}
	}
	w.copyKeys()
	for _, k := range w.found[KindUsage] {
		if row, ok := cutUsageKey(k); ok && w.slugs[row.workspace.String()] != "" {
			w.put(KindUsage, func(t *Tx) error { return t.write(k, w.Records[string(k)].Record, nil) })
		}
	}
	for _, kind := range []Kind{KindSpent, KindInput} {
		for _, k := range w.found[kind] {
			w.put(kind, func(t *Tx) error { return t.write(k, w.Records[string(k)].Record, nil) })
		}
	}
	if secret, _, ok := find(w, feedbackKey(), decodeFeedbackSecret); ok {
		w.put(KindFeedback, func(t *Tx) error { return t.PutFeedbackSecret(secret) })
	}
	record, text, err := domain.NewSalvageRecord(end, w.now, w.StoreID, fmt.Sprintf("copied from a damaged store, with audit records 1 to %d", end.Count))
	w.put(KindAudit, func(t *Tx) error { return cmp.Or(err, t.PutAudit(record, text)) })
	for batch := range slices.Chunk(w.puts, salvageBatch) {
		if err := w.store(batch); err != nil {
			return err
		}
	}
	return nil
}

// Lose names what is lost.
func (w *Wreck) Lose(l storage.Loss) { w.Lost = append(w.Lost, l) }

// find decodes the record under k.
func find[T any](w *Wreck, k Key, decode func([]byte) (T, error)) (object T, version uint64, ok bool) {
	f, ok := w.Records[string(k)]
	if !ok {
		return object, 0, false
	}
	object, err := decode(f.Record[recordHeader:])
	return object, f.Version, err == nil
}

// all yields the objects of a kind in the order of their keys, with their versions.
func all[T any](w *Wreck, of Kind, decode func([]byte) (T, error)) iter.Seq2[T, uint64] {
	return func(yield func(T, uint64) bool) {
		for _, k := range w.found[of] {
			if object, version, ok := find(w, k, decode); ok && !yield(object, version) {
				return
			}
		}
	}
}

// copyTrail copies the audit trail up to the first record that is lost, and returns its end.
func (w *Wreck) copyTrail() (end domain.AuditHead) {
	last, unchained := 0, 0
	loseUpTo := func(n int) {
		if n > last {
			w.Lose(storage.Loss{Kind: "audit", First: last + 1, Last: n, What: "the records are lost"})
		}
	}
	for a, version := range all(w, KindAudit, decodeJSON[domain.AuditRecord]) {
		if !a.IsIntact() {
			continue
		}
		loseUpTo(a.Number - 1)
		last, w.LastChange = a.Number, a.Time
		w.note(a, version)
		text := w.Records[string(AuditKey(a.Number))].Record[recordHeader:]
		if next, err := domain.VerifyAudit(end, []domain.AuditRecord{a}); err == nil {
			end = next
			w.put(KindAudit, func(t *Tx) error { return t.PutAudit(a, text) })
		} else {
			unchained++
		}
	}
	if unchained > 0 {
		w.Lose(storage.Loss{Kind: "audit", First: end.Count + 1, Last: last, What: fmt.Sprintf("%d whole records follow a lost one, so they are not in the trail", unchained)})
	}
	head, _, _ := find(w, AuditHeadKey(), decodeJSON[domain.AuditHead])
	if loseUpTo(head.Count); head != end {
		w.Lose(storage.Loss{Kind: "audit", What: "the trail does not end as it should"})
	}
	return end
}

// note adds an audit record to what the trail tells of its object.
func (w *Wreck) note(a domain.AuditRecord, version uint64) {
	t := w.trail[a.Object.ID]
	t.AuditObject, t.version = a.Object, max(t.version, version)
	t.isRemoved = t.isRemoved || a.Operation == "workspace.delete" || a.Operation == "key.remove"
	if a.Object.Label == "" { // else After is that of the label
		t.latest = max(t.latest, a.After, a.Object.Draft)
	}
	w.trail[a.Object.ID] = t
}

// copyWorkspaces copies all workspaces that were not deleted, and makes those of presets anew whose
// own record is lost.
func (w *Wreck) copyWorkspaces(presets map[string]*foundPreset) {
	found := make(map[string]domain.Workspace)
	for one, version := range all(w, KindWorkspace, decodeWorkspace) {
		if found[one.ID] = one; version < w.trail[one.ID].version && !w.trail[one.ID].isRemoved {
			w.Lose(storage.Loss{Kind: "workspace", Name: one.Slug, ID: one.ID, What: "its newest settings are lost: it has earlier ones"})
		}
	}
	for _, p := range presets {
		id := p.WorkspaceID
		if _, ok := found[id]; !ok && WorkspaceKey(id) != nil && !w.trail[id].isRemoved {
			found[id] = domain.NewSalvagedWorkspace(id, salvagedSlug(id), w.now)
			w.Lose(storage.Loss{Kind: "workspace", Name: salvagedSlug(id), ID: id, What: "its settings are lost, with the server tools that it disabled: it was made anew"})
		}
	}
	taken := make(map[string]bool)
	for _, one := range slices.SortedFunc(maps.Values(found), func(a, b domain.Workspace) int { return a.CreatedAt.Compare(b.CreatedAt) }) {
		if w.trail[one.ID].isRemoved {
			continue
		}
		if taken[one.Slug] { // one of them is an older copy
			w.Lose(storage.Loss{Kind: "workspace", Name: one.Slug, ID: one.ID, What: "another workspace has its slug: it is " + salvagedSlug(one.ID) + " now"})
			one.Slug = salvagedSlug(one.ID)
		}
		taken[one.Slug], w.slugs[one.ID] = true, one.Slug
		w.put(KindWorkspace, func(t *Tx) error { return t.PutWorkspace(one) })
	}
}

// salvagedSlug is the slug of a workspace whose own is lost or taken.
func salvagedSlug(id string) string { return "salvaged-" + id[:8] }

// foundPreset is a preset as it was found, with its whole versions, and the changes of each label
// up to the first that is lost.
type foundPreset struct {
	domain.Preset
	version  uint64 // 0 if its record is lost
	versions map[int]domain.PresetVersion
	labels   map[string][]domain.LabelChange
}

// findPresets returns all presets by their ids. One whose record is lost is made anew from the trail.
func (w *Wreck) findPresets() map[string]*foundPreset {
	presets := make(map[string]*foundPreset)
	add := func(p domain.Preset, version uint64) {
		presets[p.ID] = &foundPreset{p, version, make(map[int]domain.PresetVersion), make(map[string][]domain.LabelChange)}
	}
	for id, t := range w.trail {
		if t.Kind == "preset" {
			add(domain.Preset{ID: id, Name: t.Slug, Slug: t.Slug, WorkspaceID: t.WorkspaceID, CreatorUserID: domain.SalvageUser, CreatedAt: w.now, UpdatedAt: w.now, UpdatedBy: domain.SalvageUser}, 0)
		}
	}
	for p, version := range all(w, KindPreset, decodePreset) {
		add(p, version)
	}
	for v := range all(w, KindVersion, decodeVersion) {
		if p := presets[v.PresetID]; p != nil {
			p.versions[v.Version] = v
		} else {
			w.Lose(storage.Loss{Kind: "version", ID: v.PresetID, First: v.Version, Last: v.Version, What: "its preset is lost"})
		}
	}
	for _, k := range w.found[KindLabelChange] {
		const name = 2 + len(uuid.UUID{})
		p, label := presets[uuid.UUID(k[2:name]).String()], string(k[name:len(k)-8])
		if c, _, ok := find(w, k, decodeJSON[domain.LabelChange]); ok && p != nil && c.Number == len(p.labels[label])+1 {
			p.labels[label] = append(p.labels[label], c)
		}
	}
	return presets
}

// copyPreset copies a preset with its whole versions, and its labels.
func (w *Wreck) copyPreset(f *foundPreset) {
	p, trail := f.Preset, w.trail[f.ID]
	lose := func(kind string, n int, what string) {
		w.Lose(storage.Loss{Kind: kind, Name: w.slugs[p.WorkspaceID] + "/" + p.Slug, ID: p.ID, First: n, Last: n, What: what})
	}
	latest := trail.latest
	for n := range f.versions {
		latest = max(latest, n)
	}
	if f.version < trail.version || p.LatestVersion < latest {
		p.Status, p.LatestVersion = domain.PresetArchived, max(p.LatestVersion, latest)
		lose("preset", 0, "its newest record is lost: it is archived, and has an earlier description, policy, owner and labels, or none")
	}
	var gone []int
	newest := 0
	for n := range p.State().Versions() {
		if _, ok := f.versions[n]; ok {
			newest = n
			continue
		}
		gone = append(gone, n)
		lose("version", n, "the version is lost")
	}
	if newest == 0 {
		lose("preset", 0, "none of its versions is whole: it was not copied")
		return
	}
	p.Kept = p.Kept.Without(gone)
	if !p.State().Has(p.DesignatedVersion) {
		lose("preset", p.DesignatedVersion, fmt.Sprintf("its designated version is lost: version %d is designated now", newest))
		p.DesignatedVersion = newest
	}
	p.DesignatedVersionID = f.versions[p.DesignatedVersion].ID
	for n := range p.State().Versions() {
		w.put(KindVersion, func(t *Tx) error { return t.PutPresetVersion(p, f.versions[n]) })
	}
	for label, target := range f.Labels {
		if len(f.labels[label]) == 0 || target.Check(p) != nil {
			delete(p.Labels, label)
			lose("label", 0, label+" stands for a lost version, or its history is lost: it was removed")
		}
	}
	for label, changes := range f.labels {
		if count, _, _ := find(w, LabelKey(p.ID, label), decodeNumber); int(count) > len(changes) {
			lose("label", 0, fmt.Sprintf("changes of %s are lost, or follow lost ones", label))
		}
		for _, c := range changes {
			w.put(KindLabelChange, func(t *Tx) error { return t.PutLabelChange(p, label, c) })
		}
	}
	w.put(KindPreset, func(t *Tx) error { return t.PutPreset(p) })
	if served, _, ok := find(w, servedKey(p.WorkspaceID, p.Slug), decodeServed); ok {
		maps.DeleteFunc(served, func(n int, _ int64) bool { return !p.State().Has(n) })
		w.put(KindServed, func(t *Tx) error { return t.PutServed(p.WorkspaceID, p.Slug, served) })
	}
}

// copyKeys copies the issued keys, but for those that the audit trail says were removed.
func (w *Wreck) copyKeys() {
	for issued := range all(w, KindKey, decodeJSON[domain.Key]) {
		if w.trail[issued.ID].isRemoved { // it is an older copy
			continue
		}
		issued.RevokedAt = cmp.Or(issued.RevokedAt, &w.now)
		w.put(KindKey, func(t *Tx) error { return t.PutKey(issued) })
	}
	for id, t := range w.trail {
		if _, ok := w.Records[string(KeyKey(id))]; t.Kind == "key" && !t.isRemoved && !ok {
			w.Lose(storage.Loss{Kind: "key", ID: id, What: "the key is lost"})
		}
	}
}

// salvageBatch is the number of objects that are stored in one change.
const salvageBatch = 64

// put has an object stored, and counts it.
func (w *Wreck) put(of Kind, put func(*Tx) error) {
	w.Copied[of.String()]++
	w.puts = append(w.puts, put)
}

// store makes one change of a batch, or several if it is too large for one.
func (w *Wreck) store(batch []func(*Tx) error) error {
	err := w.Update(func(t *Tx) error {
		for _, put := range batch {
			if err := put(t); err != nil {
				return fmt.Errorf("storing a salvaged object: %w", err)
			}
		}
		return nil
	})
	if half := len(batch) / 2; half > 0 && errors.Is(err, domain.ErrTooLarge) {
		return cmp.Or(w.store(batch[:half]), w.store(batch[half:]))
	}
	return err
}
