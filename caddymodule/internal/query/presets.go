package query

import (
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/search"
)

// The orders of presets by what requests of the last day used of them.
const (
	ByUse    = "use"
	ByErrors = "errors"
)

// Presets reads which presets to list, and in which order. by is ByUse or ByErrors if the caller is to set the Rank, else
// empty.
func (q Query) Presets() (list domain.PresetQuery, by string, err error) {
	status, err := q.Word("status", string(domain.ActivePresets), string(domain.DisabledPresets), string(domain.ArchivedPresets), string(domain.AllPresets))
	if err != nil {
		return list, "", err
	}
	list.Filter = domain.PresetFilter(status)
	if given := q["q"]; len(given) != 1 || given[0] != "" { // an empty search field finds all
		if list.Text, err = q.Only("q"); err != nil {
			return list, "", err
		}
	}
	if err := search.CheckText(list.Text); err != nil {
		return list, "", err
	}
	for _, filter := range []struct {
		name string
		into *string
	}{{"tag", &list.Tag}, {"label", &list.Label}, {"owner", &list.Owner}, {"model", &list.Model}} {
		if *filter.into, err = q.Only(filter.name); err != nil {
			return list, "", err
		}
	}
	for _, choice := range []struct {
		name, word string
		into       *bool
	}{{"in", "prompt", &list.InPrompt}, {"include", "model", &list.WithModel}} {
		given, err := q.Only(choice.name)
		if err != nil {
			return list, "", err
		}
		if *choice.into = given == choice.word; given != "" && given != choice.word {
			return list, "", domain.InvalidAt(choice.name, "must be "+choice.word)
		}
	}
	const updated = "updated" // the usual order
	switch by, err = q.Word("sort", updated, string(search.Name), string(search.Slug), ByUse, ByErrors); {
	case err != nil:
		return list, "", err
	case by == ByUse || by == ByErrors:
		list.Sort = search.Rank
	case by != updated:
		list.Sort, by = search.Sort(by), ""
	default:
		by = ""
	}
	order, err := q.Word("order", "asc", "desc")
	list.Ascending = order == "asc"
	return list, by, err
}
