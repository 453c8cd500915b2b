package badger_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/caddy-presets/caddy-presets/caddymodule"
	"github.com/caddy-presets/caddy-presets/caddymodule/badger"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestDamagedStore damages a store. Only requests that need the store fail, until the
// folder is repaired.
func TestDamagedStore(t *testing.T) {
	tier.Slow(t)
	const block = caddytest.Standard + "\ninference {\nkeys required\n}" // other routes need no store
	s := caddytest.Start(t, block)
	s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).Want(t, 200)
	issued := s.Issue(`{"kind":"inference"}`).Secret
	s.Stop()
	undo := caddytest.Damage(t, s.Folder)
	if err := s.Load(s.Site(block)); err != nil {
		t.Fatalf("a damaged store keeps the server from starting: %v", err)
	}
	unavailable := func(r caddytest.Response) {
		t.Helper()
		r.Want(t, 503)
		if r.Header.Get("Retry-After") == "" || !strings.Contains(r.Body, "Service temporarily unavailable") {
			t.Errorf("got %q with %v, want when to ask again", r.Body, r.Header)
		}
	}
	unavailable(s.Manage("GET", "/v1/presets", ""))
	unavailable(s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`))
	unavailable(s.Do("GET", "/v1/presets", "", caddytest.Bearer(issued))) // without the store the caller is unknown
	const chat = "/v1/chat/completions"
	unavailable(s.Do("POST", chat, `{"model":"@preset/p"}`, caddytest.Bearer(caddytest.InferenceSecret)))
	unavailable(s.Do("POST", chat, `{"model":"acme/large"}`, caddytest.Bearer(issued)))
	unavailable(s.Do("POST", chat, `{"model":"acme/large","tools":[{"type":"openrouter:web_search"}]}`, caddytest.Bearer(caddytest.InferenceSecret)))
	s.Do("POST", chat, `{"model":"acme/large","tools":[{"type":"function"}]}`, caddytest.Bearer(caddytest.InferenceSecret)).Want(t, 202)
	s.Do("GET", "/v1/files", "").Want(t, 202)
	s.Do("GET", "/v1/presets", "").Want(t, 401)
	if !strings.Contains(s.Logs(), "the store cannot be opened") || !strings.Contains(s.Logs(), "restore a backup") {
		t.Error("the log does not name the cause")
	}
	if s.Metric(`caddy_presets_store_available{store="`+s.CanonicalFolder()+`"}`) != "0" {
		t.Error("the metrics do not say that the store is not available")
	}

	undo()
	if !wait.Eventually(func() bool { return s.Manage("GET", "/v1/presets/p", "").Status == 200 }) {
		t.Fatal("the store that is whole again is not opened")
	}
	s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).Want(t, 200)
	s.Do("POST", chat, `{"model":"@preset/p"}`, caddytest.Bearer(issued)).Want(t, 202)
	for _, want := range []string{"available", "writable"} {
		if s.Metric("caddy_presets_store_"+want+`{store="`+s.CanonicalFolder()+`"}`) != "1" {
			t.Errorf("the metrics do not say that the store is %s", want)
		}
	}
}

// TestReplacedStore checks that a folder that is being replaced is not used as an empty
// one.
func TestReplacedStore(t *testing.T) {
	tier.Slow(t)
	s := caddytest.Start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).Want(t, 200)
	s.Stop()
	undo := caddytest.Damage(t, s.Folder)
	if err := s.Load(s.Site(caddytest.Standard)); err != nil {
		t.Fatal(err)
	}
	aside := s.Folder + "-aside"
	if err := os.Rename(s.Folder, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		badger.Retry(t.Context())
		s.Manage("GET", "/v1/presets", "").Want(t, 503)
	}
	if entries, err := os.ReadDir(s.Folder); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v in the new folder, want nothing", entries, err)
	}
	if err := os.Remove(s.Folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, s.Folder); err != nil {
		t.Fatal(err)
	}
	undo()
	if !wait.Eventually(func() bool { return s.Manage("GET", "/v1/presets/p", "").Status == 200 }) {
		t.Fatal("the store that is back is not opened")
	}
}

// TestUnreachableFolder configures a folder that cannot be created. Only requests that need
// the store fail, until it can.
func TestUnreachableFolder(t *testing.T) {
	tier.Slow(t)
	s := caddytest.Start(t, caddytest.Standard)
	served := func() { // routes that need no store
		t.Helper()
		s.Do("GET", "/v1/files", "").Want(t, 202)
	}
	if _, err := os.Stat("/proc/self"); err == nil {
		if err := s.Load(s.SiteAt(s.Address, "presets {\nstorage badger /proc/presets-of-a-test/store\n"+caddytest.Standard+"\n}")); err != nil {
			t.Fatalf("a folder that cannot be made keeps the server from starting: %v", err)
		}
		s.Manage("GET", "/v1/presets", "").Want(t, 503)
		served()
	}

	target := filepath.Join(t.TempDir(), "unmounted")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err) // Windows does not let every user do this
	}
	if err := s.Load(s.SiteAt(s.Address, "presets {\nstorage badger "+link+"\n"+caddytest.Standard+"\n}")); err != nil {
		t.Fatalf("a link that leads to nothing keeps the server from starting: %v", err)
	}
	s.Manage("GET", "/v1/presets", "").Want(t, 503)
	served()
	if !strings.Contains(s.Logs(), "is its file system mounted?") {
		t.Error("the log does not name the cause")
	}
	closed := caddytest.Folder(t)
	store, err := badgerstore.Open(closed, badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(closed, target); err != nil {
		t.Fatal(err)
	}
	if !wait.Eventually(func() bool { return s.Manage("GET", "/v1/presets", "").Status == 200 }) {
		t.Fatal("the store that is there now is not opened")
	}
}

// TestScrubsByItself checks that the store is scrubbed periodically without a request.
func TestScrubsByItself(t *testing.T) {
	tier.Slow(t)
	s := caddytest.Start(t, caddytest.Standard)
	config, err := s.Adapt(s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s {\nscrub_interval 1s\n}\n%s\n}", s.Folder, caddytest.Standard)))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"scrub_interval":1000000000`), []byte(`"scrub_interval":"30ms"`), 1) // JSON permits shorter intervals
	if err := s.LoadJSON(config); err != nil {
		t.Fatal(err)
	}
	if !wait.Eventually(func() bool { return strings.Count(s.Logs(), "nothing is damaged") >= 2 }) {
		t.Error("the store is not looked at twice")
	}
	if at := s.Metric(`caddy_presets_store_checked_timestamp_seconds{store="` + s.CanonicalFolder() + `"}`); at == "" || at == "0" {
		t.Error("the metrics do not tell when it was checked")
	}
}

