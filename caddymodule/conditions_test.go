package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// tag returns the entity tag of an answer, with its quotes.
func (r reply) tag(t *testing.T) string {
	t.Helper()
	tag := r.header.Get("ETag")
	if len(r.header.Values("ETag")) != 1 || !tags.MatchString(tag) || len(tag) != 34 {
		t.Errorf("got status %d with ETag %q, want one strong tag of 32 hexadecimal digits", r.status, r.header.Values("ETag"))
	}
	return tag
}

const otherTag = `"0123456789abcdef0123456789abcdef"`

// TestEntityTags checks that every answer with a state has an entity tag, also that of HEAD. The golden files
// show that a change has the tag of the next GET.
func TestEntityTags(t *testing.T) {
	s := start(t, standard)
	const preset, label, workspace = "/v1/presets/p", "/v1/presets/p/labels/a", "/v1/workspaces/team"
	s.manage("POST", preset+"/responses", `{"top_k":1}`).want(t, 200)
	s.manage("POST", preset+"/responses", `{"top_k":2}`).want(t, 200)
	s.manage("PUT", label, `{"version":1}`).want(t, 200)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	for _, path := range []string{
		preset, preset + "/versions", preset + "/versions/1", preset + "/diff?from=1&to=2", label, workspace, "/v1/presets", "/v1/presets?offset=9", "/v1/workspaces?limit=1",
	} {
		get, head := s.manage("GET", path, ""), s.manage("HEAD", path, "")
		if get.tag(t) != head.tag(t) || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(get.body)) || s.manage("GET", path, "").tag(t) != get.tag(t) {
			t.Errorf("%s: HEAD gives %v and %q, want GET's headers %v alone", path, head.header, head.body, get.header)
		}
	}
	// Failed requests and removed objects have no entity tag.
	for _, r := range []reply{
		s.manage("GET", "/v1/presets/absent", ""), s.manage("GET", "/v1/presets/p/versions/x", ""), s.manage("GET", "/v1/presets?limit=0", ""), s.manage("DELETE", preset, ""),
	} {
		if got := r.header.Get("ETag"); got != "" {
			t.Errorf("got ETag %s with %d %s", got, r.status, r.body)
		}
	}
}

func TestConditionsOfReads(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	s.manage("PUT", "/v1/presets/p/labels/a", `{"version":1}`).want(t, 200)
	for _, path := range []string{"/v1/presets/p", "/v1/presets", "/v1/presets/p/versions", "/v1/presets/p/versions/1", "/v1/presets/p/labels/a", "/v1/presets/p/diff?from=1&to=a", "/v1/workspaces", "/v1/workspaces/default"} {
		tag := s.manage("GET", path, "").tag(t)
		bare := strings.Trim(tag, `"`)
		for _, tc := range []struct {
			condition string
			status    int
		}{
			{"If-None-Match: " + tag, 304},
			{"If-None-Match: W/" + tag, 304}, // the comparison is weak here
			{"If-None-Match: *", 304},
			{"If-None-Match: " + otherTag, 200},
			{"If-None-Match: " + otherTag + ", " + tag, 304},
			{"If-None-Match: " + otherTag + " ,\t" + tag + " ", 304},
			{"If-None-Match: , " + tag + ",,", 304},
			{`If-None-Match: "` + bare + `-gzip"`, 304},
			{`If-None-Match: "` + bare + `-zstd"`, 304},
			{`If-None-Match: W/"` + bare + `-br"`, 304},
			{`If-None-Match: "` + strings.ToUpper(bare) + `"`, 200},
			{`If-None-Match: "` + bare[:31] + `"`, 200},
			{`If-None-Match: ""`, 200},
			{`If-None-Match: "a,b", "é"`, 200},
			{"If-None-Match: " + bare, 400},
			{`If-None-Match: "` + bare, 400},
			{"If-None-Match: " + bare + `"`, 400},
			{"If-None-Match: w/" + tag, 400},
			{"If-None-Match: *, " + tag, 400},
			{"If-None-Match: " + tag + ", *", 400},
			{"If-None-Match: " + tag + " " + tag, 400},
			{"If-None-Match: ", 400},
			{"If-None-Match: ,", 400},
			{"If-Match: " + tag, 200},
			{"If-Match: *", 200},
			{"If-Match: " + otherTag + ", " + tag, 200},
			{`If-Match: "` + bare + `-gzip"`, 200},
			{"If-Match: W/" + tag, 412}, // strong comparison
			{"If-Match: W/" + tag + ",", 412},
			{"If-Match: " + otherTag, 412},
			{"If-Match: x", 400},
			{"If-Match: ", 400},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				r := s.manage(method, path, "", tc.condition)
				if r.status != tc.status {
					t.Errorf("%s %s with %s: got %d %s, want %d", method, path, tc.condition, r.status, r.body, tc.status)
				}
				switch {
				case r.status == 304 && (r.body != "" || r.tag(t) != tag || r.header.Get("Content-Type") != ""):
					t.Errorf("%s %s with %s: got %v and %q, want the tag alone", method, path, tc.condition, r.header, r.body)
				case r.status == 400 && method == "GET":
					header, _, _ := strings.Cut(strings.ToLower(tc.condition), ":")
					r.wantError(t, 400, "Invalid request parameters: "+header+": must be")
				case r.status == 412 && method == "GET":
					r.wantError(t, 412, "Precondition failed")
				}
			}
		}
		// Several lines form one list (RFC 9110, 5.3). If-Match is evaluated first.
		s.manage("GET", path, "", "If-None-Match: "+otherTag, "If-None-Match: "+tag).want(t, 304)
		s.manage("GET", path, "", "If-None-Match: *", "If-None-Match: *").want(t, 400)
		s.manage("GET", path, "", "If-None-Match: "+tag, "If-Match: "+otherTag).want(t, 412)
		s.manage("GET", path, "", "If-None-Match: "+tag, "If-Match: "+tag).want(t, 304)
	}
	// A missing object has no state, so conditions on it do not apply.
	for _, condition := range []string{"If-Match: *", "If-None-Match: *", "If-None-Match: " + otherTag} {
		s.manage("GET", "/v1/presets/absent", "", condition).wantError(t, 404, "Preset not found")
	}
}

