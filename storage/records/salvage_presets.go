package records

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// foundPreset is the state of a preset as it was found.
type foundPreset struct {
	domain.Preset
	place   uint64
	version uint64
	isOld   bool // a later state is lost
}

// readPresets reads all presets of workspaces that were not deleted.
func (s *salvager) readPresets() {
	versions, labels := s.idsOf(KindVersion), s.idsOf(KindLabelChange)
	known := make(map[string]bool)
	for _, f := range slices.SortedFunc(maps.Values(s.presets), func(a, b foundPreset) int {
		return cmp.Or(cmp.Compare(a.WorkspaceID, b.WorkspaceID), cmp.Compare(a.place, b.place), cmp.Compare(a.ID, b.ID))
	}) {
		known[f.ID] = true
		if s.slugs[f.WorkspaceID] != "" {
			s.readPreset(f, versions[f.ID], labels[f.ID])
		}
	}
	// Presets that only others tell of.
	for id := range versions {
		if !known[id] {
			s.reportLostPreset(id, len(versions[id]))
			known[id] = true
		}
	}
	for id, records := range s.byID {
		if records[0].Object.Kind == "preset" && !known[id] {
			s.reportLostPreset(id, 0)
		}
	}
}

// reportLostPreset reports a preset whose record is lost.
func (s *salvager) reportLostPreset(id string, versions int) {
	lost := storage.Loss{Kind: "preset", PresetID: id, What: fmt.Sprintf("its record is lost; %d whole versions of it were found, and not copied", versions)}
	for _, a := range s.byID[id] {
		if s.isDeleted(a.Object.WorkspaceID) {
			return
		}
		lost.Workspace, lost.WorkspaceID, lost.Preset = s.slugs[a.Object.WorkspaceID], a.Object.WorkspaceID, a.Object.Slug
	}
	switch {
	case lost.Preset == "" && s.mayBePurged():
	case versions == 0:
		s.reportFromTrail(id, lost)
	default:
		s.reportLoss(lost)
	}
}

// mayBePurged reports whether records may be left of a workspace that was deleted.
func (s *salvager) mayBePurged() bool { return len(s.found[KindDeleted]) > 0 }

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

// newestPresets returns the newest state of each preset, by its id.
func (s *salvager) newestPresets() map[string]foundPreset {
	all := make(map[string]foundPreset)
	for _, k := range s.found[KindPreset] {
		p, version, ok := find(s, k, decodePreset)
		stored, _, _ := find(s, k, parsePreset)
		if !ok || !bytes.Equal(PresetKey(p.WorkspaceID, p.Slug), k) || p.ID != stored.ID {
			s.reportUnusable("preset", k, "the record cannot be decoded")
			continue
		}
		p.Status = stored.Status
		all[p.ID] = foundPreset{Preset: p, place: stored.place, version: version}
	}
	return all
}

// readPreset reads the versions and labels of a preset.
func (s *salvager) readPreset(f foundPreset, versions, changes []Key) {
	lost := func(kind, label string, first, last int, what string) {
		s.reportLoss(storage.Loss{Kind: kind, Workspace: s.slugs[f.WorkspaceID], WorkspaceID: f.WorkspaceID, Preset: f.Slug, PresetID: f.ID, Label: label, First: first, Last: last, What: what})
	}
	later := s.later(f.ID, f.version)
	f.isOld = len(later) > 0
	pruned := make(map[int]bool)
	for _, a := range s.byID[f.ID] {
		if f.isOld {
			addRanges(pruned, a.Object.Pruned)
			f.LatestVersion = max(f.LatestVersion, a.After, a.Object.Draft)
		}
	}
	for _, a := range later {
		applyLater(&f.Preset, a.AuditRecord)
	}

	whole := make(map[int]domain.PresetVersion)
	for _, k := range versions {
		v, _, ok := find(s, k, decodeVersion)
		if !ok || !bytes.Equal(VersionKey(v.PresetID, v.Version), k) {
			s.reportUnusable("version", k, "the record cannot be decoded")
			continue
		}
		whole[v.Version] = v
		if v.Version > f.LatestVersion {
			f.LatestVersion, f.isOld = v.Version, true
		}
	}
	if f.isOld {
		lost("preset", "", 0, 0, "its newest state is lost: its name, description, policy and owner are earlier ones; status and designated version are the newest that the audit trail tells of")
	}
	out := salvagedPreset{Preset: f.Preset, place: f.place, labels: make(map[string][]domain.LabelChange)}
	var gone []int
	for n := range f.State().Versions() {
		v, ok := whole[n]
		if ok {
			out.versions = append(out.versions, v)
			continue
		}
		gone = append(gone, n)
		if !pruned[n] {
			lost("version", "", n, n, "the version is lost")
		}
	}
	out.Kept = f.Kept.Without(gone)
	if len(out.versions) == 0 {
		lost("preset", "", 0, 0, "none of its versions is whole")
		return
	}
	if !out.State().Has(out.DesignatedVersion) {
		newest := out.versions[len(out.versions)-1]
		lost("preset", "", f.DesignatedVersion, f.DesignatedVersion, fmt.Sprintf("its designated version is lost: version %d is designated now", newest.Version))
		out.DesignatedVersion = newest.Version
	}
	for _, v := range out.versions {
		if v.Version == out.DesignatedVersion {
			out.DesignatedVersionID = v.ID
		}
	}
	s.readLabels(&out, changes, f.isOld, lost)
	if served, _, ok := find(s, servedKey(out.WorkspaceID, out.Slug), decodeServed); ok {
		maps.DeleteFunc(served, func(n int, _ int64) bool { return !out.State().Has(n) })
		if out.served = served; len(served) == 0 {
			out.served = nil
		}
	}
	s.out.presets = append(s.out.presets, out)
}

