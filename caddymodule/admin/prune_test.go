package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// versions makes a preset's next versions. Each is told by its model.
func (s *server) versions(path string, from, to int) {
	s.t.Helper()
	for n := from; n <= to; n++ {
		s.manage("POST", path, fmt.Sprintf(`{"model":"m%d"}`, n)).want(s.t, 200, fmt.Sprintf(`"version":%d,`, n))
	}
}

func (s *server) prune(body string) response {
	s.t.Helper()
	return send(s.t, "POST", "http://"+s.admin+"/presets/prune", body)
}

// A version that goes as another is added answers 404 from then on, to all who
// name it.
func TestKeepVersions(t *testing.T) {
	s := start(t, standard+"\nkeep_versions 2\ninference")
	const preset = "/v1/presets/p"
	s.versions(preset+"/responses", 1, 2)
	s.manage("PUT", preset+"/labels/stable", `{"version":2}`).want(t, 200)
	resolve := func(pin string) response {
		return s.do("POST", "/v1/chat/completions", `{"model":"@preset/p`+pin+`"}`, bearer(inferenceSecret), "X-Preset-Dry-Run: true")
	}
	resolve("@1").want(t, 200, `\"m1\"`)
	s.versions(preset+"/responses", 3, 5)

	s.manage("GET", preset+"/versions", "").want(t, 200, `"total_count":3`)
	for page, numbers := range map[string]string{"": "2 4 5", "?limit=1": "2", "?offset=1&limit=1": "4", "?offset=1": "4 5", "?offset=2": "5", "?offset=3": ""} {
		var got []string
		body := s.manage("GET", preset+"/versions"+page, "").body
		for n := 1; n <= 6; n++ {
			if strings.Contains(body, fmt.Sprintf(`"version":%d,`, n)) {
				got = append(got, strconv.Itoa(n))
			}
		}
		if strings.Join(got, " ") != numbers || !strings.Contains(body, `"total_count":3`) {
			t.Errorf("%q: got versions %v in %s, want %s of 3", page, got, body, numbers)
		}
	}
	for n, there := range map[int]bool{1: false, 2: true, 3: false, 4: true, 5: true, 6: false} {
		number := strconv.Itoa(n)
		served := resolve("@" + number)
		diff := s.manage("GET", preset+"/diff?from=5&to="+number, "")
		designated := s.manage("POST", preset+"/designate", `{"version":`+number+`}`)
		labelled := s.manage("PUT", preset+"/labels/other", `{"split":[{"version":`+number+`,"weight":1}]}`)
		got := s.manage("GET", preset+"/versions/"+number, "")
		if there {
			got.want(t, 200, `"m`+number+`"`)
			served.want(t, 200, `\"m`+number+`\"`)
			for _, r := range []response{diff, designated, labelled} {
				r.want(t, 200)
			}
			continue
		}
		for _, r := range []response{got, diff, designated, labelled} {
			r.wantError(t, 404, "Preset version not found")
		}
		served.want(t, 404, "Preset version not found: @preset/p@"+number)
	}
	s.manage("GET", preset+"/labels/stable", "").want(t, 200, `"version":2`, `"history_count":1`)
	resolve("@stable").want(t, 200, `\"m2\"`)

	// The trail tells which went with which.
	var got []string
	for _, r := range s.trail("").Records {
		if r.Operation == "preset.create_version" {
			got = append(got, fmt.Sprint(r.After, "-", r.Object.Pruned))
		}
	}
	if want := "1- 2- 3-1 4- 5-3"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}

	// Another configuration, another number.
	if err := s.load(s.site(standard)); err != nil {
		t.Fatal(err)
	}
	s.versions(preset+"/responses", 6, 8)
	s.manage("GET", preset+"/versions", "").want(t, 200, `"total_count":6`)
}

