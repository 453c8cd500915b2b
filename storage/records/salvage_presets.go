package records

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

// foundPreset is a preset as it was found, with its whole versions.
type foundPreset struct {
	domain.Preset
	version  uint64
	versions map[int]domain.PresetVersion
}

// salvagePresets copies the presets of all workspaces that are in the new store.
func (s *salvager) salvagePresets() {
	all := make(map[string]*foundPreset)
	for _, k := range s.found[KindPreset] {
		if p, version, ok := find(s, k, decodePreset); ok && bytes.Equal(PresetKey(p.WorkspaceID, p.Slug), k) {
			all[p.ID] = &foundPreset{p, version, make(map[int]domain.PresetVersion)}
		}
	}
	for id, trail := range s.trail {
		if object := trail[0].Object; all[id] == nil && object.Kind == "preset" && !s.isDeleted(object.WorkspaceID) {
			all[id] = s.newPreset(id, trail)
		}
	}
	for _, k := range s.found[KindVersion] {
		v, _, ok := find(s, k, decodeVersion)
		switch p := all[v.PresetID]; {
		case !ok || !bytes.Equal(VersionKey(v.PresetID, v.Version), k):
		case p != nil:
			p.versions[v.Version] = v
		case len(s.found[KindDeleted]) == 0: // else it may be of a workspace that was deleted
			s.lose(storage.Loss{Kind: "version", PresetID: v.PresetID, First: v.Version, Last: v.Version, What: "its preset is lost"})
		}
	}
	changes := s.idsOf(KindLabelChange)
	for _, f := range slices.SortedFunc(maps.Values(all), func(a, b *foundPreset) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID, b.ID))
	}) {
		if s.slugs[f.WorkspaceID] != "" {
			s.salvagePreset(f, changes[f.ID])
		}
	}
}

// newPreset returns a preset in the place of one whose record is lost.
func (s *salvager) newPreset(id string, records []audited) *foundPreset {
	last := records[len(records)-1]
	p := domain.Preset{
		ID: id, Name: last.Object.Slug, Slug: last.Object.Slug, WorkspaceID: last.Object.WorkspaceID,
		CreatorUserID: records[0].UserID, CreatedAt: records[0].Time, UpdatedAt: s.Now.UTC(), UpdatedBy: domain.SalvageUser,
	}
	for _, a := range records {
		applyLater(&p, a.AuditRecord)
	}
	p.Status = domain.PresetArchived
	s.loseOf(p, storage.Loss{Kind: "preset", What: "its record is lost: if versions of it are whole, it was made anew from them, archived, and without its description, policy, owner and labels"})
	return &foundPreset{p, last.version, make(map[int]domain.PresetVersion)}
}

// loseOf names what is lost of a preset.
func (s *salvager) loseOf(p domain.Preset, l storage.Loss) {
	l.Workspace, l.WorkspaceID, l.Preset, l.PresetID = s.slugs[p.WorkspaceID], p.WorkspaceID, p.Slug, p.ID
	s.lose(l)
}

