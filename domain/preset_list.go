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
type PresetSort string

// The orders of lists of presets.
const (
	// SortUpdated is by the time of the last change.
	SortUpdated PresetSort = ""
	// SortName is by name, regardless of case.
	SortName PresetSort = "name"
	// SortSlug is by slug, in byte order.
	SortSlug PresetSort = "slug"
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

// maxSorted bounds the presets before a page that a scan has sorted, and so its memory.
const maxSorted = 10_000

// search returns what tells q from queries of the same filter, empty for the usual order of
// all presets.
func (q PresetQuery) search() string {
	if q.isIndexed() {
		return ""
	}
	return string(q.Sort) + "\x00" + strconv.FormatBool(q.Ascending) + "\x00" + strings.Join(q.only, ",") + "\x00" + q.Text
}

// isIndexed reports whether an engine can return a page of q without a scan.
func (q PresetQuery) isIndexed() bool {
	return q.Text == "" && q.Sort == SortUpdated && !q.Ascending && q.only == nil
}

// presetPage returns a page of q as a JSON array, and the number of all presets of q.
func presetPage(ctx context.Context, r Reader, workspaceID string, q PresetQuery, page Page) ([]byte, int, error) {
	if err := CheckWorkspace(r, workspaceID); err != nil {
		return nil, 0, err
	}
	switch {
	case q.isIndexed():
		return r.PresetPage(workspaceID, q.Filter, page)
	case page.Offset > maxSorted:
		return nil, 0, InvalidAt("offset", fmt.Sprintf("must be at most %d in a search, and in an order of its own", maxSorted))
	}
	list := r.PresetList(workspaceID, q.Filter)
	if q.only != nil {
		list = presetsOnly(r, workspaceID, q.Filter, q.only)
	}
	slugs, total, err := q.find(until(ctx, list), page)
	if err != nil {
		return nil, 0, err
	}
	presets := make([][]byte, len(slugs))
	for i, slug := range slugs {
		if _, presets[i], err = r.PresetJSON(workspaceID, slug); err != nil {
			return nil, 0, err
		}
	}
	return jsonArray(presets), total, nil
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

// searchedPreset has the fields of a preset's JSON that a PresetQuery is about.
type searchedPreset struct {
	Slug        string  `json:"slug"`
	Name        string  `json:"name"`
	Description *string `json:"description"`
}

// matches reports whether p has text, which is in small letters.
func (p searchedPreset) matches(text string) bool {
	return text == "" || strings.Contains(strings.ToLower(p.Slug), text) || strings.Contains(strings.ToLower(p.Name), text) ||
		p.Description != nil && strings.Contains(strings.ToLower(*p.Description), text)
}

// sortKey is the place of a preset in a sorted list. The slug makes it unique.
type sortKey struct {
	age                int // 0 for the preset that was changed last
	folded, name, slug string
}

func (q PresetQuery) sortKey(p searchedPreset, age int) sortKey {
	switch q.Sort {
	case SortUpdated:
		return sortKey{age: age, slug: p.Slug}
	case SortName:
		return sortKey{folded: strings.ToLower(p.Name), name: p.Name, slug: p.Slug}
	default:
		return sortKey{slug: p.Slug}
	}
}

func (q PresetQuery) compare(a, b sortKey) int {
	order := cmp.Or(cmp.Compare(b.age, a.age), strings.Compare(a.folded, b.folded), strings.Compare(a.name, b.name), strings.Compare(a.slug, b.slug))
	if q.Ascending {
		return order
	}
	return -order
}

// find returns the slugs of a page of the presets that q finds, and the number of all that it finds.
// list yields the JSON of the presets, the last changed first. However long it is, find keeps no more
// than twice what comes before the page and in it.
func (q PresetQuery) find(list iter.Seq2[[]byte, error], page Page) (slugs []string, total int, err error) {
	var keys []sortKey
	room, sought := page.Offset+page.Limit, strings.ToLower(q.Text)
	shrink := func() {
		slices.SortFunc(keys, q.compare)
		keys = keys[:min(room, len(keys))]
	}
	for text, err := range list {
		var p searchedPreset
		if err == nil {
			err = jsonv2.Unmarshal(text, &p)
		}
		if err != nil {
			return nil, 0, err
		}
		if !p.matches(sought) {
			continue
		}
		keys = append(keys, q.sortKey(p, total))
		if total++; len(keys) >= 2*room {
			shrink()
		}
	}
	shrink()
	for _, k := range keys[min(page.Offset, len(keys)):] {
		slugs = append(slugs, k.slug)
	}
	return slugs, total, nil
}
