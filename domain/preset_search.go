package domain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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

const (
	// maxScans bounds the scans of presets at a time. maxScan is how long one may take,
	// with the wait for its turn.
	maxScans = 2
	maxScan  = 5 * time.Second
	// maxSorted bounds the presets that a scan sorts at a time. A page behind more of them
	// takes several scans.
	maxSorted = 8192
)

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
		return s.viewPresets(ctx, workspaceID, func(r Reader) ([]byte, int, error) {
			if q.Ascending {
				return ascendingPage(r, workspaceID, q.Filter, page)
			}
			return r.PresetPage(workspaceID, q.Filter, page)
		})
	}
	scan, cancel := context.WithTimeout(ctx, s.scanTime)
	defer cancel()
	select {
	case s.scans <- struct{}{}:
		text, total, err = s.viewPresets(scan, workspaceID, func(r Reader) ([]byte, int, error) {
			return s.newScanner(scan, r, workspaceID, q).page(page)
		})
		<-s.scans
	case <-scan.Done():
		err = scan.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errScanTime
	}
	return text, total, err
}

// viewPresets runs fn with a snapshot in which the workspace exists.
func (s *Service) viewPresets(ctx context.Context, workspaceID string, fn func(r Reader) ([]byte, int, error)) (text []byte, total int, err error) {
	err = s.store.View(ctx, func(r Reader) (err error) {
		if err := CheckWorkspace(r, workspaceID); err != nil {
			return err
		}
		text, total, err = fn(r)
		return err
	})
	return text, total, err
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
	return joinValues(all), total, nil
}

func joinValues(values []jsontext.Value) []byte {
	objects := make([][]byte, len(values))
	for i, v := range values {
		objects[i] = v
	}
	return jsonArray(objects)
}

// errScanTime is the answer to a list that took too long.
var errScanTime = &Error{
	Kind: Unavailable, Message: "The search took too long: ask without q and sort, or in a smaller workspace",
}

// scanner lists the presets of a query.
type scanner struct {
	Reader
	ctx       context.Context
	workspace string
	query     PresetQuery
	text      string // folded
	most      int    // how many keys to sort at a time, at least the page's Limit
}

func (s *Service) newScanner(ctx context.Context, r Reader, workspaceID string, q PresetQuery) *scanner {
	return &scanner{r, ctx, workspaceID, q, foldCase(q.Text), s.sorted}
}

// scanned is a preset that a scan found.
type scanned struct {
	Slug        string    `json:"slug"`
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	UpdatedAt   time.Time `json:"updated_at"`
	text        jsontext.Value
}

// each calls fn with every preset that matches, the last changed first.
func (s *scanner) each(fn func(p scanned)) error {
	if s.query.only != nil {
		found, err := s.only()
		for _, p := range found {
			fn(p)
		}
		return err
	}
	for text, err := range s.PresetList(s.workspace, s.query.Filter) {
		if err := cmp.Or(err, s.ctx.Err()); err != nil {
			return err
		}
		p, err := newScanned(text)
		if err != nil {
			return err
		}
		if s.matches(p) {
			fn(p)
		}
	}
	return nil
}

func newScanned(text jsontext.Value) (p scanned, err error) {
	p.text = text
	err = jsonv2.Unmarshal(text, &p)
	return p, err
}

// only returns the presets that match among those of query.only, the last changed first. It
// reads no other presets, so neither its time nor its memory depends on them.
func (s *scanner) only() (found []scanned, err error) {
	for _, slug := range s.query.only {
		state, text, err := s.PresetJSON(s.workspace, slug)
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err != nil:
			return nil, err
		}
		p, err := newScanned(text)
		if err != nil {
			return nil, err
		}
		if s.query.Filter.Accepts(state.Status) && s.matches(p) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b scanned) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.Slug, b.Slug))
	})
	return found, nil
}

func (s *scanner) matches(p scanned) bool {
	return s.text == "" || strings.Contains(foldCase(p.Slug), s.text) || strings.Contains(foldCase(p.Name), s.text) ||
		p.Description != nil && strings.Contains(foldCase(*p.Description), s.text)
}

