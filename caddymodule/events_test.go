package caddymodule

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// subscriber is an event handler of another module. heard has its events, because each
// configuration has a new subscriber.
type subscriber struct{}

var heard struct {
	sync.Mutex
	events []caddy.Event
	act    func(caddy.Event) // a subscriber's action on an event, or nil
}

func init() { caddy.RegisterModule(subscriber{}) }

func (subscriber) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.presets_test", New: func() caddy.Module { return new(subscriber) }}
}

func (subscriber) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

func (subscriber) Handle(_ context.Context, e caddy.Event) error {
	heard.Lock()
	act := heard.act
	heard.Unlock()
	if act != nil {
		act(e)
	}
	heard.Lock()
	defer heard.Unlock()
	heard.events = append(heard.events, e)
	return nil
}

// listens starts a server whose subscriber calls act for its events.
func listens(t *testing.T, act func(caddy.Event)) *server {
	t.Helper()
	s := start(t, standard)
	s.options = "events {\n"
	for _, kind := range slices.Sorted(maps.Values(events.Types)) {
		s.options += "on " + events.Name(kind) + " presets_test\n"
	}
	s.options += "}"
	hears(t, act)
	s.reload(standard)
	return s
}

// hears makes subscribers call act until the test ends.
func hears(t *testing.T, act func(caddy.Event)) {
	set := func(act func(caddy.Event)) {
		heard.Lock()
		defer heard.Unlock()
		heard.events, heard.act = nil, act
	}
	set(act)
	t.Cleanup(func() { set(nil) })
}

// events returns the events up to that of slug.
func (s *server) events(slug string) (events []caddy.Event) {
	s.t.Helper()
	if !s.eventually(func() bool {
		heard.Lock()
		defer heard.Unlock()
		i := slices.IndexFunc(heard.events, func(e caddy.Event) bool { return e.Data["slug"] == slug })
		if i >= 0 {
			events, heard.events = heard.events[:i+1], heard.events[i+1:]
		}
		return i >= 0
	}) {
		s.t.Fatalf("no event of %s", slug)
	}
	return events
}