func TestPruneCommand(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	s.versions("/v1/presets/email/responses", 1, 5)
	s.versions("/v1/presets/archived/responses?workspace_id=team", 1, 4)
	s.manage("PUT", "/v1/presets/email/labels/live", `{"version":2}`).want(t, 200)
	s.manage("DELETE", "/v1/presets/archived?workspace_id=team", "").want(t, 200)
	prune := func(want string, args ...string) {
		t.Helper()
		out, note, err := run(append([]string{"prune", "--address", s.admin}, args...)...)
		var rows []string
		for row := range strings.Lines(out) {
			rows = append(rows, strings.Join(strings.Fields(row), " "))
		}
		if got := strings.Join(rows, "; "); err != nil || note != "" || got != want {
			t.Errorf("%v: got %q, %q, %v, want %q", args, got, note, err, want)
		}
	}
	before := s.manage("GET", "/v1/presets/email", "")
	const gone = "; disk: the folder gets smaller by itself within the hour if a tenth of what is stored was removed since it last did, and 1 MiB or more; what is less goes with what is removed later"
	const heading, email, archived = "WORKSPACE PRESET COUNT VERSIONS; ", "default email 2 1,3; ", "team archived 2 1-2; "
	prune(heading+email+archived+"versions that would be removed: 4, of presets: 2", "--keep", "2", "--dry-run")
	prune(heading+archived+"versions that would be removed: 2, of presets: 1", "--keep", "2", "--dry-run", "--workspace", "team")
	s.manage("GET", "/v1/presets/email/versions/1", "").want(t, 200)
	prune(heading+archived+"versions removed: 2, of presets: 1"+gone, "--keep", "2", "--workspace", "team")
	prune(heading+email+"versions removed: 2, of presets: 1"+gone, "--keep", "2")
	prune("versions removed: 0, of presets: 0", "--keep", "2")
	s.manage("GET", "/v1/presets/email/versions/1", "").wantError(t, 404, "Preset version not found")
	if after := s.manage("GET", "/v1/presets/email", ""); after.body != before.body || after.header.Get("ETag") != before.header.Get("ETag") {
		t.Errorf("the preset changed from\n%s to\n%s", before.body, after.body)
	}
	s.manage("POST", "/v1/presets/archived/restore?workspace_id=team", "").want(t, 200, `"version":4`)
	s.manage("GET", "/v1/presets/archived/versions?workspace_id=team", "").want(t, 200, `"total_count":2`)

	out, _, err := run("audit", "--limit", "3", "--address", s.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"preset.prune archived less 1-2 4 admin - -", "preset.prune email less 1,3 5 admin - -"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the trail does not say %q:\n%s", want, out)
		}
	}
	if out, _, err := run("audit", "--verify", "--address", s.admin); err != nil {
		t.Errorf("got %q, %v, want that the trail verifies", out, err)
	}

	for says, args := range map[string][]string{
		"keep: must be given, since the configuration has no keep_versions": {},
		"keep: must be at least 1": {"--keep", "0"},
		"Workspace not found":      {"--keep", "1", "--workspace", "nowhere"},
		`invalid argument "all"`:   {"--keep", "all"},
		`unknown command "email"`:  {"email"},
		"no live store":            {"--keep", "1", "--store", "other"},
	} {
		if out, _, err := run(append([]string{"prune", "--address", s.admin}, args...)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got %q, %v, want an error with %q", args, out, err, says)
		}
	}
	for body, says := range map[string]string{``: "body", `{"keep":"1"}`: "body", `{"keep":1,"preset":"p"}`: "preset", `{"keep":-1}`: "keep: must be at least 1"} {
		if r := s.prune(body); r.status != 400 || !strings.Contains(r.body, says) {
			t.Errorf("%s: got %d %s, want 400 and %q", body, r.status, r.body, says)
		}
	}
}

