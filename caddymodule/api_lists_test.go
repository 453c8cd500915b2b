package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// slugs returns the slugs of a list of presets, with their models if they have some.
func (s *server) slugs(query string) string {
	s.t.Helper()
	r := s.manage("GET", "/v1/presets?"+query, "")
	r.want(s.t, 200)
	var list struct {
		Data []struct {
			Slug  string
			Model *string
		}
		Total int `json:"total_count"`
	}
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		s.t.Fatal(err)
	}
	var found []string
	for _, p := range list.Data {
		if p.Model != nil {
			p.Slug += "=" + *p.Model
		}
		found = append(found, p.Slug)
	}
	if list.Total != len(found) && !strings.Contains(query, "limit") {
		s.t.Errorf("%s: a total of %d, of %v", query, list.Total, found)
	}
	return strings.Join(found, " ")
}

// TestPresetFilters lists presets by tag, label, owner, model and prompt, and in the order of their use.
func TestPresetFilters(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("a", `{"model":"m","instructions":"Be BRIEF, Größe."}`)
	s.preset("b", `{"model":"other"}`)
	s.manage("POST", "/v1/presets/c/chat/completions?template=true", `{"messages":[{"role":"user","content":"In {{city}} be b\u0072ief"}]}`).want(t, 200)
	s.preset("brief", `{}`)
	s.preset("gone", `{"model":"m"}`)
	s.put("a", "canary", `{"version":1}`)
	s.manage("PATCH", "/v1/presets/a", `{"tags":["team a","x"]}`).want(t, 200, `"tags":["team a","x"]`)
	s.manage("PATCH", "/v1/presets/b", `{"tags":["x"],"managed_by":"git"}`).want(t, 200)
	s.manage("DELETE", "/v1/presets/gone", "").want(t, 200)
	for query, want := range map[string]string{
		"sort=slug&order=asc":                         "a b brief c",
		"tag=x&sort=slug&order=asc":                   "a b",
		"tag=team+a":                                  "a",
		"tag=absent":                                  "",
		"label=canary":                                "a",
		"owner=git":                                   "b",
		"model=m":                                     "a",
		"model=m&status=all&sort=slug&order=asc":      "a gone",
		"q=brief":                                     "brief",
		"q=BRIEF&in=prompt&sort=slug&order=asc":       "a brief c",
		"q=gr%C3%B6%C3%9Fe&in=prompt":                 "a",
		"q=brief&in=prompt&tag=x":                     "a",
		"in=prompt&sort=slug&order=asc":               "a b brief c",
		"include=model&sort=slug&order=asc":           "a=m b=other brief c",
		"include=model&tag=x&sort=slug&limit=1":       "b=other",
		"include=model&offset=0&limit=1&sort=updated": "b=other",
	} {
		if got := s.slugs(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	for query, at := range map[string]string{"in=name": "in", "include=all": "include", "tag=": "tag", "sort=cost": "sort", "label=a&label=b": "label"} {
		s.manage("GET", "/v1/presets?"+query, "").want(t, 400, `"path":"`+at+`"`)
	}
	s.manage("GET", "/v1/presets?tag=x", "").want(t, 200, `"total_count":2`)
	s.manage("PATCH", "/v1/presets/a", `{"tags":null}`).want(t, 200)
	if got := s.manage("GET", "/v1/presets/a", "").body; strings.Contains(got, `"tags"`) {
		t.Errorf("got %s, want no tags", got)
	}
	s.manage("GET", "/v1/presets?tag=x", "").want(t, 200, `"total_count":1`)

	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for range 3 {
		s.ask(responsesPath, `{"preset":"b","input":"hi"}`).want(t, 200)
	}
	s.ask(responsesPath, `{"preset":"a","input":"hi"}`, "X-Fail: 1").want(t, 418)
	s.ask(responsesPath, `{"model":"m","input":"hi"}`).want(t, 200)
	if !s.eventually(func() bool { s.storeUsage(); return s.slugs("sort=use&limit=2") == "b a" }) {
		t.Errorf("by use: got %s", s.slugs("sort=use"))
	}
	if got := s.slugs("sort=errors&limit=1"); got != "a" {
		t.Errorf("by errors: got %s", got)
	}
	if got := s.slugs("sort=use&order=asc&tag=x&include=model"); got != "b=other" {
		t.Errorf("by use, with a tag: got %s", got)
	}
	s.do("GET", "/v1/presets?sort=use", "", bearer(inferenceSecret)).want(t, 403)
	s.reload(inferring())
	s.manage("GET", "/v1/presets?sort=use", "").want(t, 400, `"path":"sort"`)
}

// TestTags has tags that are refused.
func TestTags(t *testing.T) {
	s := start(t, standard)
	s.preset("a", `{}`)
	tag := strings.Repeat("é", 64)
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	s.manage("PATCH", "/v1/presets/a", `{"tags":["`+tag+`"]}`).want(t, 200, tag)
	for body, at := range map[string]string{
		`{"tags":["` + tag + `x"]}`:                  "/tags/0",
		`{"tags":["a","b","a"]}`:                     "/tags/2",
		`{"tags":["a",""]}`:                          "/tags/1",
		`{"tags":["a\nb"]}`:                          "/tags/0",
		`{"tags":"a"}`:                               "/tags",
		`{"tags":[` + strings.Join(many, ",") + `]}`: "/tags",
	} {
		s.manage("PATCH", "/v1/presets/a", body).want(t, 400, `"path":"`+at+`"`)
	}
	s.manage("PATCH", "/v1/presets/a", `{"tags":[`+strings.Join(many[1:], ",")+`]}`).want(t, 200)
	before := s.changesRecorded()
	s.manage("PATCH", "/v1/presets/a", `{"tags":[`+strings.Join(many[1:], ",")+`]}`).want(t, 200)
	if after := s.changesRecorded(); after != before {
		t.Error("the same tags are a change")
	}
}

// TestServerState reads the state before and after a backup and an event.
func TestServerState(t *testing.T) {
	receiver := gateway(t, func(http.ResponseWriter, *http.Request) {})
	t.Setenv("HOOK_SECRET", "a-secret-of-the-tests")
	s := start(t, inferring("usage")+"\nwebhook http://"+receiver+"/token {\nsecret {env.HOOK_SECRET}\n}")
	state := func() (found struct {
		Data struct {
			Version string
			Stores  []struct {
				Current, Available, Writable, Damaged bool
				Backup                                *string `json:"last_backup"`
				Copy                                  *string `json:"last_copy"`
				Details                               struct {
					Free int64 `json:"free_bytes"`
				}
				Nodes []any
			}
			Webhooks []struct {
				Host     string
				Delivery *string `json:"last_delivery"`
			}
			Usage struct{ Measured bool }
		}
	},
	) {
		r := s.manage("GET", "/v1/presets/-/state", "")
		r.want(t, 200)
		if err := json.Unmarshal([]byte(r.body), &found); err != nil || r.header.Get("Cache-Control") != "no-store" || strings.Contains(r.body, "token") {
			t.Fatalf("got %v %s", err, r.body)
		}
		return found
	}
	before := state().Data
	if len(before.Stores) != 1 || before.Version == "" || !before.Usage.Measured || len(before.Webhooks) != 1 || before.Webhooks[0].Delivery != nil || before.Webhooks[0].Host != receiver {
		t.Fatalf("got %+v", before)
	}
	if at := before.Stores[0]; !at.Current || !at.Available || !at.Writable || at.Damaged || at.Backup != nil || at.Copy != nil || at.Details.Free == 0 || at.Nodes != nil {
		t.Errorf("got %+v", at)
	}
	send(t, "GET", "http://"+s.admin+"/presets/backup", "").want(t, 200)
	send(t, "POST", "http://"+s.admin+"/presets/backup/copied", "").want(t, 200)
	s.preset("p", `{}`)
	if !s.eventually(func() bool {
		d := state().Data
		return d.Stores[0].Backup != nil && d.Stores[0].Copy != nil && d.Webhooks[0].Delivery != nil
	}) {
		t.Errorf("got %+v", state())
	}
	only := s.issue(`{"kind":"management","only_workspace":true}`)
	s.do("GET", "/v1/presets/-/state", "", bearer(only.secret)).want(t, 403)
}
