// Package search finds presets in a list of their JSON, and sorts them.
package search

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/problem"
)

// Filter says which presets of a workspace a list has, by their status.
type Filter string

// The filters besides the statuses themselves. Listed lets all through that are not archived.
const (
	Listed Filter = ""
	All    Filter = "all"
)

// Accepts reports whether a list of f has presets of a status.
func (f Filter) Accepts(status string) bool {
	return f == All || string(f) == status || f == Listed && status != "archived"
}

// Sort is the order of a list of presets.
type Sort string

// The orders of lists of presets: by the time of the last change; by name, regardless of case; by slug, in byte order;
// and by the Query's Rank.
const (
	Updated Sort = ""
	Name    Sort = "name"
	Slug    Sort = "slug"
	Rank    Sort = "rank"
)

// Query says which presets of a workspace a list has, and in which order. The zero value has those that are not
// archived, the last changed first.
type Query struct {
	Filter Filter
	// Text is found in the slug, the name or the description, regardless of case. Empty finds all.
	Text string
	// InPrompt finds Text also in the prompts of the designated version: its system prompt and the strings of its
	// template's messages.
	InPrompt bool
	// Tag, Label, Owner and Model are those of the presets, unless they are empty. Model is that of the designated version.
	Tag, Label, Owner, Model string
	// WithModel adds a member model to each preset of the page, null for none: that of the designated version.
	WithModel bool
	Sort      Sort
	// Rank has the values to sort by, by slug, for the order Rank. Others have zero.
	Rank map[string]int64
	// Ascending is set for ascending order. The default is descending.
	Ascending bool
	// Only are the slugs of a key's Scope, nil for all presets.
	Only []string
}

// MaxText bounds a Query's Text, in characters.
const MaxText = 256

// CheckText returns an Invalid error if text cannot be searched for.
func CheckText(text string) error {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > MaxText {
		return problem.InvalidAt("q", fmt.Sprintf("must be UTF-8 of at most %d characters", MaxText))
	}
	return nil
}

// Key returns what tells q from queries of the same filter, empty for the usual order of all presets. Queries of
// different Ranks have the same.
func (q Query) Key() string {
	if q.IsIndexed() && !q.WithModel {
		return ""
	}
	flags := strconv.FormatBool(q.Ascending) + strconv.FormatBool(q.InPrompt) + strconv.FormatBool(q.WithModel)
	return strings.Join([]string{string(q.Sort), flags, strings.Join(q.Only, ","), q.Tag, q.Label, q.Owner, q.Model, q.Text}, "\x00")
}

// IsIndexed reports whether an engine can return a page of q without a scan.
func (q Query) IsIndexed() bool {
	return q.Text == "" && q.Tag == "" && q.Label == "" && q.Owner == "" && q.Model == "" && q.Sort == Updated && !q.Ascending && q.Only == nil
}

// preset has the fields of a preset's JSON that a Query is about.
type preset struct {
	Slug        string              `json:"slug"`
	Name        string              `json:"name"`
	Description *string             `json:"description"`
	Tags        []string            `json:"tags"`
	Labels      map[string]struct{} `json:"labels"`
	ManagedBy   *string             `json:"managed_by"`
}

// Version is a version of a preset, as a Query needs it.
type Version struct {
	SystemPrompt *string
	Messages     []byte // of the template, JSON, nil for none
	Config       []byte
}

// Model returns the setting model of v, empty for none.
func (v Version) Model() (string, error) {
	var config struct {
		Model string `json:"model"`
	}
	err := json.Unmarshal(v.Config, &config)
	return config.Model, err
}

// has reports whether a prompt of v has text, which is in small letters.
func (v Version) has(text string) bool {
	if v.SystemPrompt != nil && strings.Contains(strings.ToLower(*v.SystemPrompt), text) {
		return true
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(v.Messages))
	for {
		switch token, err := decoder.ReadToken(); {
		case err != nil:
			return false
		case token.Kind() == '"' && strings.Contains(strings.ToLower(token.String()), text):
			return true
		}
	}
}