// TestConditionsOfPages checks that a page's tag depends only on the page's rows and not on
// others.
func TestConditionsOfPages(t *testing.T) {
	s := start(t, standard)
	for _, slug := range []string{"a", "b"} {
		s.manage("POST", "/v1/presets/"+slug+"/responses", `{}`).want(t, 200)
	}
	newest := s.manage("GET", "/v1/presets?limit=1", "")
	s.manage("GET", "/v1/presets?limit=1&offset=1", "", "If-None-Match: "+newest.tag(t)).want(t, 200, `"slug":"a"`)
	s.manage("PATCH", "/v1/presets/b", `{"name":"B"}`).want(t, 200)
	s.manage("GET", "/v1/presets?limit=1", "", "If-None-Match: "+newest.tag(t)).want(t, 200, `"name":"B"`)
	empty := s.manage("GET", "/v1/presets?offset=5", "")
	s.manage("POST", "/v1/presets/c/responses", `{}`).want(t, 200)
	s.manage("GET", "/v1/presets?offset=5", "", "If-None-Match: "+empty.tag(t)).want(t, 200, `"total_count":3`)
}

// TestConditionsOfChanges sends conditional changes. A change is made only if its condition
// holds.
func TestConditionsOfChanges(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	f := &fixtures{s: s}
	for route, r := range matrix {
		method, path, _ := strings.Cut(route, " ")
		if method == "GET" || r.exists.status >= 300 || isOfKeys(path) { // a taken slug, and feedback
			continue
		}
		t.Run(route, func(t *testing.T) {
			preset, workspace := f.preset(r.archived), f.workspace()
			object := "/v1/presets/" + preset
			switch {
			case strings.HasPrefix(path, "workspaces"):
				object = "/v1/workspaces/" + workspace
			case strings.Contains(path, "/labels/"):
				object += "/labels/one"
			case strings.Contains(path, "/inputs/"):
				object += "/inputs/" + s.inputOf(preset)
			}
			state := func() string { // of every object that the change could touch
				return s.manage("GET", object, "").body + s.manage("GET", "/v1/presets/"+preset, "").body + fmt.Sprint(s.changesRecorded())
			}
			change := func(headers ...string) reply {
				f.n++
				return s.manage(method, "/v1/"+f.fill(r.exists.path, preset, workspace), f.fill(r.exists.body, preset, workspace), headers...)
			}
			before := state()
			if r.archived { // clients see no state of these, so they have no tag
				change("If-Match: *").wantError(t, 412, "Precondition failed")
				change("If-Match: "+otherTag).wantError(t, 412, "Precondition failed")
				if after := state(); after != before {
					t.Errorf("a change was made though its condition failed:\n%s\n%s", before, after)
				}
				change("If-None-Match: *").want(t, 200)
				return
			}
			tag := s.manage("GET", object, "").tag(t)
			bare := strings.Trim(tag, `"`)
			for _, fails := range []string{"If-Match: " + otherTag, "If-Match: W/" + tag, `If-Match: ""`, "If-None-Match: *", "If-None-Match: " + tag, "If-None-Match: W/" + tag, `If-None-Match: "` + bare + `-gzip"`, "If-None-Match: " + otherTag + ", " + tag} {
				change(fails).wantError(t, 412, "Precondition failed")
			}
			change("If-Match: "+tag, "If-None-Match: "+tag).wantError(t, 412, "Precondition failed")
			for _, malformed := range []string{"If-Match: x", "If-Match: ", "If-None-Match: " + bare, "If-None-Match: *,*"} {
				change(malformed).wantError(t, 400, "Invalid request parameters: if-")
			}
			if after := state(); after != before {
				t.Errorf("a change was made though its condition failed:\n%s\n%s", before, after)
			}
			for _, holds := range []string{"If-Match: " + otherTag + ", %s", "If-Match: %s", "If-None-Match: " + otherTag, "If-Match: *"} {
				condition := strings.ReplaceAll(holds, "%s", s.manage("GET", object, "").tag(t))
				if got := change(condition); got.status != r.exists.status {
					t.Errorf("with %s: got %d %s, want %d", condition, got.status, got.body, r.exists.status)
				}
				if method == "DELETE" {
					return
				}
			}
		})
	}
	s.manage("POST", "/v1/presets/absent/responses", `{}`, "If-Match: *").wantError(t, 412, "Precondition failed")
	s.manage("POST", "/v1/workspaces", `{"name":"n","slug":"absent"}`, "If-Match: *").wantError(t, 412, "Precondition failed")
	// A missing object gets 404, with any condition.
	for _, r := range []reply{
		s.manage("PATCH", "/v1/presets/absent", `{}`, "If-Match: *"),
		s.manage("DELETE", "/v1/presets/absent", ``, "If-Match: "+otherTag),
		s.manage("PATCH", "/v1/workspaces/absent", `{}`, "If-Match: *"),
		s.manage("DELETE", "/v1/workspaces/absent", ``, "If-None-Match: *"),
	} {
		r.want(t, 404)
	}
}

