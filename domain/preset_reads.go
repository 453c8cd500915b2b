package domain

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain/search"
)

// errNoSuchVersion is the error for a version that the preset does not have. place is
// where the request names it.
func errNoSuchVersion(place string) error {
	return &Error{Kind: NotFound, Code: VersionNotFound, Message: "Preset version not found", Issues: []Issue{{Path: place, Message: "the preset has no such version"}}}
}

// versionOf returns a version of p. A number that p does not have is NotFound.
func versionOf(r Reader, p Preset, n int, place string) (PresetVersion, error) {
	if !p.State().Has(n) {
		return PresetVersion{}, errNoSuchVersion(place)
	}
	return r.PresetVersion(p.State(), n)
}

// Found is an object, or a page of a list, as clients see it. Its JSON is shared, and must not
// be changed.
type Found struct {
	JSON []byte
	// WorkspaceID is the object's workspace, and Number its version, 0 for none.
	WorkspaceID string
	Number      int
	// Total is how many objects all pages of the list have.
	Total int
	// Tag is the entity tag of the object, or of the page with its Total.
	Tag string
}

// shown is a preset as clients see it in a list, and the snapshot that it is in.
type shown struct {
	Reader
	state  PresetState
	json   []byte
	labels map[int][]string // in byte order, by the versions that requests get by them
	served Served           // nil if it was not read
}

// showPreset returns the preset of a slug, whatever its status.
func showPreset(r Reader, workspaceID, slug string) (p shown, err error) {
	p.Reader = r
	p.state, p.json, err = r.PresetJSON(workspaceID, slug)
	switch {
	case errors.Is(err, ErrNotFound):
		err = errPresetNotFound
	case err == nil && !bytes.HasSuffix(p.json, []byte(`"labels":{}}`)): // most presets have none
		p.labels, err = labelsOf(p.json)
	}
	return p, err
}

// labelsOf returns the labels in the JSON of a preset, by the versions that they stand for. A
// version that has a part of a label's split has that label.
func labelsOf(text []byte) (map[int][]string, error) {
	var preset struct {
		Labels map[string]Target `json:"labels"`
	}
	err := jsonv2.Unmarshal(text, &preset)
	labels := make(map[int][]string)
	for _, label := range slices.Sorted(maps.Keys(preset.Labels)) {
		to := preset.Labels[label]
		if to.Split == nil {
			labels[to.Version] = append(labels[to.Version], label)
		}
		for _, share := range to.Split {
			labels[share.Version] = append(labels[share.Version], label)
		}
	}
	return labels, err
}

// showVisiblePreset is showPreset for clients, who do not see archived presets. The
// workspace may have been deleted.
func showVisiblePreset(r Reader, workspaceID, slug string) (shown, error) {
	if err := CheckWorkspace(r, workspaceID); err != nil {
		return shown{}, err
	}
	p, err := showPreset(r, workspaceID, slug)
	if err == nil && p.state.Status == PresetArchived {
		err = errPresetNotFound
	}
	if err == nil {
		p.served, err = r.Served(workspaceID, slug)
	}
	return p, err
}

// withDesignated returns p with its designated version.
func (p shown) withDesignated() ([]byte, error) {
	version, err := p.version(p.state.DesignatedVersion)
	if err != nil {
		return nil, err
	}
	return withMember(p.json, "designated_version", version), nil
}

// withMember appends a member to a JSON object that has members. The bytes of value stay
// as they are.
func withMember(object []byte, name string, value []byte) []byte {
	return slices.Concat(object[:len(object)-1], []byte(`,"`+name+`":`), value, []byte{'}'})
}

// version returns version n as clients see it.
func (p shown) version(n int) ([]byte, error) {
	text, err := p.PresetVersionJSON(p.state, n)
	if err != nil {
		return nil, err
	}
	return p.addUses(text, n), nil
}

// addUses returns the JSON of version n with what depends on the preset as the last members: how
// requests get the version, by the preset's name alone or by a label, and when they last did.
func (p shown) addUses(version []byte, n int) []byte {
	uses := append(make([]byte, 0, 96), `,"designated":`...)
	uses = strconv.AppendBool(uses, n == p.state.DesignatedVersion)
	uses = append(uses, `,"labels":[`...)
	for i, label := range p.labels[n] {
		if i > 0 {
			uses = append(uses, ',')
		}
		uses = strconv.AppendQuote(uses, label) // labels need no escapes
	}
	uses = p.served.appendTo(append(uses, ']'), n)
	return slices.Concat(version[:len(version)-1], uses, []byte{'}'})
}

// presetHome is home for a request about the preset of a slug. A preset that who does not
// reach is NotFound, before any cache is looked at.
func (s *Service) presetHome(ctx context.Context, who Principal, workspace, slug string) (string, error) {
	id, err := s.home(ctx, who, workspace)
	if err == nil {
		err = reach(who, slug)
	}
	return id, err
}