// TestEvents checks that each change causes one event, after it can be read back. Nothing
// else causes one.
func TestEvents(t *testing.T) {
	const prompt = "PROMPT-of-the-team"
	var s *server
	s = listens(t, func(e caddy.Event) {
		path, want := fmt.Sprintf("/v1/presets/%v/versions/%v", e.Data["slug"], e.Data["version"]), 200
		switch e.Name() {
		case "presets.updated", "presets.status_changed", "presets.pruned":
			path = fmt.Sprintf("/v1/presets/%v", e.Data["slug"])
		case "presets.label_set", "presets.label_moved", "presets.label_split", "presets.label_removed":
			path = fmt.Sprintf("/v1/presets/%v/labels/%v", e.Data["slug"], e.Data["label"])
		case "workspaces.created", "workspaces.updated":
			path = fmt.Sprintf("/v1/workspaces/%v", e.Data["id"])
		case "workspaces.deleted":
			path, want = fmt.Sprintf("/v1/workspaces/%v", e.Data["id"]), 404
		case "presets.archived":
			want = 404
		}
		if r := s.manage("GET", path, ""); r.status != want {
			t.Errorf("%s: GET %s gives %d, want %d", e.Name(), path, r.status, want)
		}
	})
	home := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	type event struct {
		name, slug      string
		version, before int
		more            string // label, split, status and pruned versions
	}
	create := fmt.Sprintf(`{"instructions":%q,"input":"i"}`, prompt)
	for _, change := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               []event
	}{
		{"POST", "presets/p/responses", create, nil, 200, []event{{"presets.version_created", "p", 1, 0, ""}}},
		{"POST", "presets/p/chat/completions", `{"messages":[{"role":"system","content":"` + prompt + `"}]}`, []string{once("1")}, 200, []event{{"presets.version_created", "p", 2, 1, ""}}},
		{"POST", "presets/p/chat/completions", `{"messages":[{"role":"system","content":"` + prompt + `"}]}`, []string{once("1")}, 200, nil}, // already sent
		{"POST", "presets/p/messages", `{}`, nil, 200, []event{{"presets.version_created", "p", 3, 2, ""}}},
		{"POST", "presets/p/responses", `{"top_k":"x"}`, nil, 400, nil},
		{"POST", "presets/p/responses", `{}`, []string{"If-None-Match: *"}, 412, nil},
		{"POST", "presets/p/designate", `{"version":1}`, nil, 200, []event{{"presets.designated", "p", 1, 3, ""}}},
		{"POST", "presets/p/designate", `{"version":1}`, nil, 200, nil}, // nothing changed
		{"POST", "presets/p/designate", `{"version":9}`, nil, 404, nil},
		{"PUT", "presets/p/labels/l", `{"version":3}`, nil, 200, []event{{"presets.label_set", "p", 3, 0, "l"}}},
		{"PUT", "presets/p/labels/l", `{"version":2}`, nil, 200, []event{{"presets.label_moved", "p", 2, 3, "l"}}},
		{"PUT", "presets/p/labels/l", `{"version":2}`, nil, 200, nil},
		{"PUT", "presets/p/labels/l", `{"version":9}`, nil, 404, nil},
		{"PUT", "presets/p/labels/m", `{"split":[{"version":1,"weight":9},{"version":3,"weight":1}]}`, nil, 200, []event{{"presets.label_split", "p", 0, 0, "m 1:9,3:1"}}},
		{"PUT", "presets/p/labels/m", `{"version":1}`, nil, 200, []event{{"presets.label_moved", "p", 1, 0, "m"}}},
		{"DELETE", "presets/p/labels/m", ``, nil, 200, []event{{"presets.label_removed", "p", 0, 1, "m"}}},
		{"DELETE", "presets/p/labels/m", ``, nil, 404, nil},
		{"POST", "presets/p/designate", `{"label":"l"}`, nil, 200, []event{{"presets.designated", "p", 2, 1, ""}}},
		{"PATCH", "presets/p", `{"name":"P"}`, nil, 200, []event{{"presets.updated", "p", 2, 2, ""}}},
		{"PATCH", "presets/p", `{"name":"P","status":"active"}`, nil, 200, nil},
		{"PUT", "presets/p/labels/l", `{"version":2,"protected":true}`, nil, 200, []event{{"presets.label_protected", "p", 2, 2, "l set"}}},
		{"PUT", "presets/p/labels/l", `{"version":2,"protected":false}`, nil, 200, []event{{"presets.label_protected", "p", 2, 2, "l cleared"}}},
		{"PATCH", "presets/p", `{"protected":true}`, nil, 200, []event{{"presets.protection_changed", "p", 2, 2, "set"}}},
		{"PATCH", "presets/p", `{"protected":false}`, nil, 200, []event{{"presets.protection_changed", "p", 2, 2, "cleared"}}},
		{"PATCH", "presets/p", `{"policy":{"lock":["tools"]}}`, nil, 200, []event{{"presets.policy_changed", "p", 2, 2, ""}}},
		{"PATCH", "presets/p", `{"policy":null}`, nil, 200, []event{{"presets.policy_changed", "p", 2, 2, ""}}},
		{"PATCH", "presets/p", `{"managed_by":"files"}`, nil, 200, []event{{"presets.owner_changed", "p", 2, 2, ""}}},
		{"PATCH", "presets/p", `{"managed_by":null}`, nil, 409, nil},
		{"PATCH", "presets/p", `{"managed_by":null}`, []string{"X-Preset-Override: files"}, 200, []event{{"presets.owner_changed", "p", 2, 2, ""}}},
		{"PATCH", "presets/p", `{"status":"disabled"}`, nil, 200, []event{{"presets.status_changed", "p", 2, 2, "disabled"}}},
		{"PATCH", "presets/p", `{"name":"Q","status":"active"}`, nil, 200, []event{{"presets.updated", "p", 2, 2, ""}, {"presets.status_changed", "p", 2, 2, "active"}}},
		{"DELETE", "presets/p", ``, []string{once("2")}, 200, []event{{"presets.archived", "p", 2, 2, ""}}},
		{"DELETE", "presets/p", ``, []string{once("2")}, 200, nil},
		{"DELETE", "presets/p", ``, nil, 200, nil},
		{"POST", "presets/p/restore", ``, nil, 200, []event{{"presets.restored", "p", 2, 2, ""}}},
		{"POST", "presets/p/restore", ``, nil, 200, nil},
		{"POST", "presets/p/responses?label=l", `{}`, nil, 200, []event{{"presets.version_created", "p", 4, 2, ""}, {"presets.label_moved", "p", 4, 2, "l"}}},
		{"DELETE", "presets/absent", ``, nil, 404, nil},
		{"POST", "workspaces", `{"name":"n","slug":"w"}`, nil, 201, []event{{"workspaces.created", "w", 0, 0, ""}}},
		{"POST", "workspaces", `{"name":"n","slug":"w"}`, nil, 400, nil},
		{"POST", "presets/drafted/responses?label=l", `{}`, nil, 200, []event{{"presets.version_created", "drafted", 1, 0, ""}, {"presets.label_set", "drafted", 1, 0, "l"}}},
		{"POST", "presets/drafted/responses?designate=false", `{}`, nil, 200, []event{{"presets.version_created", "drafted", 2, 1, ""}}},
		{"PATCH", "workspaces/w", `{"name":"N"}`, nil, 200, []event{{"workspaces.updated", "w", 0, 0, ""}}},
		{"PATCH", "workspaces/w", `{"name":"N"}`, nil, 200, nil},
		{"PATCH", "workspaces/w", `{}`, nil, 200, nil},
		{"DELETE", "workspaces/w", ``, nil, 200, []event{{"workspaces.deleted", "w", 0, 0, ""}}},
		{"DELETE", "workspaces/w", ``, nil, 404, nil},
		{"DELETE", "workspaces/default", ``, nil, 400, nil},
		{"GET", "presets", ``, nil, 200, nil},
		{"DELETE", "workspaces/default?confirm_default_workspace_deletion=true", ``, nil, 200, []event{{"workspaces.deleted", "default", 0, 0, ""}, {"workspaces.created", "default", 0, 0, ""}}},
	} {
		name := change.method + " " + change.path + " " + change.body
		s.manage(change.method, "/v1/"+change.path, change.body, change.headers...).want(t, change.status)
		// Events have the order of one client's changes.
		s.manage("POST", "/v1/presets/end/responses", `{}`).want(t, 200)
		got := s.events("end")
		var told []event
		for _, e := range got[:len(got)-1] {
			more := strings.Trim(fmt.Sprintf("%v %v%v%v%v", e.Data["label"], e.Data["split"], e.Data["status"], e.Data["pruned"], e.Data["protection"]), " ")
			told = append(told, event{e.Name(), fmt.Sprint(e.Data["slug"]), e.Data["version"].(int), e.Data["version_before"].(int), more})
			text, err := json.Marshal(e.CloudEvent())
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{prompt, managementSecret} {
				if strings.Contains(string(text), secret) {
					t.Errorf("%s: the event holds %s", name, secret)
				}
			}
			if origin := e.Origin(); origin == nil || origin.CaddyModule().ID != "http.handlers.presets" {
				t.Errorf("%s: the event comes from %v", name, origin)
			}
			members := slices.Sorted(maps.Keys(e.Data))
			if want := []string{"audit_number", "draft", "id", "key_id", "label", "managed_by", "override", "protection", "pruned", "request_id", "slug", "split", "status", "time", "user_id", "version", "version_before", "workspace_id"}; !slices.Equal(members, want) {
				t.Errorf("%s: the event has %q, want %q", name, members, want)
			}
			if draft := strings.Contains(change.path, "designate=false"); e.Data["draft"] != draft {
				t.Errorf("%s: got draft %v, want %t", name, e.Data["draft"], draft)
			}
			if e.Data["user_id"] != "ann" || e.Data["key_id"] != "config-management-1" || !uuids.MatchString(fmt.Sprint(e.Data["request_id"])) ||
				strings.HasPrefix(e.Name(), "presets.") && e.Data["workspace_id"] != home {
				t.Errorf("%s: got data %v", name, e.Data)
			}
		}
		if !slices.Equal(told, change.want) {
			t.Errorf("%s: told %v, want %v", name, told, change.want)
		}
	}
}

