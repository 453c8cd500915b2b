package caddymodule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// TestPages checks that all lists have the same paging.
func TestPages(t *testing.T) {
	s := start(t, standard)
	const rows = 103
	var wg sync.WaitGroup
	for _, list := range []func(i int) reply{
		func(int) reply { return s.manage("POST", "/v1/presets/many/responses", `{}`) },
		func(i int) reply {
			return s.manage("PUT", "/v1/presets/many/labels/a", fmt.Sprintf(`{"version":%d}`, i))
		},
		func(i int) reply { return s.manage("POST", fmt.Sprintf("/v1/presets/p%03d/responses", i), `{}`) },
		func(i int) reply {
			return s.manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"n","slug":"w%03d"}`, i))
		},
	} {
		for i := 1; i <= rows; i++ {
			wg.Go(func() {
				if r := list(i); r.status >= 300 {
					t.Errorf("got %d %s", r.status, r.body)
				}
			})
		}
		wg.Wait()
	}
	for list, total := range map[string]int{
		"/v1/presets": rows + 1, "/v1/workspaces": rows + 1, "/v1/presets/many/versions": rows,
	} {
		var all []string
		for offset := 0; offset < total; offset += 100 {
			all = append(all, s.page(fmt.Sprintf("%s?limit=100&offset=%d", list, offset)).names()...)
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(all))); len(all) != total || len(sorted) != total {
			t.Fatalf("%s: got %d rows, %d of them different, want %d", list, len(all), len(sorted), total)
		}
		for query, want := range map[string][]string{
			"":                                      all[:50],
			"?":                                     all[:50],
			"?offset=&limit=":                       all[:50],
			"?limit=50":                             all[:50],
			"?limit=1":                              all[:1],
			"?limit=100":                            all[:100],
			"?limit=100&offset=0":                   all[:100],
			"?offset=3&limit=4":                     all[3:7],
			"?offset=" + fmt.Sprint(total-1):        all[total-1:],
			"?offset=" + fmt.Sprint(total):          {},
			"?offset=2147483647":                    {},
			"?offset=9223372036854775807":           {},
			"?offset=9223372036854775806&limit=100": {},
			"?unknown=x&limit=1":                    all[:1],
		} {
			if got := s.page(list + query); got.Total != total || !slices.Equal(got.names(), want) {
				t.Errorf("%s%s: got %v of %d, want %v of %d", list, query, got.names(), got.Total, want, total)
			}
		}
	}
	var history struct {
		Data struct {
			Changes int `json:"history_count"`
			History []struct{ Number int }
		}
	}
	for query, want := range map[string][2]int{"": {rows, 50}, "?limit=1": {rows, 1}, "?offset=100": {3, 3}, "?offset=103": {0, 0}, "?offset=9223372036854775807": {0, 0}} {
		r := s.manage("GET", "/v1/presets/many/labels/a"+query, "")
		if err := json.Unmarshal([]byte(r.body), &history); err != nil {
			t.Fatal(err)
		}
		got := history.Data.History
		ok := r.status == 200 && history.Data.Changes == rows && len(got) == want[1] && got != nil
		for i, change := range got {
			ok = ok && change.Number == want[0]-i
		}
		if !ok {
			t.Errorf("history%s: got %d %s, want %d changes from %d down", query, r.status, r.body, want[1], want[0])
		}
	}
	for _, list := range []string{"/v1/presets", "/v1/workspaces", "/v1/presets/many/versions", "/v1/presets/many/labels/a"} {
		for query, place := range map[string]string{
			"limit=0": "limit", "limit=101": "limit", "limit=-1": "limit", "limit=x": "limit", "limit=1.0": "limit", "limit=1e1": "limit",
			"limit=9223372036854775808": "limit", "limit=%201": "limit", "limit=%2B1": "limit", "limit=0x1": "limit", "limit=1&limit=1": "limit", "limit=1&limit=": "limit", "limit=%D9%A1": "limit",
			"offset=-1": "offset", "offset=x": "offset", "offset=0.5": "offset", "offset=9223372036854775808": "offset", "offset=0&offset=0": "offset", "offset=null": "offset", "offset=%2B0": "offset",
			"offset=99999999999999999999": "offset", "offset=-1&limit=0": "offset", "offset=1%00": "offset", "limit=1;offset=1": "query",
		} {
			s.manage("GET", list+"?"+query, "").wantError(t, 400, "Invalid request parameters: "+place)
		}
	}
}

// TestOrderOfLists checks that presets are ordered by their latest change, and versions and
// workspaces by age.
func TestOrderOfLists(t *testing.T) {
	s := start(t, standard)
	for _, slug := range []string{"c", "a", "d", "b"} {
		s.manage("POST", "/v1/presets/"+slug+"/responses", `{}`).want(t, 200)
		s.manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"n","slug":%q}`, slug)).want(t, 201)
	}
	order := func(list string, want ...string) {
		t.Helper()
		got := s.page(list)
		if !slices.Equal(got.names(), want) || got.Total != len(want) {
			t.Errorf("%s: got %v of %d, want %v", list, got.names(), got.Total, want)
		}
	}
	order("/v1/presets", "b", "d", "a", "c")
	order("/v1/workspaces", "default", "c", "a", "d", "b")
	for _, change := range []struct {
		method, path, body string
		want               []string
	}{
		{"POST", "c/responses", `{}`, []string{"c", "b", "d", "a"}},
		{"POST", "a/designate", `{"version":1}`, []string{"c", "b", "d", "a"}}, // changes nothing
		{"PATCH", "a", `{"name":"A"}`, []string{"a", "c", "b", "d"}},
		{"PUT", "d/labels/l", `{"version":1}`, []string{"d", "a", "c", "b"}},
		{"POST", "c/designate", `{"version":1}`, []string{"c", "d", "a", "b"}},
		{"DELETE", "d/labels/l", ``, []string{"d", "c", "a", "b"}},
		{"PATCH", "b", `{"status":"disabled"}`, []string{"b", "d", "c", "a"}},
		{"DELETE", "d", ``, []string{"b", "c", "a"}}, // archived presets are not listed
		{"DELETE", "d", ``, []string{"b", "c", "a"}},
		{"PATCH", "b", `{"status":"active"}`, []string{"b", "c", "a"}},
		{"POST", "d/restore", ``, []string{"d", "b", "c", "a"}},
	} {
		if r := s.manage(change.method, "/v1/presets/"+change.path, change.body); r.status != 200 {
			t.Errorf("%s %s: got %d %s", change.method, change.path, r.status, r.body)
		}
		order("/v1/presets", change.want...)
		rows := s.page("/v1/presets").Data
		if !slices.IsSortedFunc(rows, func(a, b listRow) int { return b.UpdatedAt.Compare(a.UpdatedAt) }) {
			t.Errorf("the order is not by updated_at: %v", rows)
		}
	}
	order("/v1/presets/c/versions", "1", "2")
	s.manage("PATCH", "/v1/workspaces/a", `{"slug":"z"}`).want(t, 200)
	s.manage("DELETE", "/v1/workspaces/c", ``).want(t, 200)
	s.manage("POST", "/v1/workspaces", `{"name":"n","slug":"c"}`).want(t, 201)
	order("/v1/workspaces", "default", "z", "d", "b", "c")
	s.manage("DELETE", "/v1/workspaces/default?confirm_default_workspace_deletion=true", ``).want(t, 200)
	order("/v1/workspaces", "z", "d", "b", "c", "default")
	order("/v1/presets")
}