// TestDamageOfARecord checks that reads of a damaged record are counted for every reader.
func TestDamageOfARecord(t *testing.T) {
	const canary = "CANARY of a record"
	s := caddytest.Start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m","instructions":"`+canary+`"}`).Want(t, 200)
	stopIntoTable(t, s)
	s.Reload(caddytest.Standard)
	series := `caddy_presets_store_damage_total{store="` + s.CanonicalFolder() + `"}`
	if got := s.Metric(series); got != "0" {
		t.Errorf("before there is damage: got %q, want 0", got)
	}
	tables, _ := filepath.Glob(filepath.Join(s.Folder, "*.sst"))
	hit := false
	for _, name := range tables {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		content, _ := os.ReadFile(name)
		if at := bytes.Index(content, []byte(canary)); at >= 0 {
			hit = true
			if _, err := file.WriteAt([]byte("X"), int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !hit {
		t.Fatal("the record is in no table")
	}
	if r := s.Manage("GET", "/v1/presets/p/versions/1", ""); r.Status < 500 || strings.Contains(r.Body, "ANARY") {
		t.Errorf("got %d, %s, want an error without what is damaged", r.Status, r.Body)
	}
	if got := s.Metric(series); got == "0" || got == "" {
		t.Errorf("got %q damages, want some", got)
	}
}

// stopIntoTable stops a server, and waits until its store, which had no table, has written its
// log to one. Work in the background may use the store for a moment longer than the server.
func stopIntoTable(t *testing.T, s *caddytest.Server) {
	t.Helper()
	s.Stop()
	wait.Until(t, "no table is written", func() bool {
		tables, err := filepath.Glob(filepath.Join(s.Folder, "*.sst"))
		return err == nil && len(tables) > 0
	})
}

// TestServedFromMemory damages the table of a running server. Presets and keys that are in
// memory are served on, and a metric and the log say so. A key that is revoked then stays
// revoked.
func TestServedFromMemory(t *testing.T) {
	tier.Race(t)
	for _, interval := range []string{"1s", "off"} {
		t.Run("scrub_interval "+interval, func(t *testing.T) { testServedFromMemory(t, interval) })
	}
}

func testServedFromMemory(t *testing.T, interval string) {
	const block = caddytest.Standard + "\ninference {\nkeys everywhere\n}"
	site := func(s *caddytest.Server) string {
		return s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s {\nscrub_interval %s\n}\n%s\n}", s.Folder, interval, block))
	}
	s := caddytest.Start(t, block)
	const needle = "the-text-of-the-damaged-preset"
	s.Manage("POST", "/v1/presets/known/chat/completions", `{"model":"acme/large","messages":[]}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/unknown/chat/completions", `{"model":"`+needle+`","messages":[]}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/damaged/chat/completions", `{"model":"`+needle+`","messages":[]}`).Want(t, 200)
	kept, revoked := s.Issue(`{"kind":"inference"}`), s.Issue(`{"kind":"inference"}`)
	stuck := s.Issue(`{"kind":"inference","name":"` + needle + `"}`) // its record is damaged, too
	// A key's first use is stored in the background. Its record is then in the log again.
	s.Do("POST", "/v1/chat/completions", `{"model":"@preset/known"}`, caddytest.Bearer(stuck.Secret)).Want(t, 202)
	wait.Until(t, "the use of the key is not stored", func() bool {
		return !strings.Contains(s.Admin("GET", "/presets/keys/"+stuck.ID, "").Body, `"last_used_at":null`)
	})
	stopIntoTable(t, s)
	if err := s.Load(site(s)); err != nil {
		t.Fatal(err)
	}
	ask := func(preset, secret string, status int) {
		t.Helper()
		s.Do("POST", "/v1/chat/completions", `{"model":"@preset/`+preset+`"}`, caddytest.Bearer(secret)).Want(t, status)
	}
	for _, preset := range []string{"known", "damaged"} {
		ask(preset, kept.Secret, 202)
		ask(preset, revoked.Secret, 202)
		ask(preset, stuck.Secret, 202)
	}
	const served = "caddy_presets_served_from_memory_total"
	if got := s.Metric(served); got != "0" {
		t.Errorf("got %s of %s before the damage", got, served)
	}

	tables, err := filepath.Glob(filepath.Join(s.Folder, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; ; { // in place, so that the server's memory map shows it
			i := bytes.Index(content[at:], []byte(needle))
			if i < 0 {
				break
			}
			if _, err := file.WriteAt([]byte{'T'}, int64(at+i)); err != nil {
				t.Fatal(err)
			}
			at += i + len(needle)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if interval == "off" { // a read finds it, and then the check does
		ask("unknown", kept.Secret, 500)
	}
	for _, says := range []string{"stored data were found damaged: presets and keys that are in memory are served on", "the store is damaged: restore a backup"} {
		wait.Until(t, "the log does not say: "+says, func() bool { return strings.Contains(s.Logs(), says) })
	}
	ask("known", kept.Secret, 202) // from memory, or from the table
	before := s.Metric(served)
	ask("damaged", kept.Secret, 202) // only memory has it
	if got := s.Metric(served); got == before {
		t.Errorf("got %s of %s, as before", got, served)
	}
	ask("unknown", kept.Secret, 500)
	s.Admin("DELETE", "/presets/keys/"+revoked.ID, "").Want(t, 200)
	ask("damaged", revoked.Secret, 401)
	s.Admin("GET", "/presets/health", "").Want(t, 200, `"available":true`, `"damaged":true`)
	s.Admin("DELETE", "/presets/keys/"+stuck.ID, "").Want(t, 500)
	ask("known", stuck.Secret, 202)

	// A reload keeps what is in memory, also after one that was rejected, and beside another
	// site.
	if err := s.Load(site(s) + s.SiteAt(caddytest.Address(t), "presets {\nbase_path /{\n}")); err == nil {
		t.Fatal("the configuration is accepted")
	}
	if err := s.Load(site(s) + s.SiteAt(caddytest.Address(t), fmt.Sprintf("presets {\nstorage badger %s {\nscrub_interval %s\n}\n%s\n}", s.Folder, interval, block))); err != nil {
		t.Fatal(err)
	}
	ask("damaged", kept.Secret, 202)
	if err := s.Load(site(s)); err != nil {
		t.Fatal(err)
	}
	ask("known", kept.Secret, 202)
	ask("damaged", kept.Secret, 202)
	ask("damaged", revoked.Secret, 401)
	ask("known", stuck.Secret, 500) // a reload ends a key that cannot be revoked
	if n := strings.Count(s.Logs(), "stored data were found damaged"); n != 1 {
		t.Errorf("the log tells of it %d times", n)
	}
}
