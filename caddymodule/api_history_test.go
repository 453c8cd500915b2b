package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The history of a preset and of its workspace tell who changed what, and why.
func TestHistory(t *testing.T) {
	s := start(t, standard)
	k := s.issue(`{"kind":"management","user_id":"mia","name":"Mia's laptop"}`)
	const path = "/v1/presets/p"
	s.manage("POST", path+"/responses?message=first", `{"instructions":"a secret prompt"}`).want(t, 200)
	s.do("POST", path+"/responses?designate=false&label=next&message=shorter", `{}`, bearer(k.secret)).want(t, 200)
	s.manage("POST", path+"/designate", `{"version":2}`).want(t, 200)
	s.manage("PUT", path+"/labels/next", `{"split":[{"version":2,"weight":9},{"version":1,"weight":1}]}`).want(t, 200)
	s.manage("PATCH", path, `{"status":"disabled"}`).want(t, 200)
	s.manage("PATCH", path, `{"status":"active"}`).want(t, 200)
	s.manage("DELETE", path, "").want(t, 200)
	type entry struct {
		Operation string
		UserID    string  `json:"user_id"`
		KeyName   *string `json:"key_name"`
		Before    *int    `json:"version_before"`
		Version   *int
		Draft     bool
		Label     *string
		Message   *string
		Split     *string
		Status    *string
	}
	read := func(path string) (lines []string, total int, r reply) {
		t.Helper()
		r = s.manage("GET", path, "")
		var page struct {
			Data  []entry
			Total int `json:"total_count"`
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != 200 || strings.Contains(r.body, "secret") {
			t.Fatalf("%s: got %d %s, %v", path, r.status, r.body, err)
		}
		for _, e := range page.Data {
			text, err := json.Marshal([]any{e.Operation, e.UserID, e.KeyName, e.Before, e.Version, e.Draft, e.Label, e.Message, e.Split, e.Status})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(text))
		}
		return lines, page.Total, r
	}
	want := []string{ // also while the preset is archived
		`["preset.archive","ann",null,2,2,false,null,null,null,null]`,
		`["preset.set_status","ann",null,2,2,false,null,null,null,"active"]`,
		`["preset.set_status","ann",null,2,2,false,null,null,null,"disabled"]`,
		`["label.split","ann",null,2,null,false,"next",null,"2:9,1:1",null]`,
		`["preset.designate","ann",null,1,2,false,null,null,null,null]`,
		`["label.set","mia","Mia's laptop",null,2,false,"next",null,null,null]`,
		`["preset.create_version","mia","Mia's laptop",null,2,true,null,"shorter",null,null]`,
		`["preset.create_version","ann",null,null,1,false,null,"first",null,null]`,
	}
	if got, total, _ := read(path + "/history"); fmt.Sprint(got) != fmt.Sprint(want) || total != len(want) {
		t.Errorf("got  %q of %d\nwant %q", got, total, want)
	}
	if got, total, _ := read(path + "/history?offset=1&limit=2"); fmt.Sprint(got) != fmt.Sprint(want[1:3]) || total != len(want) {
		t.Errorf("got %q of %d", got, total)
	}
	creation := `["workspace.create","system",null,null,null,false,null,null,null,null]`
	got, total, r := read("/v1/workspaces/default/history")
	if fmt.Sprint(got) != fmt.Sprint(append(want, creation)) || total != len(want)+1 {
		t.Errorf("got  %q of %d", got, total)
	}
	s.manage("GET", "/v1/workspaces/default/history", "", "If-None-Match: "+r.header.Get("ETag")).want(t, 304)
	s.manage("PATCH", "/v1/workspaces/default", `{"name":"n"}`).want(t, 200)
	s.manage("GET", "/v1/workspaces/default/history?limit=1", "", "If-None-Match: "+r.header.Get("ETag")).
		want(t, 200, `"operation":"workspace.update"`, `"slug":"default"`, `"total_count":10`)
	for query, says := range map[string]string{
		"limit=0":   "limit: must be an integer from 1 to 100",
		"offset=-1": "offset: must be an integer of at least 0",
	} {
		s.manage("GET", path+"/history?"+query, "").wantError(t, 400, "Invalid request parameters: "+says)
		s.manage("GET", "/v1/workspaces/default/history?"+query, "").wantError(t, 400, "Invalid request parameters: "+says)
	}
}
