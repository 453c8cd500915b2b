// Package query reads the parameters of a query. Its errors name the parameter.
package query

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Query has the values of each parameter. It is read by several goroutines at once, unless one changes it.
type Query map[string][]string

// Only returns a parameter of the query, "" if it is absent. It must not be empty or
// given twice.
func (q Query) Only(name string) (string, error) {
	return domain.OnlyValue(name, q[name])
}

// Word is Only for a parameter that is one of some words. It returns one of them, and not
// the request's text.
func (q Query) Word(name string, words ...string) (string, error) {
	text, err := q.Only(name)
	if err != nil || text == "" {
		return "", err
	}
	if at := slices.Index(words, text); at >= 0 {
		return words[at], nil
	}
	last := len(words) - 1
	return "", domain.InvalidAt(name, "must be "+strings.Join(words[:last], ", ")+" or "+words[last])
}

// Flag is Only for a parameter that is true or false, nil if it is absent.
func (q Query) Flag(name string) (*bool, error) {
	word, err := q.Word(name, "true", "false")
	if err != nil || word == "" {
		return nil, err
	}
	return new(word == "true"), nil
}

// Page reads offset and limit, whose default is given. Both may be empty, since clients send
// them so.
func (q Query) Page(size int) (page domain.Page, err error) {
	if page.Offset, err = q.number("offset", 0, 0, math.MaxInt, "an integer of at least 0"); err != nil {
		return page, err
	}
	page.Limit, err = q.number("limit", size, 1, domain.MaxPage, "an integer from 1 to "+strconv.Itoa(domain.MaxPage))
	return page, err
}

// number is Only for a number. The rule says which.
func (q Query) number(name string, otherwise, least, most int, rule string) (int, error) {
	if given := q[name]; len(given) == 0 || len(given) == 1 && given[0] == "" {
		return otherwise, nil
	}
	text, err := q.Only(name)
	if err != nil {
		return 0, err
	}
	n, ok := domain.ParseNumber(text)
	if !ok || n < least || n > most {
		return 0, domain.InvalidAt(name, "must be "+rule)
	}
	return n, nil
}
