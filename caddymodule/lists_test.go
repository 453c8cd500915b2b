package caddymodule

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// page is a page of any list.
type page struct {
	Data  []listRow
	Total int `json:"total_count"`
}

// listRow has the fields that identify a list's rows.
type listRow struct {
	Slug    string
	Version int
}

func (s *server) page(path string, headers ...string) (p page) {
	s.t.Helper()
	r := s.manage("GET", path, "", headers...)
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != 200 || p.Data == nil {
		s.t.Fatalf("%s: got %d %s", path, r.status, r.body)
	}
	return p
}

// names returns the identifiers of a page's rows.
func (p page) names() []string {
	names := []string{}
	for _, row := range p.Data {
		name := row.Slug
		if name == "" {
			name = strconv.Itoa(row.Version)
		}
		names = append(names, name)
	}
	return names
}

// TestPages checks that all lists have the same paging. TestQueries sends malformed numbers.
func TestPages(t *testing.T) {
	s := start(t, standard)
	const rows = 103
	var wg sync.WaitGroup
	for i := 1; i <= rows; i++ {
		wg.Go(func() {
			s.manage("POST", "/v1/presets/many/responses", `{}`).want(t, 200)
			s.manage("POST", fmt.Sprintf("/v1/presets/p%03d/responses", i), `{}`).want(t, 200)
			s.manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"n","slug":"w%03d"}`, i)).want(t, 201)
		})
	}
	wg.Wait()
	for list, total := range map[string]int{"/v1/presets": rows + 1, "/v1/workspaces": rows + 1, "/v1/presets/many/versions": rows} {
		var all []string
		for offset := 0; offset < total; offset += 100 {
			all = append(all, s.page(fmt.Sprintf("%s?limit=100&offset=%d", list, offset)).names()...)
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(all))); len(all) != total || len(sorted) != total {
			t.Fatalf("%s: got %d rows, %d of them different, want %d", list, len(all), len(sorted), total)
		}
		for query, want := range map[string][]string{
			"":                                      all[:50],
			"?offset=&limit=":                       all[:50],
			"?limit=1":                              all[:1],
			"?offset=3&limit=4":                     all[3:7],
			"?offset=" + fmt.Sprint(total-1):        all[total-1:],
			"?offset=" + fmt.Sprint(total):          {},
			"?offset=9223372036854775806&limit=100": {},
		} {
			if got := s.page(list + query); got.Total != total || !slices.Equal(got.names(), want) {
				t.Errorf("%s%s: got %v of %d, want %v of %d", list, query, got.names(), got.Total, want, total)
			}
		}
		s.manage("GET", list+"?limit=0", "").wantError(t, 400, "Invalid request parameters: limit")
		s.manage("GET", list+"?limit=101", "").wantError(t, 400, "Invalid request parameters: limit")
	}
	for n := range 3 {
		s.manage("PUT", "/v1/presets/many/labels/a", fmt.Sprintf(`{"version":%d}`, n+1)).want(t, 200)
	}
	s.manage("GET", "/v1/presets/many/labels/a?offset=1&limit=1", "").want(t, 200, `"history":[{"number":2,`, `"history_count":3`)
}

// The list of presets is searched and sorted as the query says.
func TestPresetSearch(t *testing.T) {
	s := start(t, standard)
	for _, slug := range []string{"b", "a", "C", "off", "gone"} {
		s.manage("POST", "/v1/presets/"+slug+"/responses", `{}`).want(t, 200)
	}
	s.manage("PATCH", "/v1/presets/a", `{"name":"Zebra","description":"Grüße"}`).want(t, 200)
	s.manage("PATCH", "/v1/presets/off", `{"status":"disabled"}`).want(t, 200)
	s.manage("DELETE", "/v1/presets/gone", "").want(t, 200)
	for query, want := range map[string]string{
		"":                                "off a C b",
		"order=asc":                       "b C a off",
		"sort=updated&order=desc":         "off a C b",
		"sort=slug&order=asc":             "C a b off",
		"sort=slug":                       "off b a C",
		"sort=name&order=asc":             "b C off a",
		"sort=name&order=asc&status=all":  "b C gone off a",
		"sort=name&offset=1&limit=2":      "off C",
		"q=":                              "off a C b",
		"q=GR%C3%9C":                      "a",
		"q=zeb":                           "a",
		"q=c":                             "C",
		"q=o":                             "off",
		"q=O&status=all&sort=slug":        "off gone",
		"q=o&status=archived":             "gone",
		"status=disabled":                 "off",
		"q=absent":                        "",
		"q=%20":                           "",
		"status=active&order=asc&limit=2": "b C",
	} {
		path := "/v1/presets?" + query
		page := s.page(path)
		if got := strings.Join(page.names(), " "); got != want || !strings.Contains(query, "limit") && page.Total != len(page.Data) {
			t.Errorf("%s: got %s of %d, want %s", query, got, page.Total, want)
		}
		first := s.manage("GET", path, "")
		s.manage("GET", path, "", "If-None-Match: "+first.header.Get("ETag")).want(t, 304)
	}
	if page := s.page("/v1/presets?sort=name&offset=1&limit=2"); page.Total != 4 || !slices.Equal(page.names(), []string{"off", "C"}) {
		t.Errorf("got %v", page)
	}
	for query, says := range map[string]string{
		"q=a&q=b":                       "q: given more than once",
		"q=%FF":                         "q: must be UTF-8 of at most 256 characters",
		"q=" + strings.Repeat("x", 257): "q: must be UTF-8 of at most 256 characters",
		"sort=created":                  "sort: must be updated, name, slug, use or errors",
		"sort=":                         "sort: must not be empty",
		"sort=name&sort=name":           "sort: given more than once",
		"order=up":                      "order: must be asc or desc",
		"order=":                        "order: must not be empty",
		"status=live":                   "status: must be active, disabled, archived or all",
	} {
		s.manage("GET", "/v1/presets?"+query, "").wantError(t, 400, "Invalid request parameters: "+says)
	}
}

// TestLargePages requests large pages from a client that does not read. Other large pages
// do not fit into memory until it leaves or times out.
func TestLargePages(t *testing.T) {
	tier.Slow(t)
	const room = 20 << 20
	if !versionPages.TryAcquire(maxVersionPages - room) {
		t.Fatal("pages of other tests are still being sent")
	}
	t.Cleanup(func() { versionPages.Release(maxVersionPages - room) })
	s := start(t, standard)
	prompt := strings.Repeat("x", 200<<10)
	for range 60 {
		s.manage("POST", "/v1/presets/p/responses", `{"model":"acme/large","instructions":"`+prompt+`"}`).want(t, 200)
	}
	const page = "/v1/presets/p/versions?limit=100"
	open := func() net.Conn {
		t.Helper()
		conn := s.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", page, inferenceSecret)
		return conn
	}
	held := func() bool { // the memory of the client that does not read
		free := versionPages.TryAcquire(room)
		if free {
			versionPages.Release(room)
		}
		return !free
	}
	slow := open()
	if !s.eventually(held) {
		t.Fatal("a page that is not read keeps no room")
	}
	s.manage("GET", page, "").want(t, 503, "Service temporarily unavailable")
	s.manage("GET", "/v1/presets/p/versions?limit=1", "").want(t, 200) // the memory is free
	slow.Close()
	if !s.eventually(func() bool { return !held() }) {
		t.Fatal("a client that left keeps its room")
	}
	s.manage("GET", page, "").want(t, 200, prompt)

	s.handler().deadlines.Body = 100 * time.Millisecond
	slow = open()
	defer slow.Close()
	if !s.eventually(func() bool { return !held() }) {
		t.Error("a client that takes too long keeps its room")
	}
}