// page returns a page of the presets that match, and the number of all of them.
func (s *scanner) page(page Page) ([]byte, int, error) {
	page.Offset = min(page.Offset, math.MaxInt-page.Limit) // so that the sum is a number
	if s.query.Sort == SortUpdated {
		return s.pageByUpdate(page)
	}
	return s.pageByKey(page)
}

// pageByUpdate is page in the order of the list itself, or its reverse.
func (s *scanner) pageByUpdate(page Page) ([]byte, int, error) {
	total := 0
	begin, end := page.Offset, page.Offset+page.Limit
	if s.query.Ascending { // the same presets, counted from the other end
		if err := s.each(func(scanned) { total++ }); err != nil {
			return nil, 0, err
		}
		end = max(0, total-page.Offset)
		begin = max(0, end-page.Limit)
		total = 0
	}
	var found []jsontext.Value
	err := s.each(func(p scanned) {
		if total >= begin && total < end {
			found = append(found, p.text)
		}
		total++
	})
	if s.query.Ascending {
		slices.Reverse(found)
	}
	return joinValues(found), total, err
}

// sortKey is the place of a preset in a sorted list. The slug makes it unique.
type sortKey struct{ folded, name, slug string }

func (s *scanner) keyOf(p scanned) sortKey {
	if s.query.Sort == SortSlug {
		return sortKey{slug: p.Slug}
	}
	return sortKey{foldCase(p.Name), p.Name, p.Slug}
}

func (s *scanner) compare(a, b sortKey) int {
	order := cmp.Or(strings.Compare(a.folded, b.folded), strings.Compare(a.name, b.name), strings.Compare(a.slug, b.slug))
	if s.query.Ascending {
		return order
	}
	return -order
}

// pageByKey is page in the order of the presets' keys. A scan finds the first maxSorted
// keys behind those of the scan before. So its memory is bounded at any offset.
func (s *scanner) pageByKey(page Page) ([]byte, int, error) {
	var last *sortKey // the last key before those that are sought
	for skip := page.Offset; ; {
		room := min(s.most, skip+page.Limit)
		keys, total, err := s.firstKeys(last, room)
		switch {
		case err != nil:
			return nil, 0, err
		case page.Offset >= total:
			return []byte("[]"), total, nil
		case len(keys) < skip+page.Limit && len(keys) == room && skip > 0: // there may be more
			passed := min(skip, room)
			skip, last = skip-passed, &keys[passed-1]
			continue
		}
		text, err := s.presets(keys[skip:])
		return text, total, err
	}
}

// presets returns the presets of keys as a JSON array.
func (s *scanner) presets(keys []sortKey) ([]byte, error) {
	objects := make([][]byte, len(keys))
	for i, k := range keys {
		_, text, err := s.PresetJSON(s.workspace, k.slug)
		if err != nil {
			return nil, err
		}
		objects[i] = text
	}
	return jsonArray(objects), nil
}

// firstKeys returns the first keys behind last, at most room of them, in order. total is
// the number of all presets that match.
func (s *scanner) firstKeys(last *sortKey, room int) (keys []sortKey, total int, err error) {
	shrink := func() {
		slices.SortFunc(keys, s.compare)
		keys = keys[:min(room, len(keys))]
	}
	err = s.each(func(p scanned) {
		total++
		k := s.keyOf(p)
		if last != nil && s.compare(k, *last) <= 0 {
			return
		}
		if keys = append(keys, k); len(keys) >= 2*room {
			shrink()
		}
	})
	shrink()
	return keys, total, err
}

// foldCase returns text such that two texts that differ only in case become equal, by
// Unicode's simple case folding.
func foldCase(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}
		least := r // of those that are one letter, in lower case if it is ASCII
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		if 'A' <= least && least <= 'Z' {
			least += 'a' - 'A'
		}
		return least
	}, text)
}