// TestSubscribersDelayNobody checks that clients get their complete answers over any
// protocol, whatever subscribers do. The connection remains usable.
func TestSubscribersDelayNobody(t *testing.T) {
	release := make(chan struct{})
	s := listens(t, func(caddy.Event) {
		select {
		case <-release:
		case <-time.After(wait.Limit):
			t.Error("the client waits for the subscriber")
		}
	})
	s.options += "\nservers {\nprotocols h1 h2c\n}"
	s.reloadBehind("encode gzip {\nminimum_length 1\n}", standard)
	made := 0
	for _, transport := range []*http.Transport{{}, h2c()} {
		transport.MaxConnsPerHost = 1
		defer transport.CloseIdleConnections()
		for _, coding := range []string{"identity", "gzip"} {
			for range 3 {
				r := newRequest(t, "POST", s.url+"/v1/presets/p/responses", strings.NewReader("{}"), bearer(managementSecret), "Accept-Encoding: "+coding)
				response, err := (&http.Client{Transport: transport}).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				if readResponse(t, response).status != 200 {
					t.Errorf("got %d, want 200", response.StatusCode)
				}
				made++
			}
		}
	}
	s.manage("POST", "/v1/presets/end/responses", `{}`).want(t, 200)
	close(release)
	versions := []any{}
	for _, e := range s.events("end") {
		versions = append(versions, e.Data["version"])
	}
	if len(versions) != made+1 {
		t.Errorf("got events of versions %v, want those of %d and one more", versions, made)
	}
	for i, version := range versions[:len(versions)-1] {
		if version != i+1 {
			t.Errorf("got events of versions %v, want them in order", versions)
			break
		}
	}
}

