package caddymodule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// page is a page of any list.
type page struct {
	Data  []listRow
	Total int `json:"total_count"`
}

// listRow has the fields that identify and order a list's rows.
type listRow struct {
	Slug      string
	Version   int
	UpdatedAt time.Time `json:"updated_at"`
	CreatedAt time.Time `json:"created_at"`
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

// TestOrderOfLists checks that presets are ordered by their latest change, and versions and workspaces by
// age.
func TestOrderOfLists(t *testing.T) {
	s := start(t, standard)
	for _, slug := range []string{"c", "a", "b"} {
		s.manage("POST", "/v1/presets/"+slug+"/responses", `{}`).want(t, 200)
		s.manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"n","slug":%q}`, slug)).want(t, 201)
	}
	s.manage("POST", "/v1/presets/a/designate", `{"version":1}`).want(t, 200) // changes nothing
	s.manage("PUT", "/v1/presets/c/labels/l", `{"version":1}`).want(t, 200)
	s.manage("POST", "/v1/presets/c/responses", `{}`).want(t, 200)
	for list, want := range map[string]string{"/v1/presets": "c b a", "/v1/workspaces": "default c a b", "/v1/presets/c/versions": "1 2"} {
		if got := strings.Join(s.page(list).names(), " "); got != want {
			t.Errorf("%s: got %s, want %s", list, got, want)
		}
	}
}
