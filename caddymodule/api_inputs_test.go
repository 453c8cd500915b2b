package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain/inputs"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

const inputsPath = "/v1/presets/p/inputs"

// saved returns the saved input in an answer.
func saved(t *testing.T, r reply, status int) (id, tag string) {
	t.Helper()
	r.want(t, status)
	var body struct{ Data struct{ ID string } }
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Data.ID == "" {
		t.Fatalf("got %s", r.body)
	}
	return body.Data.ID, r.header.Get("ETag")
}

// TestInputs saves, changes and removes inputs, and looks at what the history and a backup have of them.
func TestInputs(t *testing.T) {
	s := start(t, inferring())
	s.preset("p", writer)
	id, tag := saved(t, s.manage("POST", inputsPath, `{"name":"Größe","dialect":"chat","messages":[{"role":"user","content":"hi","x":1.50}],"variables":{"city":"Rome"}}`), 201)
	s.manage("GET", inputsPath, "").want(t, 200, `"name":"Größe"`, `"x":1.50`, `"total_count":1`, `"notes":null`)
	s.do("GET", inputsPath+"/"+id, "", bearer(inferenceSecret)).want(t, 200, `"dialect":"chat"`, `"created_by":"ann"`)
	s.manage("PATCH", inputsPath+"/"+id, `{"notes":"n"}`, `If-Match: "0123456789abcdef0123456789abcdef"`).want(t, 412)
	s.manage("PATCH", inputsPath+"/"+id, `{"notes":"n","variables":null}`, "If-Match: "+tag).want(t, 200, `"notes":"n"`, `"variables":null`, `"x":1.50`)
	s.manage("PATCH", inputsPath+"/"+id, `{"notes":"n"}`).want(t, 200) // which changes nothing
	second, _ := saved(t, s.manage("POST", inputsPath, `{"name":"b","dialect":"responses","input":"hi"}`, "Idempotency-Key: k"), 201)
	again, _ := saved(t, s.manage("POST", inputsPath, `{"name":"b","dialect":"responses","input":"hi"}`, "Idempotency-Key: k"), 201)
	if again != second {
		t.Errorf("a repeated request made %s, want %s", again, second)
	}
	s.manage("GET", inputsPath+"?offset=1&limit=1", "").want(t, 200, `"id":"`+second+`"`, `"total_count":2`)
	s.manage("DELETE", inputsPath+"/"+second, "").want(t, 200, `{"deleted":true}`)
	s.manage("DELETE", inputsPath+"/"+second, "").want(t, 404, "Input not found")
	history := s.manage("GET", "/v1/presets/p/history", "").body
	for operation, count := range map[string]int{"preset.create_input": 2, "preset.update_input": 1, "preset.delete_input": 1, `"input_id":"` + id: 2} {
		if got := strings.Count(history, operation); got != count {
			t.Errorf("got %d of %s in %s, want %d", got, operation, history, count)
		}
	}
	if s.manage("GET", "/v1/presets/p", "").header.Get("ETag") == "" {
		t.Error("the preset has no tag")
	}
	s.reload(inferring())
	s.manage("GET", inputsPath+"/"+id, "").want(t, 200)
	s.manage("DELETE", "/v1/presets/p", "").want(t, 200)
	s.manage("GET", inputsPath, "").want(t, 404)
	s.manage("POST", "/v1/presets/p/restore", "").want(t, 200)
	s.manage("GET", inputsPath, "").want(t, 200, `"total_count":1`)
	send(t, "POST", "http://"+s.admin+"/presets/verify", "").want(t, 200, `"problems":[]`)
}

// TestInputsRefused has inputs that are refused, and where their errors are.
func TestInputsRefused(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring())
	s.preset("p", writer)
	id, _ := saved(t, s.manage("POST", inputsPath, `{"name":"a","dialect":"chat"}`), 201)
	large := strings.Repeat("x", inputs.MaxSize)
	for _, tc := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "", `{"dialect":"chat"}`, 400, `"path":"/name"`},
		{"POST", "", `{"name":"a","dialect":"chat"}`, 400, `"path":"/name"`},
		{"POST", "", `{"name":"","dialect":"chat"}`, 400, `"path":"/name"`},
		{"POST", "", `{"name":"` + strings.Repeat("n", 101) + `","dialect":"chat"}`, 400, `"path":"/name"`},
		{"POST", "", `{"name":"b"}`, 400, `"path":"/dialect"`},
		{"POST", "", `{"name":"b","dialect":"completions"}`, 400, `"path":"/dialect"`},
		{"POST", "", `{"name":"b","dialect":"responses","messages":[]}`, 400, `"path":"/messages"`},
		{"POST", "", `{"name":"b","dialect":"messages","input":"hi"}`, 400, `"path":"/input"`},
		{"POST", "", `{"name":"b","dialect":"chat","messages":["hi"]}`, 400, `"path":"/messages/0"`},
		{"POST", "", `{"name":"b","dialect":"chat","variables":{"a":1}}`, 400, `"path":"/variables/a"`},
		{"POST", "", `{"name":"b","dialect":"chat","variables":{"a b":"1"}}`, 400, `"path":"/variables"`},
		{"POST", "", `{"name":"b","dialect":"chat","notes":"` + strings.Repeat("n", 2001) + `"}`, 400, `"path":"/notes"`},
		{"POST", "", `{"name":"b","dialect":"responses","input":"` + large + `"}`, 400, "at most 262144 bytes"},
		{"PATCH", "/" + id, `{"input":"hi"}`, 400, `"path":"/input"`},
		{"PATCH", "/" + id, `{"name":null}`, 400, `"path":"/name"`},
		{"PATCH", "/absent", `{}`, 404, "Input not found"},
		{"POST", "?designate=false", `{"name":"b","dialect":"chat"}`, 400, `"path":"designate"`},
	} {
		s.manage(tc.method, inputsPath+tc.path, tc.body).want(t, tc.status, tc.want)
	}
	s.do("POST", inputsPath, `{"name":"b","dialect":"chat"}`, bearer(inferenceSecret)).want(t, 403)
	s.manage("PATCH", "/v1/presets/p", `{"managed_by":"git"}`).want(t, 200)
	s.manage("POST", inputsPath, `{"name":"b","dialect":"chat"}`).want(t, 409, "managed by git")
	s.manage("POST", inputsPath, `{"name":"b","dialect":"chat"}`, "X-Preset-Override: git").want(t, 201)
	s.manage("PATCH", "/v1/presets/p", `{"managed_by":null}`, "X-Preset-Override: git").want(t, 200)

	s.manage("POST", inputsPath, `{"name":"c","dialect":"chat"}`, "X-Preset-Owner: git").want(t, 201)
	s.manage("GET", "/v1/presets/p", "").want(t, 200, `"managed_by":"git"`)
	s.preset("full", writer)
	for n := range inputs.Most {
		s.manage("POST", "/v1/presets/full/inputs", fmt.Sprintf(`{"name":"n%d","dialect":"chat"}`, n)).want(t, 201)
	}
	s.manage("POST", "/v1/presets/full/inputs", `{"name":"b","dialect":"chat"}`).want(t, 409, "100 inputs")
	s.preset("heavy", writer)
	for n := range inputs.MaxAll/inputs.MaxSize + 1 {
		want := 201
		if n == inputs.MaxAll/inputs.MaxSize {
			want = 400
		}
		s.manage("POST", "/v1/presets/heavy/inputs", fmt.Sprintf(`{"name":"n%d","dialect":"responses","input":%q}`, n, large[:inputs.MaxSize-300])).want(t, want)
	}
}
