package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

const (
	// pageSize is how many elements a page has, at most.
	pageSize = 100
	// maxRecent is how many elements a walk over a list remembers.
	maxRecent = 1000
)

// Elements yields the elements of a list, such as /presets, in the server's order. It reads
// page by page, and holds one page at a time. An error ends it.
//
// Other clients may change the list meanwhile. An element that moves to a later page is
// yielded once, if it has an id and moves by less than 900 places. If elements are
// removed, Elements goes back by their number, so that it misses none of those that follow.
func (c *Client) Elements(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = make(url.Values)
		}
		query.Set("limit", strconv.Itoa(pageSize))
		var seen recent
		for offset, total := 0, 0; ; {
			query.Set("offset", strconv.Itoa(offset))
			answer, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
			if err != nil {
				yield(nil, err)
				return
			}
			if removed := total - answer.Total; removed > 0 && offset > 0 {
				total = answer.Total
				offset -= min(removed, offset, maxRecent-pageSize)
				continue
			}
			total = answer.Total
			var page []json.RawMessage
			if err := json.Unmarshal(answer.Data, &page); err != nil {
				yield(nil, fmt.Errorf("the answer to GET %s is no page", path))
				return
			}
			for _, element := range page {
				if seen.add(element) && !yield(element, nil) {
					return
				}
			}
			if offset += len(page); len(page) == 0 || offset >= total {
				return
			}
		}
	}
}

// recent remembers the ids of the last maxRecent elements.
type recent struct {
	ids  map[string]bool
	ring []string
	next int
}

// add remembers an element, and reports whether it is new. One without an id always is.
func (r *recent) add(element json.RawMessage) bool {
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(element, &named) != nil || named.ID == "" {
		return true
	}
	if r.ids == nil {
		r.ids, r.ring = make(map[string]bool, maxRecent), make([]string, maxRecent)
	}
	if r.ids[named.ID] {
		return false
	}
	delete(r.ids, r.ring[r.next])
	r.ids[named.ID], r.ring[r.next] = true, named.ID
	r.next = (r.next + 1) % maxRecent
	return true
}
