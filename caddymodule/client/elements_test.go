package client_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// element is an element of a list. Its text changes when it moves, as that of a preset does.
type element struct {
	ID      string `json:"id"`
	Changes int    `json:"changes"`
}

// list answers with pages of a list that changes before each request.
type list struct {
	elements []element
	change   func(requests int, all []element) []element
	count    int             // of requests
	always   map[string]bool // the elements that each request found
}

func (l *list) RoundTrip(r *http.Request) (*http.Response, error) {
	l.count++
	if l.change != nil {
		l.elements = l.change(l.count, slices.Clone(l.elements))
	}
	now := make(map[string]bool)
	for _, e := range l.elements {
		now[e.ID] = l.count == 1 || l.always[e.ID]
	}
	l.always = now
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	page, err := json.Marshal(l.elements[min(offset, len(l.elements)):min(offset+limit, len(l.elements))])
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"data":%s,"total_count":%d}`, page, len(l.elements))
	return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
}

// read walks over the list. It checks that all elements that were there all the time come
// once, and no other twice. It returns the ids in the order in which they come.
func (l *list) read(t *testing.T) (ids []string) {
	t.Helper()
	c := client.Client{Origin: "http://server", Key: "k", Transport: l}
	times := make(map[string]int)
	for text, err := range c.Elements(t.Context(), "/presets", nil) {
		if err != nil {
			t.Fatal(err)
		}
		var e element
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		if times[e.ID]++; times[e.ID] > 1 {
			t.Errorf("element %s comes again", e.ID)
		}
		ids = append(ids, e.ID)
	}
	for id, isAlways := range l.always {
		if isAlways && times[id] == 0 {
			t.Errorf("element %s is missing", id)
		}
	}
	return ids
}

// numbers returns new elements.
func numbers(from, to int) (all []element) {
	for n := from; n < to; n++ {
		all = append(all, element{ID: strconv.Itoa(n)})
	}
	return all
}

// changed returns elements after another change.
func changed(elements ...element) []element {
	elements = slices.Clone(elements)
	for i := range elements {
		elements[i].Changes++
	}
	return elements
}

// TestElements bounds the requests of walks over lists that others change meanwhile.
func TestElements(t *testing.T) {
	for _, tc := range []struct {
		name     string
		count    int
		change   func(requests int, all []element) []element
		requests int // at most
	}{
		{"empty", 0, nil, 1},
		{"one page", 100, nil, 1},
		{"many pages", 2345, nil, 24},
		{"elements move to the front", 1000, func(requests int, all []element) []element {
			if requests > 5 {
				return all
			}
			return append(changed(all[len(all)-1]), all[:len(all)-1]...)
		}, 20},
		{"all change", 1000, func(_ int, all []element) []element { return changed(all...) }, 11},
		{"all are removed", 1000, func(requests int, all []element) []element {
			if requests > 3 {
				return nil
			}
			return all
		}, 5},
	} {
		l := &list{elements: numbers(0, tc.count), change: tc.change}
		l.read(t)
		if l.count > tc.requests {
			t.Errorf("%s: got %d requests, want at most %d", tc.name, l.count, tc.requests)
		}
	}
}

// TestElementsOfRandomLists walks over lists of each order. Before each request there are
// random changes, few or many.
func TestElementsOfRandomLists(t *testing.T) {
	for _, tc := range []struct {
		name string
		add  func(all []element, e element, random *rand.Rand) []element
		// move changes element i, and puts it where it is then.
		move func(all []element, i int) []element
	}{
		{
			"oldest first",
			func(all []element, e element, _ *rand.Rand) []element { return append(all, e) },
			func(all []element, i int) []element { return slices.Concat(all[:i], changed(all[i]), all[i+1:]) },
		},
		{
			"last change first",
			func(all []element, e element, _ *rand.Rand) []element { return append([]element{e}, all...) },
			func(all []element, i int) []element { return slices.Concat(changed(all[i]), all[:i], all[i+1:]) },
		},
		{
			"last change last",
			func(all []element, e element, _ *rand.Rand) []element { return append(all, e) },
			func(all []element, i int) []element { return slices.Concat(all[:i], all[i+1:], changed(all[i])) },
		},
		{
			"by slug",
			func(all []element, e element, random *rand.Rand) []element {
				return slices.Insert(all, random.IntN(len(all)+1), e)
			},
			func(all []element, i int) []element { return slices.Concat(all[:i], changed(all[i]), all[i+1:]) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(100 / tier.Sample(10)) {
				random := rand.New(rand.NewPCG(seed, 0))
				next := 150 + random.IntN(500)
				l := &list{elements: numbers(0, next)}
				l.change = func(_ int, all []element) []element {
					changes := max(0, random.IntN(16)-12)
					if changes > 0 && random.IntN(10) == 0 {
						changes = random.IntN(400)
					}
					for range changes {
						i := random.IntN(len(all) + 1)
						switch random.IntN(3) {
						case 0:
							all = tc.add(all, element{ID: strconv.Itoa(next)}, random)
							next++
						case 1:
							all = slices.Delete(all, min(i, len(all)), min(i+1, len(all)))
						case 2:
							if i < len(all) {
								all = tc.move(all, i)
							}
						}
					}
					return all
				}
				if l.read(t); t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		})
	}
}

// TestElementsOfRestlessList reads a list that gets a new first element before each request.
func TestElementsOfRestlessList(t *testing.T) {
	l := &list{elements: numbers(0, 150), change: func(n int, all []element) []element { return append(numbers(1000+n, 1001+n), all...) }}
	c := client.Client{Origin: "http://server", Key: "k", Transport: l}
	var last error
	for _, err := range c.Elements(t.Context(), "/presets", nil) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "changes while it is read") || l.count > 200 {
		t.Errorf("got %v after %d requests, want an error", last, l.count)
	}
}

// TestElementsStop checks that nothing is read that nobody wants, and that an error ends it.
func TestElementsStop(t *testing.T) {
	l := &list{elements: numbers(0, 1000)}
	c := client.Client{Origin: "http://server", Key: "k", Transport: l}
	var first []string
	for element := range c.Elements(t.Context(), "/presets", nil) {
		if first = append(first, string(element)); len(first) == 2 {
			break
		}
	}
	if !slices.Equal(first, []string{`{"id":"0","changes":0}`, `{"id":"1","changes":0}`}) || l.count != 1 {
		t.Errorf("got %v after %d requests", first, l.count)
	}
	c.Origin = "server"
	for element, err := range c.Elements(t.Context(), "/presets", nil) {
		if err == nil {
			t.Errorf("got %s and no error", element)
		}
	}
}

// TestTagBehindProxy reads an entity tag through a proxy that compresses as nginx does.
func TestTagBehindProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag, body := `"0123"`, io.Writer(w)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			tag = "W/" + tag
			w.Header().Set("Content-Encoding", "gzip")
			compressed := gzip.NewWriter(w)
			defer compressed.Close()
			body = compressed
		}
		w.Header().Set("ETag", tag)
		_, _ = io.WriteString(body, `{"data":{}}`)
	}))
	defer proxy.Close()
	c := client.Client{Origin: proxy.URL}
	response, err := c.Do(t.Context(), client.Request{Method: http.MethodGet, Path: "/presets/mail"})
	if err != nil || response.Tag() != `"0123"` {
		t.Errorf("got %+v, %v, want a strong tag", response, err)
	}
}

// TestElementsOfLyingServer reads a list whose server says that it has more elements than its
// pages have.
func TestElementsOfLyingServer(t *testing.T) {
	count := 0
	c := client.Client{Origin: "http://server", Key: "k", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		if count++; count > 1000 {
			t.Fatal("the list is read for ever")
		}
		body := fmt.Sprintf(`{"data":[{"id":"%d"}],"total_count":1000000000}`, count)
		return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
	})}
	var last error
	for _, err := range c.Elements(t.Context(), "/presets", nil) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "fewer elements than total_count tells") {
		t.Errorf("got %v, want an error", last)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
