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
	// maxTurns bounds how often a list that changes is read from its beginning.
	maxTurns = 50
)

// Elements yields the elements of a list, such as /presets, in the server's order. It reads
// page by page, and holds one page and the id of each element. An error ends it.
//
// Other clients may add, change and remove elements meanwhile. It then reads the list from its beginning,
// and yields what it has not yielded yet, so that an element that is there all the time comes once. The
// exception is a preset that is renamed in a list by name: it may be missing. An element without an id is
// known by its text.
func (c *Client) Elements(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		passed := make(map[string]struct{}) // the ids that were yielded
		count, offset, last := 0, 0, ""
		for turn := 0; turn < maxTurns; {
			page, total, err := c.page(ctx, path, query, offset)
			if err != nil {
				yield(nil, err)
				return
			}
			// A page begins with the last element of the one before. It is another one if elements in front
			// of it came or went, and an element that moves between both parts changes either that or the count.
			if offset > 0 && (total != count || idOf(page[0]) != last) {
				turn++
				offset = 0
				continue
			}
			for _, element := range page {
				last = idOf(element)
				if _, isPassed := passed[last]; isPassed {
					continue
				}
				passed[last] = struct{}{}
				if !yield(element, nil) {
					return
				}
			}
			if offset+len(page) >= total {
				return
			}
			count, offset = total, offset+len(page)-1
		}
		yield(nil, fmt.Errorf("the list of GET %s changes while it is read: try again when fewer changes are made", path))
	}
}

// page reads a page of a list. It also returns how many elements the list has.
func (c *Client) page(ctx context.Context, path string, query url.Values, offset int) (page []json.RawMessage, total int, err error) {
	paged := url.Values{"offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(pageSize)}}
	maps.Copy(paged, query)
	response, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Query: paged})
	if err != nil {
		return nil, 0, err
	}
	// A page and its count are of one moment. A server that lies would be read for ever.
	if err := json.Unmarshal(response.Data, &page); err != nil {
		return nil, 0, fmt.Errorf("the answer to GET %s is no page", path)
	}
	if len(page) != min(pageSize, max(0, response.Total-offset)) {
		return nil, 0, fmt.Errorf("the answer to GET %s has more or fewer elements than total_count tells", path)
	}
	return page, response.Total, nil
}

func idOf(element json.RawMessage) string {
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(element, &named) != nil || named.ID == "" {
		return string(element)
	}
	return named.ID
}

// Decoded decodes the elements of a list.
func Decoded[T any](list iter.Seq2[json.RawMessage, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for element, err := range list {
			var value T
			if err == nil {
				err = Decode(element, &value)
			}
			if !yield(value, err) {
				return
			}
		}
	}
}
