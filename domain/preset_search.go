package domain

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

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