// TestSubscribersThatPanic checks that a subscriber's panic stops neither the server nor
// other subscribers.
func TestSubscribersThatPanic(t *testing.T) {
	s := listens(t, func(e caddy.Event) {
		if e.Data["slug"] == "bad" {
			panic("the subscriber's own fault")
		}
	})
	s.manage("POST", "/v1/presets/bad/responses", `{}`).want(t, 200)
	s.manage("POST", "/v1/presets/end/responses", `{}`).want(t, 200)
	s.events("end")
	if !strings.Contains(s.logs(), "event handler panicked") {
		t.Error("the panic is not logged")
	}
}

// TestEventsOfRequestsInFlight checks that a pending request of the old configuration still
// causes its event.
func TestEventsOfRequestsInFlight(t *testing.T) {
	s := listens(t, nil)
	conn := s.dial()
	fmt.Fprintf(conn, "POST /v1/presets/late/responses HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", bearer(managementSecret))
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q and %v, want the server to ask for the body", line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.reload(standard)
	if _, err := io.WriteString(conn, "{}"); err != nil {
		t.Fatal(err)
	}
	finalAnswer(t, reader).want(t, 200, `"version":1`)
	if got := s.events("late"); len(got) != 1 || got[0].Name() != "presets.version_created" {
		t.Errorf("got events %v", got)
	}
}

// TestEventsOfOperators checks that a change of the admin endpoint causes an event, too.
func TestEventsOfOperators(t *testing.T) {
	s := listens(t, nil)
	for range 3 {
		s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	}
	send(t, "POST", "http://"+s.admin+"/presets/prune", `{"keep":1}`, "Content-Type: application/json").want(t, 200)
	s.manage("POST", "/v1/presets/end/responses", `{}`).want(t, 200)
	got := s.events("end")
	if len(got) != 5 || got[3].Name() != "presets.pruned" || got[3].Data["pruned"] != "1-2" || got[3].Data["key_id"] != "" || got[3].Data["version"] != 3 {
		t.Errorf("got %v", got)
	}
}

// TestEventsOfChangesAtTheSameTime checks that a webhook gets them in the order of the
// audit trail.
func TestEventsOfChangesAtTheSameTime(t *testing.T) {
	r := receives(t)
	s := start(t, standard+r.directive())
	s.preset("p", `{}`)
	const writers, each = 8, 15
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			for weight := range each {
				body := fmt.Sprintf(`{"split":[{"version":1,"weight":%d}]}`, weight+1)
				s.manage("PUT", fmt.Sprintf("/v1/presets/p/labels/l%d", i), body).want(t, 200)
			}
		})
	}
	wait.Wait()
	last := 0.0
	for _, h := range r.await(1 + writers*each) {
		number := h.Data["audit_number"].(float64)
		if number <= last {
			t.Errorf("event %v came after %v", number, last)
		}
		last = number
	}
}