// Versions returns the designated version of the preset of a slug.
type Versions func(slug string) (Version, error)

// matches reports whether p is one of q's. text is q's, in small letters.
func (q Query) matches(p preset, text string, designated Versions) (bool, error) {
	_, labelled := p.Labels[q.Label]
	if q.Tag != "" && !slices.Contains(p.Tags, q.Tag) || q.Label != "" && !labelled ||
		q.Owner != "" && (p.ManagedBy == nil || *p.ManagedBy != q.Owner) {
		return false, nil
	}
	isNamed := text == "" || strings.Contains(strings.ToLower(p.Slug), text) || strings.Contains(strings.ToLower(p.Name), text) ||
		p.Description != nil && strings.Contains(strings.ToLower(*p.Description), text)
	if !isNamed && !q.InPrompt || q.Model == "" && isNamed {
		return isNamed, nil
	}
	v, err := designated(p.Slug)
	if err != nil || !isNamed && !v.has(text) {
		return false, err
	}
	if q.Model == "" {
		return true, nil
	}
	model, err := v.Model()
	return model == q.Model, err
}

// place is the place of a preset in a sorted list. The slug makes it unique.
type place struct {
	age                int // 0 for the preset that was changed last
	rank               int64
	folded, name, slug string
}

func (q Query) placeOf(p preset, age int) place {
	switch q.Sort {
	case Updated:
		return place{age: age, slug: p.Slug}
	case Rank:
		return place{rank: q.Rank[p.Slug], age: age, slug: p.Slug}
	case Name:
		return place{folded: strings.ToLower(p.Name), name: p.Name, slug: p.Slug}
	default:
		return place{slug: p.Slug}
	}
}

func (q Query) compare(a, b place) int {
	order := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.age, a.age), strings.Compare(a.folded, b.folded), strings.Compare(a.name, b.name), strings.Compare(a.slug, b.slug))
	if q.Ascending {
		return order
	}
	return -order
}

// Find returns the slugs of a page of the presets that q finds, which begins after offset, and the number of all that it
// finds. list yields the JSON of the presets, the last changed first. However long it is, Find keeps no more
// than twice what comes before the page and in it. It asks for the versions that it needs, one at a time.
func (q Query) Find(list iter.Seq2[[]byte, error], offset, limit int, designated Versions) (slugs []string, total int, err error) {
	var found []place
	room, sought := offset+limit, strings.ToLower(q.Text)
	shrink := func() {
		slices.SortFunc(found, q.compare)
		found = found[:min(room, len(found))]
	}
	for text, err := range list {
		var p preset
		if err == nil {
			err = jsonv2.Unmarshal(text, &p)
		}
		matches := false
		if err == nil {
			matches, err = q.matches(p, sought, designated)
		}
		if err != nil {
			return nil, 0, err
		}
		if !matches {
			continue
		}
		found = append(found, q.placeOf(p, total))
		if total++; len(found) >= 2*room {
			shrink()
		}
	}
	shrink()
	for _, at := range found[min(offset, len(found)):] {
		slugs = append(slugs, at.slug)
	}
	return slugs, total, nil
}

// AddModels returns a JSON array of presets, each with the model of its designated version as its last member.
func AddModels(page []byte, designated Versions) ([]byte, error) {
	var presets []jsontext.Value
	if err := jsonv2.Unmarshal(page, &presets); err != nil {
		return nil, err
	}
	for i, text := range presets {
		var p preset
		if err := jsonv2.Unmarshal(text, &p); err != nil {
			return nil, err
		}
		v, err := designated(p.Slug)
		if err != nil {
			return nil, err
		}
		model, err := v.Model()
		if err != nil {
			return nil, err
		}
		member := []byte("null")
		if model != "" {
			if member, err = jsontext.AppendQuote(nil, model); err != nil {
				return nil, err
			}
		}
		presets[i] = slices.Concat(text[:len(text)-1], []byte(`,"model":`), member, []byte{'}'})
	}
	return jsonv2.Marshal(presets)
}