// Where it is not said how many are to stay, the configuration says it, if all sites
// of the store agree.
func TestPruneByConfiguration(t *testing.T) {
	s := start(t, standard)
	s.versions("/v1/presets/p/responses", 1, 9)
	second := freeAddress(t)
	other := func(more string) string {
		return s.siteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", s.folder, more))
	}
	for _, tc := range []struct {
		sites  string
		status int
		says   string
	}{
		{s.site(standard + "\nkeep_versions 7"), 200, `"keep":7,"dry_run":true`},
		{s.site(standard+"\nkeep_versions 6") + other("keep_versions 6"), 200, `"versions":"1-3","count":3`},
		{s.site(standard+"\nkeep_versions 6") + other("keep_versions 5"), 400, "do not have the same keep_versions: [5 6]"},
		{s.site(standard+"\nkeep_versions 6") + other(""), 400, "do not have the same keep_versions: [0 6]"},
		{s.site(standard) + other(""), 400, "has no keep_versions"},
	} {
		if err := s.load(tc.sites); err != nil {
			t.Fatal(err)
		}
		// A configuration that was replaced is withdrawn in its own time.
		var r response
		if !s.eventually(func() bool {
			r = s.prune(`{"dry_run":true}`)
			return r.status == tc.status && strings.Contains(r.body, tc.says)
		}) {
			t.Errorf("got %d %s, want %d and %q", r.status, r.body, tc.status, tc.says)
		}
	}
	s.prune(`{"keep":8}`).want(t, 200, `"keep":8,"dry_run":false`, `"versions":"1"`, `"total_count":1`)
	if err := s.load(s.site(standard + "\nkeep_versions 7")); err != nil {
		t.Fatal(err)
	}
	s.prune(`{}`).want(t, 200, `"keep":7,"dry_run":false`, `"versions":"2"`, `"total_count":1`)
}

func TestKeepVersionsIsChecked(t *testing.T) {
	h := &Handler{KeepVersions: -1}
	if err := h.provisionSettings(nil); err == nil || !strings.Contains(err.Error(), "keep_versions: must be positive") {
		t.Errorf("got error %v, want one of keep_versions", err)
	}
}

// What was removed before an error is told.
func TestPruneFailsInTheMiddle(t *testing.T) {
	store, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	failing := &failingStore{Store: store, updates: math.MaxInt}
	service := domain.NewService(failing)
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, slug := range []string{"a", "b"} {
		for range 3 {
			if _, err := service.CreatePresetVersion(t.Context(), operator, "", slug, domain.Capture{Config: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		updates int
		says    string
	}{
		{0, "the disk is on fire"},
		{1, "versions removed: 2, of presets: 1, and then: the disk is on fire"},
	} {
		failing.updates = tc.updates
		request := httptest.NewRequest("POST", "/presets/prune", strings.NewReader(`{"keep":1}`))
		err := pruneVersions(adminRequest{request, &liveStore{}, &storeUse{service: service}, httptest.NewRecorder(), nil})
		if api, ok := errors.AsType[caddy.APIError](err); !ok || api.HTTPStatus != 500 || api.Err.Error() != tc.says {
			t.Errorf("got error %v, want a 500 that says %q", err, tc.says)
		}
	}
}

// failingStore is a store that fails after so many updates.
type failingStore struct {
	domain.Store
	updates int
}

func (s *failingStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	if s.updates == 0 {
		return errors.New("the disk is on fire")
	}
	s.updates--
	return s.Store.Update(ctx, fn)
}

// A store of whose records a tenth was removed gives the disk space back by itself.
func TestPruneGivesDiskSpaceBack(t *testing.T) {
	s := start(t, standard)
	config := `{"model":"` + strings.Repeat("m", 100<<10) + `%d"}`
	for n := range 100 {
		s.manage("POST", "/v1/presets/p/responses", fmt.Sprintf(config, n)).want(t, 200)
	}
	s.stop() // which writes all of it to tables
	if err := s.load(s.site(standard)); err != nil {
		t.Fatal(err)
	}
	var h *handle
	for open := range folders.InUse() {
		h = open
	}
	tables := func() (size int64) {
		names, err := filepath.Glob(filepath.Join(h.folder, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				size += info.Size()
			}
		}
		return size
	}
	before := tables()
	s.prune(`{"keep":85}`).want(t, 200, `"disk":"the folder gets smaller by itself within the hour`)
	checked := checks{last: time.Now().Add(24 * time.Hour), some: true}
	h.maintain(t.Context(), h.store.Load(), &checked, time.Now()) // at once
	if got := tables(); got < before {
		t.Errorf("the tables have %d of %d bytes already", got, before)
	}
	h.maintain(t.Context(), h.store.Load(), &checked, time.Now().Add(time.Hour))
	if got := tables(); got > before*9/10 {
		t.Errorf("after a prune of 15 %% the tables have %d of %d bytes", got, before)
	}
	s.manage("GET", "/v1/presets/p/versions", "").want(t, 200, `"total_count":85`)
}
