package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/internal/search"
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

// PresetFilter says which presets of a workspace a list has.
type PresetFilter string

// The filters of lists of presets.
const (
	// ListedPresets lets all through that are not archived.
	ListedPresets   PresetFilter = ""
	ActivePresets                = PresetFilter(PresetActive)
	DisabledPresets              = PresetFilter(PresetDisabled)
	ArchivedPresets              = PresetFilter(PresetArchived)
	AllPresets      PresetFilter = "all"
)

// Accepts reports whether a list of f has presets of a status.
func (f PresetFilter) Accepts(status PresetStatus) bool {
	return f == AllPresets || f == PresetFilter(status) || f == ListedPresets && status != PresetArchived
}

// PresetSort is the order of a list of presets.
type PresetSort = search.Sort

// The orders of lists of presets: by the time of the last change, by name regardless of case,
// and by slug in byte order.
const (
	SortUpdated = search.Updated
	SortName    = search.Name
	SortSlug    = search.Slug
)

// PresetQuery says which presets of a workspace a list has, and in which order. The zero
// value has those that are not archived, the last changed first.
type PresetQuery struct {
	Filter PresetFilter
	// Text is found in the slug, the name or the description, regardless of case. Empty
	// finds all.
	Text string
	Sort PresetSort
	// Ascending is set for ascending order. The default is descending.
	Ascending bool
	only      []string // the slugs of a key's Scope, nil for all presets
}

// MaxSearchText bounds a PresetQuery's Text, in characters.
const MaxSearchText = 256

// CheckSearchText returns an Invalid error if text cannot be searched for.
func CheckSearchText(text string) error {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > MaxSearchText {
		return InvalidAt("q", fmt.Sprintf("must be UTF-8 of at most %d characters", MaxSearchText))
	}
	return nil
}

// maxSorted bounds the presets that a scan sorts at a time. A page behind more of them takes
// several scans.
const maxSorted = 8192

// search returns what tells q from queries of the same filter, empty for the usual order of
// all presets.
func (q PresetQuery) search() string {
	if q.isIndexed() && !q.Ascending {
		return ""
	}
	return string(q.Sort) + "\x00" + strconv.FormatBool(q.Ascending) + "\x00" + strings.Join(q.only, ",") + "\x00" + q.Text
}

// isIndexed reports whether an engine can return a page of q without a scan.
func (q PresetQuery) isIndexed() bool { return q.Text == "" && q.Sort == SortUpdated && q.only == nil }

// readPresets returns a page of q as a JSON array, and the number of all presets of q.
func (s *Service) readPresets(ctx context.Context, workspaceID string, q PresetQuery, page Page) (text []byte, total int, err error) {
	if q.isIndexed() {
		err = s.viewPresets(ctx, workspaceID, func(r Reader) (err error) {
			if q.Ascending {
				text, total, err = ascendingPage(r, workspaceID, q.Filter, page)
			} else {
				text, total, err = r.PresetPage(workspaceID, q.Filter, page)
			}
			return err
		})
		return text, total, err
	}
	err = s.scans.run(ctx, func(ctx context.Context) error {
		return s.viewPresets(ctx, workspaceID, func(r Reader) error {
			var slugs []string
			list := r.PresetList(workspaceID, q.Filter)
			if q.only != nil {
				list = presetsOnly(r, workspaceID, q.Filter, q.only)
			}
			query := search.Query{Text: q.Text, Sort: q.Sort, Ascending: q.Ascending}
			slugs, total, err = query.Page(until(ctx, list), page.Offset, page.Limit, s.sorted)
			if err != nil {
				return err
			}
			presets := make([][]byte, len(slugs))
			for i, slug := range slugs {
				if _, presets[i], err = r.PresetJSON(workspaceID, slug); err != nil {
					return err
				}
			}
			text = jsonArray(presets)
			return nil
		})
	})
	return text, total, err
}

// viewPresets runs fn with a snapshot in which the workspace exists.
func (s *Service) viewPresets(ctx context.Context, workspaceID string, fn func(r Reader) error) error {
	return s.store.View(ctx, func(r Reader) error {
		if err := CheckWorkspace(r, workspaceID); err != nil {
			return err
		}
		return fn(r)
	})
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
			case filter.Accepts(p.Status):
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

// ascendingPage returns a page of the presets of a filter, the last changed last.
func ascendingPage(r Reader, workspaceID string, filter PresetFilter, page Page) ([]byte, int, error) {
	_, total, err := r.PresetPage(workspaceID, filter, Page{Limit: 1})
	if err != nil {
		return nil, 0, err
	}
	end := max(0, total-page.Offset)
	begin := max(0, end-page.Limit)
	text, total, err := r.PresetPage(workspaceID, filter, Page{Offset: begin, Limit: end - begin})
	if err != nil {
		return nil, 0, err
	}
	var all []jsontext.Value
	if err := jsonv2.Unmarshal(text, &all); err != nil {
		return nil, 0, err
	}
	slices.Reverse(all)
	text, err = jsonv2.Marshal(all)
	return text, total, err
}
