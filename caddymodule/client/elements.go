package client

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

const (
	// pageSize is how many elements a page has, at most.
	pageSize = 100
	// maxBack bounds how often a walk goes back because elements were removed.
	maxBack = 1000
)

// Elements yields the elements of a list, such as /presets, in the server's order. It reads
// page by page. It holds one page, and a hash of each element's id. An error ends it.
//
// Other clients may change the list meanwhile. An element that is there all the time comes
// once. Elements leaves out those that it sees again, and goes back if some are removed. It
// ends with another look at the front of the list, where changed presets move to.
func (c *Client) Elements(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		w := walk{client: c, path: path, query: maps.Clone(query), seen: make(map[uint64]struct{}), seed: maphash.MakeSeed()}
		if w.query == nil {
			w.query = make(url.Values)
		}
		w.query.Set("limit", strconv.Itoa(pageSize))
		offset, back := 0, 0
		for isEnd := false; !isEnd; {
			page, removed, err := w.read(ctx, offset)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case removed > 0 && offset > 0:
				if back++; back > maxBack {
					yield(nil, fmt.Errorf("the list of GET %s changes while it is read: try again when fewer changes are made", path))
					return
				}
				offset -= min(removed, offset)
				continue
			}
			offset += len(page)
			isEnd = len(page) == 0 || offset >= w.total
			if _, goOn := w.pass(page, yield); !goOn {
				return
			}
		}
		for front := 0; offset > pageSize && front < w.total; front += pageSize {
			page, _, err := w.read(ctx, front)
			if err != nil {
				yield(nil, err)
				return
			}
			if isNew, goOn := w.pass(page, yield); !goOn || !isNew && w.count >= w.total {
				return
			}
		}
	}
}

// walk is a walk over a list.
type walk struct {
	client *Client
	path   string
	query  url.Values
	total  int // of the last page
	count  int // of the elements that were yielded
	seen   map[uint64]struct{}
	seed   maphash.Seed
}

// read reads a page. It also returns how many elements were removed since the last one.
func (w *walk) read(ctx context.Context, offset int) (page []json.RawMessage, removed int, err error) {
	w.query.Set("offset", strconv.Itoa(offset))
	answer, err := w.client.Do(ctx, Request{Method: http.MethodGet, Path: w.path, Query: w.query})
	if err != nil {
		return nil, 0, err
	}
	// A page and its count are of one moment. A server that lies would be read for ever.
	if err := json.Unmarshal(answer.Data, &page); err != nil {
		return nil, 0, fmt.Errorf("the answer to GET %s is no page", w.path)
	}
	if len(page) != min(pageSize, max(0, answer.Total-offset)) {
		return nil, 0, fmt.Errorf("the answer to GET %s has more or fewer elements than total_count tells", w.path)
	}
	removed, w.total = w.total-answer.Total, answer.Total
	return page, removed, nil
}

// pass yields the elements that are new. It reports whether there are some, and whether to go
// on. An element without an id is always new.
func (w *walk) pass(page []json.RawMessage, yield func(json.RawMessage, error) bool) (isNew, goOn bool) {
	for _, element := range page {
		var named struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(element, &named) == nil && named.ID != "" {
			hash := maphash.String(w.seed, named.ID)
			if _, isKnown := w.seen[hash]; isKnown {
				continue
			}
			w.seen[hash] = struct{}{}
		}
		isNew = true
		w.count++
		if !yield(element, nil) {
			return isNew, false
		}
	}
	return isNew, true
}
