package client_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
)

// list answers with pages of a list that changes between two requests.
type list struct {
	ids    []int
	change func(requests int, ids []int) []int
	count  int // of requests
}

func (l *list) RoundTrip(r *http.Request) (*http.Response, error) {
	l.count++
	if l.change != nil {
		l.ids = l.change(l.count, l.ids)
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	var elements []string
	for _, id := range l.ids[min(offset, len(l.ids)):min(offset+limit, len(l.ids))] {
		elements = append(elements, fmt.Sprintf(`{"id":"%d"}`, id))
	}
	body := fmt.Sprintf(`{"data":[%s],"total_count":%d}`, strings.Join(elements, ","), len(l.ids))
	return &http.Response{StatusCode: 200, Status: "200 OK", Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
}

func numbers(from, to int) (all []int) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// TestElements walks over lists that others change meanwhile. All elements that were there
// all the time come once.
func TestElements(t *testing.T) {
	for _, tc := range []struct {
		name   string
		count  int
		change func(requests int, ids []int) []int
		gone   int // these first elements may be missing
	}{
		{"empty", 0, nil, 0},
		{"one page", 100, nil, 0},
		{"many pages", 2345, nil, 0},
		{"elements move to the front", 1000, func(requests int, ids []int) []int {
			last := ids[len(ids)-1]
			if requests > 5 {
				return ids
			}
			return append([]int{last}, ids[:len(ids)-1]...)
		}, 0},
		{"an element moves to the front, and then others before it", 1000, func(requests int, ids []int) []int {
			if requests != 4 {
				return ids
			}
			return slices.Concat(ids[:150], ids[999:], ids[150:999])
		}, 0},
		{"new elements in front", 1000, func(requests int, ids []int) []int { return append([]int{10_000 + requests}, ids...) }, 0},
		{"the first are removed", 1000, func(requests int, ids []int) []int {
			if requests > 1 && requests < 20 {
				return ids[3:]
			}
			return ids
		}, 60},
		{"all are removed", 1000, func(requests int, ids []int) []int {
			if requests > 3 {
				return nil
			}
			return ids
		}, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &list{ids: numbers(0, tc.count), change: tc.change}
			c := client.Client{Origin: "http://server", Key: "k", Transport: l}
			seen := make(map[string]int)
			for element, err := range c.Elements(t.Context(), "/presets", nil) {
				if err != nil {
					t.Fatal(err)
				}
				var one struct{ ID string }
				if err := json.Unmarshal(element, &one); err != nil {
					t.Fatal(err)
				}
				seen[one.ID]++
			}
			for n := range tc.count {
				if times := seen[strconv.Itoa(n)]; times > 1 || times == 0 && n >= tc.gone {
					t.Errorf("element %d comes %d times", n, times)
				}
			}
			if want := tc.count/100 + 40; l.count > want {
				t.Errorf("got %d requests, want at most %d", l.count, want)
			}
		})
	}
}

// TestElementsStop checks that nothing is read that nobody wants, and that an error ends it.
func TestElementsStop(t *testing.T) {
	l := &list{ids: numbers(0, 1000)}
	c := client.Client{Origin: "http://server", Key: "k", Transport: l}
	var first []string
	for element := range c.Elements(t.Context(), "/presets", nil) {
		if first = append(first, string(element)); len(first) == 2 {
			break
		}
	}
	if !slices.Equal(first, []string{`{"id":"0"}`, `{"id":"1"}`}) || l.count != 1 {
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
	answer, err := c.Do(t.Context(), client.Request{Method: http.MethodGet, Path: "/presets/mail"})
	if err != nil || answer.Tag() != `"0123"` {
		t.Errorf("got %+v, %v, want a strong tag", answer, err)
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
