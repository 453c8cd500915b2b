package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// versions makes a preset's next versions. Each version's model has its number.
func (s *server) versions(path string, from, to int) {
	s.t.Helper()
	for n := from; n <= to; n++ {
		s.manage("POST", path, fmt.Sprintf(`{"model":"m%d"}`, n)).want(s.t, 200, fmt.Sprintf(`"version":%d,`, n))
	}
}

// TestKeepVersions adds versions beyond the limit. What is removed, and which requests then get 404, is the
// subject of the domain.
func TestKeepVersions(t *testing.T) {
	s := start(t, standard+"\nkeep_versions 2\ninference")
	const preset = "/v1/presets/p"
	s.versions(preset+"/responses", 1, 2)
	s.manage("PUT", preset+"/labels/stable", `{"version":2}`).want(t, 200)
	s.versions(preset+"/responses", 3, 5)
	s.manage("GET", preset+"/versions?fields=summary", "").want(t, 200, `"total_count":3`)
	for n, status := range map[int]int{1: 404, 2: 200, 3: 404, 4: 200, 5: 200} {
		number := strconv.Itoa(n)
		s.manage("GET", preset+"/versions/"+number, "").want(t, status)
		s.ask(chatPath, `{"model":"@preset/p@`+number+`"}`, "X-Preset-Dry-Run: true").want(t, status)
	}
	// The audit trail shows which addition removed which version.
	var got []string
	for _, r := range s.trail("").Records {
		if r.Operation == "preset.create_version" {
			got = append(got, fmt.Sprint(r.After, "-", r.Object.Pruned))
		}
	}
	if want := "1- 2- 3-1 4- 5-3"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
	// Another configuration has another limit.
	s.reload(standard)
	s.versions(preset+"/responses", 6, 8)
	s.manage("GET", preset+"/versions?fields=summary", "").want(t, 200, `"total_count":6`)
}

// TestPruneUnused removes versions that no request was served by. Requests of the last moment
// count, and so do those before a restart.
func TestPruneUnused(t *testing.T) {
	s := start(t, inferring("usage"))
	const preset = "/v1/presets/p"
	s.versions(preset+"/responses", 1, 4)
	ask := func(pin string) {
		t.Helper()
		s.do("POST", chatPath, `{"model":"@preset/p`+pin+`"}`, bearer(inferenceSecret)).want(t, 202)
	}
	prune := func(body string) (status int, response string) {
		t.Helper()
		r, err := http.Post("http://"+s.admin+"/presets/prune", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	ask("@2")
	s.stop()
	s.reload(inferring("usage"))
	s.manage("GET", preset+"/versions/1", "").want(t, 200, `"last_served_at":null`)
	served := s.manage("GET", preset+"/versions/2", "")
	if want := `"last_served_at":"` + time.Now().UTC().Format("2006-01-02T"); !strings.Contains(served.body, want) {
		t.Errorf("got %s, want %s", served.body, want)
	}
	ask("@3")
	for _, wrong := range []string{"1", "-90d", "59m", "soon"} {
		if status, response := prune(`{"unused_for":"` + wrong + `"}`); status != 400 || !strings.Contains(response, "unused_for: must be a duration") {
			t.Errorf("%s: got %d %s, want 400", wrong, status, response)
		}
	}
	if status, response := prune(`{"unused_for":"90d"}`); status != 200 || !strings.Contains(response, `"total_count":0`) {
		t.Errorf("got %d %s, want no version that is old enough", status, response)
	}
	for n, there := range map[int]bool{1: false, 2: true, 3: true, 4: false} { // the pruning stored 3, if nothing did before
		body := s.manage("GET", preset+"/versions/"+strconv.Itoa(n), "").body
		if strings.Contains(body, `"last_served_at":null`) == there {
			t.Errorf("version %d: got %s", n, body)
		}
	}
	s.reload(inferring(""))
	if status, response := prune(`{"unused_for":"90d","dry_run":true}`); status != 400 || !strings.Contains(response, "must have usage") {
		t.Errorf("without usage: got %d %s, want 400", status, response)
	}
}