// salvagePreset copies a preset with its whole versions, and its labels.
func (s *salvager) salvagePreset(f *foundPreset, changes []Key) {
	p := f.Preset
	for n := range f.versions {
		p.LatestVersion = max(p.LatestVersion, n)
	}
	later := s.later(p.ID, f.version)
	if len(later) > 0 || p.LatestVersion > f.LatestVersion && f.LatestVersion > 0 {
		s.loseOf(p, storage.Loss{Kind: "preset", What: "its newest state is lost: its name, description, policy and owner are earlier ones; status and designated version are the newest that the audit trail tells of"})
	}
	for _, a := range later {
		applyLater(&p, a.AuditRecord)
	}
	var gone []int
	newest := 0
	for n := range p.State().Versions() {
		if _, ok := f.versions[n]; ok {
			newest = n
			continue
		}
		gone = append(gone, n)
		s.loseOf(p, storage.Loss{Kind: "version", First: n, Last: n, What: "the version is lost"})
	}
	if newest == 0 {
		s.loseOf(p, storage.Loss{Kind: "preset", What: "none of its versions is whole"})
		return
	}
	p.Kept = p.Kept.Without(gone)
	if !p.State().Has(p.DesignatedVersion) {
		s.loseOf(p, storage.Loss{Kind: "preset", First: p.DesignatedVersion, Last: p.DesignatedVersion, What: fmt.Sprintf("its designated version is lost: version %d is designated now", newest)})
		p.DesignatedVersion = newest
	}
	p.DesignatedVersionID = f.versions[p.DesignatedVersion].ID
	for n := range p.State().Versions() {
		v := f.versions[n]
		s.put(len(v.Config), &s.Copied.Versions, func(tx domain.Tx) error { return tx.PutPresetVersion(p, v) })
	}
	s.salvageLabels(&p, changes)
	s.put(32<<10, &s.Copied.Presets, func(tx domain.Tx) error { return tx.PutPreset(p) })
	if served, _, ok := find(s, servedKey(p.WorkspaceID, p.Slug), decodeServed); ok {
		maps.DeleteFunc(served, func(n int, _ int64) bool { return !p.State().Has(n) })
		s.put(8*len(served), &s.Copied.Served, func(tx domain.Tx) error { return tx.PutServed(p.WorkspaceID, p.Slug, served) })
	}
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
	if a.Object.Label != "" {
		return
	}
	p.DesignatedVersion = cmp.Or(a.After, p.DesignatedVersion)
	p.LatestVersion = max(p.LatestVersion, a.After, a.Object.Draft)
	p.Protected = (p.Protected || a.Object.Protection == "set") && a.Object.Protection != "cleared"
}

// salvageLabels copies the changes of a preset's labels, and sets its labels.
func (s *salvager) salvageLabels(p *domain.Preset, keys []Key) {
	all := make(map[string]map[int]domain.LabelChange)
	for label := range p.Labels {
		all[label] = nil
	}
	for _, k := range keys {
		c, _, ok := find(s, k, decodeJSON[domain.LabelChange])
		name := k[2+len(uuid.UUID{}):]
		if !ok || len(name) <= 8 || uint64(c.Number) != binary.BigEndian.Uint64(name[len(name)-8:]) {
			continue
		}
		label := string(name[:len(name)-8])
		if all[label] == nil {
			all[label] = make(map[int]domain.LabelChange)
		}
		all[label][c.Number] = c
	}
	labels := make(map[string]domain.Target)
	for _, label := range slices.Sorted(maps.Keys(all)) {
		changes := all[label]
		count, _, _ := find(s, LabelKey(p.ID, label), decodeNumber)
		latest := max(int(count), 1) // something made it
		for n := range changes {
			latest = max(latest, n)
		}
		var now *domain.Target
		if target, ok := p.Labels[label]; ok {
			now = &target
		}
		if last, ok := changes[latest]; ok {
			now = last.To
		}
		if now != nil && !hasAll(p.State(), *now) {
			s.loseOf(*p, storage.Loss{Kind: "label", Label: label, What: "it stands for a lost version: it was removed"})
			now = nil
		}
		var at *domain.Target
		n := 1
		put := func(c domain.LabelChange) {
			s.put(1<<10, &s.Copied.LabelChanges, func(tx domain.Tx) error { return tx.PutLabelChange(*p, label, c) })
			at = c.To
			n++
		}
		for c, ok := changes[n]; ok; c, ok = changes[n] {
			put(c)
		}
		if n <= latest {
			s.loseOf(*p, storage.Loss{Kind: "label", Label: label, First: n, Last: latest, What: "changes of its history are lost, or follow lost ones"})
		}
		if !reflect.DeepEqual(at, now) {
			put(domain.LabelChange{Number: n, Time: s.Now.UTC(), UserID: domain.SalvageUser, From: at, To: now})
		}
		if now != nil {
			labels[label] = *now
		}
	}
	if p.Labels = labels; len(labels) == 0 {
		p.Labels = nil
	}
}

// hasAll reports whether all versions of a label exist.
func hasAll(p domain.PresetState, to domain.Target) bool {
	if len(to.Split) == 0 {
		return p.Has(to.Version)
	}
	return !slices.ContainsFunc(to.Split, func(share domain.Share) bool { return !p.Has(share.Version) })
}
