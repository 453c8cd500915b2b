package caddymodule

import (
	"slices"
	"strings"
	"testing"
)

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
		"sort=created":                  "sort: must be updated, name or slug",
		"sort=":                         "sort: must not be empty",
		"sort=name&sort=name":           "sort: given more than once",
		"order=up":                      "order: must be asc or desc",
		"order=":                        "order: must not be empty",
		"status=live":                   "status: must be active, disabled, archived or all",
	} {
		s.manage("GET", "/v1/presets?"+query, "").wantError(t, 400, "Invalid request parameters: "+says)
	}
}
