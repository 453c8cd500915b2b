// Package search searches a list of presets and sorts it. Its memory is bounded, however long
// the list is.
package search

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
)

// Sort is the order of a list of presets.
type Sort string

// The orders of lists of presets.
const (
	// Updated is by the time of the last change.
	Updated Sort = ""
	// Name is by name, regardless of case.
	Name Sort = "name"
	// Slug is by slug, in byte order.
	Slug Sort = "slug"
)

// Query says which presets of a list are found, and in which order.
type Query struct {
	// Text is found in the slug, the name or the description, regardless of case. Empty
	// finds all.
	Text string
	Sort Sort
	// Ascending is set for ascending order. The default is descending.
	Ascending bool
}

// preset has the fields of a preset's JSON that a Query is about.
type preset struct {
	Slug        string  `json:"slug"`
	Name        string  `json:"name"`
	Description *string `json:"description"`
}

// matches reports whether p has text, which is folded.
func (p preset) matches(text string) bool {
	return text == "" || strings.Contains(foldCase(p.Slug), text) || strings.Contains(foldCase(p.Name), text) ||
		p.Description != nil && strings.Contains(foldCase(*p.Description), text)
}

// key is the place of a preset in a sorted list. The slug makes it unique.
type key struct {
	age                int // 0 for the preset that was changed last
	folded, name, slug string
}

func (q Query) key(p preset, age int) key {
	switch q.Sort {
	case Updated:
		return key{age: age, slug: p.Slug}
	case Name:
		return key{folded: foldCase(p.Name), name: p.Name, slug: p.Slug}
	default:
		return key{slug: p.Slug}
	}
}

func (q Query) compare(a, b key) int {
	order := cmp.Or(cmp.Compare(b.age, a.age), strings.Compare(a.folded, b.folded), strings.Compare(a.name, b.name), strings.Compare(a.slug, b.slug))
	if q.Ascending {
		return order
	}
	return -order
}

// Page returns the slugs of a page of the presets that q finds, and the number of all that it
// finds. list yields the JSON of the presets, the last changed first, the same at each call. A
// scan of the list sorts the first presets behind those of the scan before. These are at most
// sorted, which is at least limit. So a page far behind takes several scans.
func (q Query) Page(list iter.Seq2[[]byte, error], offset, limit, sorted int) (slugs []string, total int, err error) {
	offset = min(offset, math.MaxInt-limit) // so that the sum is a number
	q.Text = foldCase(q.Text)
	var last *key // the last key before those that are sought
	for skip := offset; ; {
		room := min(sorted, skip+limit)
		keys, total, err := q.first(list, last, room)
		switch {
		case err != nil || offset >= total:
			return nil, total, err
		case len(keys) < skip+limit && len(keys) == room && skip > 0: // there may be more
			passed := min(skip, room)
			skip, last = skip-passed, &keys[passed-1]
			continue
		}
		for _, k := range keys[skip:] {
			slugs = append(slugs, k.slug)
		}
		return slugs, total, nil
	}
}

// first returns the first keys behind last, at most room of them, in order. total is the number
// of all presets that q finds.
func (q Query) first(list iter.Seq2[[]byte, error], last *key, room int) (keys []key, total int, err error) {
	shrink := func() {
		slices.SortFunc(keys, q.compare)
		keys = keys[:min(room, len(keys))]
	}
	for text, err := range list {
		var p preset
		if err == nil {
			err = jsonv2.Unmarshal(text, &p)
		}
		if err != nil {
			return nil, 0, err
		}
		if !p.matches(q.Text) {
			continue
		}
		k := q.key(p, total)
		total++
		if last != nil && q.compare(k, *last) <= 0 {
			continue
		}
		if keys = append(keys, k); len(keys) >= 2*room {
			shrink()
		}
	}
	shrink()
	return keys, total, nil
}

// foldCase returns text such that two texts that differ only in case become equal, by
// Unicode's simple case folding.
func foldCase(text string) string {
	return strings.Map(func(r rune) rune {
		least := r // of those that are one letter
		if r >= utf8.RuneSelf {
			for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
				least = min(least, other)
			}
		}
		if least < utf8.RuneSelf {
			least = unicode.ToLower(least)
		}
		return least
	}, text)
}
