package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain/search"
)

// Page is a part of a list.
type Page struct {
	// Offset is how many objects come before the page.
	Offset int
	// Limit is the most objects that the page may have.
	Limit int
}

// MaxPage bounds the Limit of a page. DefaultPage is the Limit if the client names none
// (specification of lists in the public interface).
const (
	MaxPage     = 100
	DefaultPage = 50
)

// The types of a list of presets: see package search.
type (
	// PresetFilter is search.Filter.
	PresetFilter = search.Filter
	// PresetQuery is search.Query.
	PresetQuery = search.Query
)

// The filters of lists of presets.
const (
	ListedPresets   = search.Listed
	ActivePresets   = PresetFilter(PresetActive)
	DisabledPresets = PresetFilter(PresetDisabled)
	ArchivedPresets = PresetFilter(PresetArchived)
	AllPresets      = search.All
)

// maxSorted bounds the presets before a page that a scan has sorted, and so its memory.
const maxSorted = 10_000

// presetPage returns a page of q as a JSON array, and the number of all presets of q.
func presetPage(ctx context.Context, r Reader, workspaceID string, q PresetQuery, page Page) ([]byte, int, error) {
	if err := CheckWorkspace(r, workspaceID); err != nil {
		return nil, 0, err
	}
	designated := func(slug string) (search.Version, error) { return searchedVersion(r, workspaceID, slug) }
	switch {
	case q.IsIndexed():
		text, total, err := r.PresetPage(workspaceID, q.Filter, page)
		if err == nil && q.WithModel {
			text, err = search.AddModels(text, designated)
		}
		return text, total, err
	case page.Offset > maxSorted:
		return nil, 0, InvalidAt("offset", fmt.Sprintf("must be at most %d in a search, and in an order of its own", maxSorted))
	}
	list := r.PresetList(workspaceID, q.Filter)
	if q.Only != nil {
		list = presetsOnly(r, workspaceID, q.Filter, q.Only)
	}
	slugs, total, err := q.Find(until(ctx, list), page.Offset, page.Limit, designated)
	if err != nil {
		return nil, 0, err
	}
	presets := make([][]byte, len(slugs))
	for i, slug := range slugs {
		if _, presets[i], err = r.PresetJSON(workspaceID, slug); err != nil {
			return nil, 0, err
		}
	}
	text := jsonArray(presets)
	if q.WithModel {
		text, err = search.AddModels(text, designated)
	}
	return text, total, err
}

// searchedVersion returns the designated version of a preset that is in a list.
func searchedVersion(r Reader, workspaceID, slug string) (found search.Version, err error) {
	state, _, err := r.PresetJSON(workspaceID, slug)
	if err != nil {
		return found, err
	}
	v, err := r.PresetVersion(state, state.DesignatedVersion)
	if v.Template != nil {
		found.Messages = v.Template.Messages
	}
	found.SystemPrompt, found.Config = v.SystemPrompt, v.Config
	return found, err
}

// presetsOnly yields the presets of slugs that match a filter, as Reader.PresetList does. It reads
// no others, so its time does not depend on them.
func presetsOnly(r Reader, workspaceID string, filter PresetFilter, slugs []string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var found []Preset
		for _, slug := range slugs {
			p, err := r.Preset(workspaceID, slug)
			switch {
			case errors.Is(err, ErrNotFound):
			case err != nil:
				yield(nil, err)
				return
			case filter.Accepts(string(p.Status)):
				found = append(found, p)
			}
		}
		slices.SortFunc(found, func(a, b Preset) int {
			return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.Slug, b.Slug))
		})
		for _, p := range found {
			if !yield(p.JSON()) {
				return
			}
		}
	}
}