// Preset returns a preset and its designated version. workspace is the id or slug of the
// workspace to look in, empty for the key's own. An archived preset is NotFound in this
// and every other method that reads.
func (s *Service) Preset(ctx context.Context, who Principal, workspace, slug string) (found Found, err error) {
	id, err := s.presetHome(ctx, who, workspace, slug)
	if err != nil {
		return found, err
	}
	k, stamp := answerKey{what: presetKind, workspace: id, slug: slug}, s.store.Stamps().Preset(id, slug)
	if found, ok := s.answers.Get(k, stamp); ok {
		return found, nil
	}
	return s.readAnswer(ctx, k, stamp, func(r Reader) (Found, error) {
		p, err := showVisiblePreset(r, id, slug)
		if err != nil {
			return Found{}, err
		}
		text, err := p.withDesignated()
		return Found{JSON: text, Tag: presetTag(text), WorkspaceID: id, Number: p.state.DesignatedVersion}, err
	})
}

// Presets returns a page of a workspace's presets that who reaches and that match a query. Only
// this method returns archived presets. A query that has a Text or an order of its own costs a scan of
// the workspace's presets, and has at most 10,000 presets before the page. Two scans run at a time. It is Unavailable if it takes more than
// five seconds, with the wait for its turn.
func (s *Service) Presets(ctx context.Context, who Principal, workspace string, query PresetQuery, page Page) (list Found, err error) {
	id, err := s.home(ctx, who, workspace)
	if err != nil {
		return list, err
	}
	query.Only = who.ReachedPresets()
	k, stamp := answerKey{what: presetsKind, workspace: id, filter: query.Filter, search: query.Key(), page: page}, s.store.Stamps().Presets(id)
	isRanked := query.Sort == search.Rank // by what no stamp tells of
	if list, ok := s.answers.Get(k, stamp); ok && !isRanked {
		return list, nil
	}
	find := func(ctx context.Context, r Reader) (Found, error) {
		text, total, err := presetPage(ctx, r, id, query, page)
		return listed(text, total), err
	}
	read := func(ctx context.Context) error {
		if isRanked {
			return s.store.View(ctx, func(r Reader) (err error) {
				list, err = find(ctx, r)
				return err
			})
		}
		list, err = s.readAnswer(ctx, k, stamp, func(r Reader) (Found, error) { return find(ctx, r) })
		return err
	}
	if query.IsIndexed() {
		err = read(ctx)
	} else {
		err = s.scans.run(ctx, read)
	}
	return list, err
}

// PresetVersion returns version n of a preset.
func (s *Service) PresetVersion(ctx context.Context, who Principal, workspace, slug string, n int) (found Found, err error) {
	id, err := s.presetHome(ctx, who, workspace, slug)
	if err != nil {
		return found, err
	}
	err = s.store.View(ctx, func(r Reader) error {
		p, err := showVisiblePreset(r, id, slug)
		if err != nil {
			return err
		}
		if !p.state.Has(n) {
			return errNoSuchVersion("version")
		}
		text, err := p.version(n)
		found = tagged(Found{JSON: text, WorkspaceID: id, Number: n})
		return err
	})
	return found, err
}

// PresetVersions returns a page of the versions of a preset, the first version
// first.
func (s *Service) PresetVersions(ctx context.Context, who Principal, workspace, slug string, page Page) (Found, error) {
	return s.versionPage(ctx, who, workspace, slug, page, Reader.PresetVersionJSON)
}

// PresetVersionSummaries is PresetVersions without the settings and prompts. It does not
// read them either.
func (s *Service) PresetVersionSummaries(ctx context.Context, who Principal, workspace, slug string, page Page) (Found, error) {
	return s.versionPage(ctx, who, workspace, slug, page, Reader.PresetVersionSummary)
}

func (s *Service) versionPage(ctx context.Context, who Principal, workspace, slug string, page Page, read func(r Reader, p PresetState, n int) ([]byte, error)) (list Found, err error) {
	id, err := s.presetHome(ctx, who, workspace, slug)
	if err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(r Reader) error {
		p, err := showVisiblePreset(r, id, slug)
		if err != nil {
			return err
		}
		var versions [][]byte
		for i := page.Offset; i < p.state.count() && len(versions) < page.Limit; i++ {
			n := p.state.Version(i)
			text, err := read(r, p.state, n)
			if err != nil {
				return err
			}
			versions = append(versions, p.addUses(text, n))
		}
		list = listed(jsonArray(versions), p.state.count())
		return nil
	})
	return list, err
}

func jsonArray(objects [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(objects, []byte{','}), []byte{']'})
}
