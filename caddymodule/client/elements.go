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
	// maxTurns bounds how often a walk goes back or begins again because a list changes.
	maxTurns = 1000
)

// Elements yields the elements of a list, such as /presets, in the server's order. It reads
// page by page. It holds one page, and hashes of each element's id and text. An error ends it.
//
// Other clients may add, change and remove elements meanwhile. An element that is there all
// the time comes once. The exception is a preset that is renamed in a list by name: it may be
// missing. Elements that move to the front of the list come last. An element without an id is
// known by its text.
func (c *Client) Elements(ctx context.Context, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		w := walk{client: c, path: path, query: maps.Clone(query), seed: maphash.MakeSeed(), passed: make(hashes)}
		if w.query == nil {
			w.query = make(url.Values)
		}
		w.query.Set("limit", strconv.Itoa(pageSize))
		var read, before hashes // the texts of this walk, and those of the one before
		offset, back := 0, 0
		for turns := 0; turns < maxTurns; {
			page, total, err := w.read(ctx, offset)
			if err != nil {
				yield(nil, err)
				return
			}
			texts := w.texts(page)
			switch {
			case offset == 0:
				read = make(hashes)
			case len(texts) == 0 || !read.has(texts[0]):
				// Unread elements may be in front of the page. They are not if it begins with a
				// read one that has not moved. The text of one that moved is another.
				turns++
				back = max(pageSize/2, 2*back)
				offset = max(0, min(offset, total)-back)
				continue
			}
			back = 0
			if !w.pass(page, yield) {
				return
			}
			isEnd := offset+len(page) >= total
			for _, text := range texts {
				read[text] = struct{}{}
				isEnd = isEnd || before.has(text) // the walk before read what follows
			}
			switch {
			case isEnd && offset == 0:
				return
			case isEnd: // elements may have moved to the front
				turns++
				before, offset = read, 0
			default:
				offset += len(page) - 1
			}
		}
		yield(nil, fmt.Errorf("the list of GET %s changes while it is read: try again when fewer changes are made", path))
	}
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

// hashes is a set of hashes.
type hashes map[uint64]struct{}

func (h hashes) has(hash uint64) bool {
	_, ok := h[hash]
	return ok
}

// walk has what all walks over one list share.
type walk struct {
	client *Client
	path   string
	query  url.Values
	seed   maphash.Seed
	passed hashes // the ids that were yielded
}

// read reads a page. It also returns how many elements the list has.
func (w *walk) read(ctx context.Context, offset int) (page []json.RawMessage, total int, err error) {
	w.query.Set("offset", strconv.Itoa(offset))
	response, err := w.client.Do(ctx, Request{Method: http.MethodGet, Path: w.path, Query: w.query})
	if err != nil {
		return nil, 0, err
	}
	// A page and its count are of one moment. A server that lies would be read for ever.
	if err := json.Unmarshal(response.Data, &page); err != nil {
		return nil, 0, fmt.Errorf("the answer to GET %s is no page", w.path)
	}
	if len(page) != min(pageSize, max(0, response.Total-offset)) {
		return nil, 0, fmt.Errorf("the answer to GET %s has more or fewer elements than total_count tells", w.path)
	}
	return page, response.Total, nil
}

// texts returns the hash of each element's text.
func (w *walk) texts(page []json.RawMessage) []uint64 {
	texts := make([]uint64, len(page))
	for i, element := range page {
		texts[i] = maphash.Bytes(w.seed, element)
	}
	return texts
}

// pass yields the elements that were not yielded yet. It reports whether to go on.
func (w *walk) pass(page []json.RawMessage, yield func(json.RawMessage, error) bool) bool {
	for _, element := range page {
		var named struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(element, &named) != nil || named.ID == "" {
			named.ID = string(element)
		}
		hash := maphash.String(w.seed, named.ID)
		if w.passed.has(hash) {
			continue
		}
		w.passed[hash] = struct{}{}
		if !yield(element, nil) {
			return false
		}
	}
	return true
}