// applyLater changes what a later audit record tells of a preset.
func applyLater(p *domain.Preset, a domain.AuditRecord) {
	switch a.Operation {
	case "preset.archive":
		p.Status = domain.PresetArchived
	case "preset.restore":
		p.Status = domain.PresetActive
	}
	p.Status = cmp.Or(a.Object.Status, p.Status)
	if a.Object.Label == "" && a.After > 0 {
		p.DesignatedVersion = a.After
	}
	p.Protected = (p.Protected || a.Object.Label == "" && a.Object.Protection == "set") && (a.Object.Label != "" || a.Object.Protection != "cleared")
}

// addRanges adds numbers such as 1-97,99 to a set.
func addRanges(to map[int]bool, text string) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		till := from
		if isRange && err == nil {
			till, err = strconv.Atoi(last)
		}
		for n := from; err == nil && n <= till; n++ {
			to[n] = true
		}
	}
}

// readLabels reads the changes of a preset's labels, and removes labels of lost versions.
func (s *salvager) readLabels(p *salvagedPreset, keys []Key, isOld bool, lost func(kind, label string, first, last int, what string)) {
	all := make(map[string]map[int]domain.LabelChange)
	latest := make(map[string]int)
	for _, k := range keys {
		name := k[2+len(uuid.UUID{}):]
		c, _, ok := find(s, k, decodeJSON[domain.LabelChange])
		if len(name) <= 8 || !ok || uint64(c.Number) != binary.BigEndian.Uint64(name[len(name)-8:]) {
			s.reportUnusable("label", k, "the change cannot be decoded")
			continue
		}
		label := string(name[:len(name)-8])
		if all[label] == nil {
			all[label] = make(map[int]domain.LabelChange)
		}
		all[label][c.Number] = c
		latest[label] = max(latest[label], c.Number)
	}
	for label := range p.Labels {
		latest[label] = max(latest[label], 1) // something made it
	}
	auditCount := make(map[string]int) // each change has an audit record
	note := make(map[string]string)
	for _, a := range s.byID[p.ID] {
		label := a.Object.Label
		if label == "" || s.Undamaged && a.Number <= s.imported {
			continue
		}
		auditCount[label]++
		latest[label] = max(latest[label], auditCount[label])
		if a.Number <= s.imported {
			note[label] = neverStored
		}
	}
	for _, k := range s.found[KindLabel] { // how many changes there were
		name := k[2:]
		if n, _, ok := find(s, k, decodeNumber); ok && len(name) > len(uuid.UUID{}) && uuid.UUID(name[:len(uuid.UUID{})]).String() == p.ID {
			label := string(name[len(uuid.UUID{}):])
			latest[label] = max(latest[label], int(n))
		}
	}
	labels := make(map[string]domain.Target)
	for _, label := range slices.Sorted(maps.Keys(latest)) {
		now, is := p.Labels[label]
		if last, ok := all[label][latest[label]]; isOld && ok {
			if is = last.To != nil; is {
				now = *last.To
			}
		}
		named := is && !s.hasAll(p.State(), now)
		if named {
			lost("label", label, 0, 0, "it stands for a lost version: it was removed")
			is = false
		}
		var changes []domain.LabelChange
		var at *domain.Target
		for n := 1; ; n++ {
			c, ok := all[label][n]
			if !ok {
				if n <= latest[label] {
					lost("label", label, n, latest[label], "changes of its history are lost, or follow lost ones"+note[label])
					named = true
				}
				break
			}
			changes, at = append(changes, c), c.To
		}
		to := &now
		if !is {
			to = nil
		} else {
			labels[label] = now
		}
		if !sameTarget(at, to) {
			if !named {
				lost("label", label, len(changes)+1, len(changes)+1, "its last change is lost")
			}
			changes = append(changes, domain.LabelChange{Number: len(changes) + 1, Time: s.Now.UTC(), UserID: domain.SalvageUser, From: at, To: to})
		}
		if len(changes) > 0 {
			p.labels[label] = changes
		}
	}
	p.Labels = labels
	if len(labels) == 0 {
		p.Labels = nil
	}
}

// hasAll reports whether all versions of a label exist.
func (s *salvager) hasAll(p domain.PresetState, to domain.Target) bool {
	if len(to.Split) == 0 {
		return p.Has(to.Version)
	}
	return !slices.ContainsFunc(to.Split, func(share domain.Share) bool { return !p.Has(share.Version) })
}

func sameTarget(a, b *domain.Target) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Version == b.Version && a.Protected == b.Protected && slices.Equal(a.Split, b.Split)
}