// TestLabelsOnConditionOfTheirPreset changes labels on the condition that their preset is
// unchanged.
func TestLabelsOnConditionOfTheirPreset(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	const preset, label = "/v1/presets/p", "/v1/presets/p/labels/a"
	stale := s.manage("GET", preset, "").tag(t)
	s.manage("PUT", label, `{"version":1}`, "If-Match: *").wantError(t, 412, "Precondition failed")
	s.manage("PUT", label, `{"version":1}`, "If-None-Match: *").want(t, 200, `"version":1`)
	s.manage("PUT", label, `{"version":2}`, "If-None-Match: *").wantError(t, 412, "Precondition failed")
	s.manage("PUT", label, `{"version":2}`, "If-Match: "+stale).wantError(t, 412, "Precondition failed")
	s.manage("PUT", label, `{"version":2}`, "If-Match: "+s.manage("GET", preset, "").tag(t)).want(t, 200, `"version":2`)
	s.manage("DELETE", label, ``, "If-Match: "+s.manage("GET", preset, "").tag(t)).want(t, 200, `{"deleted":true}`)
	s.manage("DELETE", label, ``, "If-Match: *").wantError(t, 404, "Label not found")
}

// TestOneOfManyCreates sends creations with If-None-Match: * from many clients. One
// succeeds, and nothing else changes.
func TestOneOfManyCreates(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/labelled/responses", `{}`).want(t, 200)
	for _, tc := range []struct{ method, path, body, count, want string }{
		{"POST", "/v1/presets/hot/responses", `{}`, "/v1/presets/hot/versions", `"total_count":1`},
		{"PUT", "/v1/presets/labelled/labels/hot", `{"version":1}`, "/v1/presets/labelled/labels/hot", `"history_count":1`},
	} {
		var (
			wg       sync.WaitGroup
			mu       sync.Mutex
			statuses = map[int]int{}
		)
		for range 64 {
			wg.Go(func() {
				r := s.manage(tc.method, tc.path, tc.body, "If-None-Match: *")
				mu.Lock()
				defer mu.Unlock()
				statuses[r.status]++
			})
		}
		wg.Wait()
		if statuses[200] != 1 || statuses[412] != 63 {
			t.Errorf("%s %s: got statuses %v, want one 200 and 63 of 412", tc.method, tc.path, statuses)
		}
		s.manage("GET", tc.count, "").want(t, 200, tc.want)
	}
}

// TestConditionsBehindEncode runs Caddy's encode handler, which compresses answers and
// changes their tags. The changed tags work as conditions of reads and of changes.
func TestConditionsBehindEncode(t *testing.T) {
	s := start(t, standard)
	s.reloadBehind("encode gzip {\nminimum_length 1\n}", standard)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	plain := s.manage("GET", "/v1/presets/p", "", "Accept-Encoding: identity").tag(t)
	const path = "/v1/presets/p"
	gzip := s.manage("GET", path, "", "Accept-Encoding: gzip")
	marked := gzip.header.Get("ETag")
	if gzip.header.Get("Content-Encoding") != "gzip" || marked != strings.TrimSuffix(plain, `"`)+`-gzip"` {
		t.Fatalf("got Content-Encoding %q and ETag %s, want gzip and the marked tag of %s", gzip.header.Get("Content-Encoding"), marked, plain)
	}
	for _, tag := range []string{marked, plain} {
		for _, coding := range []string{"gzip", "identity"} {
			r := s.manage("GET", path, "", "If-None-Match: "+tag, "Accept-Encoding: "+coding)
			if r.status != http.StatusNotModified || r.body != "" {
				t.Errorf("with %s and %s: got %d and %q, want 304", tag, coding, r.status, r.body)
			}
		}
	}
	r := s.manage("PATCH", path, `{"name":"1"}`, "If-Match: "+marked, "Accept-Encoding: gzip")
	r.want(t, 200)
	s.manage("PATCH", path, `{"name":"2"}`, "If-Match: "+marked, "Accept-Encoding: gzip").want(t, 412)
	s.manage("PATCH", path, `{"name":"2"}`, "If-Match: "+r.header.Get("ETag")).want(t, 200)
}
