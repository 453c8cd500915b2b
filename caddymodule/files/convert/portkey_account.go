package convert

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
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
	partials, err := r.list(a, "/prompts/partials")
	if err != nil {
		return err
	}
	for _, name := range partials {
		partial, err := a.get(r.ctx, "/prompts/partials/"+url.PathEscape(name), nil)
		if err == nil {
			r.partial(partial)
		} else if !isAboutOne(err) {
			return err
		}
		// A template that has a missing partial tells that it is missing.
	}
	names, err := r.list(a, "/prompts")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.fetchOne(a, name); err != nil {
			if !isAboutOne(err) {
				return err
			}
			r.report.Entries = append(r.report.Entries, Entry{Kind: NotWritten, Prompt: name, Message: err.Error()})
		}
	}
	return nil
}

// list returns the slugs of a list, or the ids of what has none.
func (r *portkey) list(a *account, path string) (names []string, err error) {
	seen := make(map[string]bool)
	query := func(page int) url.Values {
		values := url.Values{"page_size": {strconv.Itoa(portkeyPage)}}
		if page > 0 {
			values.Set("current_page", strconv.Itoa(page))
		}
		return values
	}
	err = a.pages(r.ctx, path, "data", query, func(page node) node { return page.get("total") }, func(item node) bool {
		name := cmp.Or(item.textOf("slug"), item.textOf("id"))
		if name == "" || seen[name] {
			return false
		}
		seen[name] = true
		names = append(names, name)
		return true
	})
	return names, err
}

// fetchOne reads the published version of a prompt, and with AllVersions the others.
func (r *portkey) fetchOne(a *account, name string) error {
	path := "/prompts/" + url.PathEscape(name)
	published, err := a.get(r.ctx, path, nil)
	if err != nil {
		return err
	}
	number := published.get("prompt_version").number()
	r.found.of(name).chosen = number
	if !r.take() {
		return errTooManyPrompts
	}
	r.prompts = append(r.prompts, portkeyPrompt{name, published})
	versions, err := a.get(r.ctx, path+"/versions", nil)
	if err != nil {
		return err
	}
	var others []string
	for item := range versions.get("data").items() {
		if item.get("prompt_version").number() == number {
			continue
		}
		others = append(others, numberOr(item.get("prompt_version").number(), "without a number"))
		if !r.options.AllVersions {
			continue
		}
		if _, ok := stringOf(item); !ok {
			if item, err = a.get(r.ctx, path+"/versions/"+url.PathEscape(item.textOf("prompt_version_id")), nil); err != nil {
				return err
			}
		}
		if !r.take() {
			return errTooManyPrompts
		}
		r.prompts = append(r.prompts, portkeyPrompt{name, item})
	}
	if len(others) > 0 && !r.options.AllVersions {
		p := r.found.of(name)
		p.entries = append(p.entries, Entry{Kind: LeftOut, File: versions.file, Message: "other versions are not taken without --all-versions: " + files.ShortList(others)})
	}
	return nil
}
