package convert

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
)

// portkeyPage is how many prompts a page should have.
const portkeyPage = 100

// fetch reads a live account.
func (r *portkey) fetch() error {
	if r.options.Key == "" {
		return errors.New("portkey wants its API key in --key-file")
	}
	a, err := r.account("X-Portkey-Api-Key", r.options.Key)
	if err != nil {
		return err
	}
	query := func(page int) url.Values {
		values := url.Values{"page_size": {strconv.Itoa(portkeyPage)}}
		if page > 0 {
			values.Set("current_page", strconv.Itoa(page))
		}
		return values
	}
	name := func(item node) string { return cmp.Or(item.textOf("slug"), item.textOf("id")) }
	partials, err := a.list("/prompts/partials", query, name)
	if err != nil {
		return err
	}
	for _, item := range partials {
		partial, err := a.get("/prompts/partials/"+url.PathEscape(name(item)), nil)
		if err == nil {
			r.partial(partial)
		} else if !isStatus(err, aboutOne...) { // a template that has a missing partial tells that
			return err
		}
	}
	prompts, err := a.list("/prompts", query, name)
	if err != nil {
		return err
	}
	return a.each(prompts, name, func(_ node, name string) error { return r.fetchOne(a, name) })
}

// fetchOne reads the published version of a prompt, and with AllVersions the others.
func (r *portkey) fetchOne(a *account, name string) error {
	path := "/prompts/" + url.PathEscape(name)
	published, err := a.get(path, nil)
	if err != nil {
		return err
	}
	number := published.get("prompt_version").number()
	p := r.found.of(name)
	p.chosen = number
	r.prompt(name, published)
	versions, err := a.get(path+"/versions", nil)
	if err != nil {
		return err
	}
	for item := range versions.get("data").items() {
		other := item.get("prompt_version").number()
		if other == number {
			continue
		}
		if !r.options.AllVersions {
			p.unread = append(p.unread, numberOr(other, "without a number"))
			continue
		}
		if _, ok := stringOf(item); !ok {
			if item, err = a.get(path+"/versions/"+url.PathEscape(item.textOf("prompt_version_id")), nil); err != nil {
				return err
			}
		}
		r.prompt(name, item)
	}
	return nil
}
