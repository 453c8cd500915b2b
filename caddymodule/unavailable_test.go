package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// damage damages the store of a server that does not run, and returns how to undo
// that.
func damage(t *testing.T, folder string) (undo func()) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("got tables %v, %v, want some", tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(tables[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	write(flipped)
	return func() { write(whole) }
}

// TestDamagedStore is the trouble of what needs the store and of nothing else, until
// the folder is whole again.
func TestDamagedStore(t *testing.T) {
	const block = standard + "\ninference"
	s := start(t, block)
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).want(t, 200)
	issued := s.issue(`{"kind":"inference"}`).secret
	s.stop()
	undo := damage(t, s.folder)
	if err := s.load(s.site(block)); err != nil {
		t.Fatalf("a damaged store keeps the server from starting: %v", err)
	}
	unavailable := func(r response) {
		t.Helper()
		r.want(t, 503)
		if r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "Service temporarily unavailable") {
			t.Errorf("got %q with %v, want when to ask again", r.body, r.header)
		}
	}
	unavailable(s.manage("GET", "/v1/presets", ""))
	unavailable(s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`))
	unavailable(s.do("GET", "/v1/presets", "", bearer(issued))) // it cannot be told who that is
	const chat = "/v1/chat/completions"
	unavailable(s.do("POST", chat, `{"model":"@preset/p"}`, bearer(inferenceSecret)))
	unavailable(s.do("POST", chat, `{"model":"acme/large"}`, bearer(issued)))
	unavailable(s.do("POST", chat, `{"model":"acme/large","tools":[{"type":"openrouter:web_search"}]}`, bearer(inferenceSecret)))
	s.do("POST", chat, `{"model":"acme/large","tools":[{"type":"function"}]}`, bearer(inferenceSecret)).want(t, 202)
	s.do("GET", "/v1/files", "").want(t, 202)
	s.do("GET", "/v1/presets", "").want(t, 401)
	if !strings.Contains(s.logs(), "the store cannot be opened") || !strings.Contains(s.logs(), "restore a backup") {
		t.Error("the log does not say what is the matter")
	}
	if s.metric(`caddy_presets_store_available{store="`+s.canonicalFolder()+`"}`) != "0" {
		t.Error("the metrics do not say that the store is not available")
	}

	undo()
	if !s.eventually(func() bool { return s.manage("GET", "/v1/presets/p", "").status == 200 }) {
		t.Fatal("the store that is whole again is not opened")
	}
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).want(t, 200)
	s.do("POST", chat, `{"model":"@preset/p"}`, bearer(issued)).want(t, 202)
	for _, want := range []string{"available", "writable"} {
		if s.metric("caddy_presets_store_"+want+`{store="`+s.canonicalFolder()+`"}`) != "1" {
			t.Errorf("the metrics do not say that the store is %s", want)
		}
	}
}

// TestReplacedStore does not take a folder that is being replaced for an empty one.
func TestReplacedStore(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).want(t, 200)
	s.stop()
	undo := damage(t, s.folder)
	if err := s.load(s.site(standard)); err != nil {
		t.Fatal(err)
	}
	aside := s.folder + "-aside"
	if err := os.Rename(s.folder, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	h := onlyHandle(t)
	for range 3 {
		h.retry("")
		s.manage("GET", "/v1/presets", "").want(t, 503)
	}
	if entries, err := os.ReadDir(s.folder); err != nil || len(entries) > 0 {
		t.Errorf("got %v, %v in the new folder, want nothing", entries, err)
	}
	if err := os.Remove(s.folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, s.folder); err != nil {
		t.Fatal(err)
	}
	undo()
	if !s.eventually(func() bool { return s.manage("GET", "/v1/presets/p", "").status == 200 }) {
		t.Fatal("the store that is back is not opened")
	}
}

// onlyHandle returns the handle of the only folder in use.
func onlyHandle(t *testing.T) (only *handle) {
	t.Helper()
	folders.pool.Range(func(_, value any) bool {
		only = value.(*handle)
		return true
	})
	if only == nil {
		t.Fatal("no folder is in use")
	}
	return only
}

func TestScrubs(t *testing.T) {
	s := start(t, standard)
	h := onlyHandle(t)
	h.scrub(t.Context(), h.store.Load())
	if !strings.Contains(s.logs(), "nothing is damaged") {
		t.Error("a check that found nothing is not logged")
	}
	if at := s.metric(`caddy_presets_store_checked_timestamp_seconds{store="` + s.canonicalFolder() + `"}`); at == "" || at == "0" {
		t.Error("the metrics do not tell when it was checked")
	}
}

func TestVerifyCommand(t *testing.T) {
	s := start(t, standard)
	out, _, err := run("verify", "--address", s.admin)
	if err != nil || !strings.Contains(out, "Nothing is damaged") {
		t.Errorf("a running server: got %q, %v", out, err)
	}
	_, errs, err := run("verify", s.folder)
	if err == nil || !strings.Contains(errs+err.Error(), "in use") {
		t.Errorf("a folder in use: got %q, %v", errs, err)
	}
	s.stop()
	out, _, err = run("verify", s.folder)
	if err != nil || !strings.Contains(out, "Nothing is damaged") {
		t.Errorf("a folder: got %q, %v", out, err)
	}
	damage(t, s.folder)
	for _, args := range [][]string{{"verify", s.folder}, {"verify", "--json", s.folder}, {"verify", "--quick", s.folder}} {
		out, _, err = run(args...)
		if err == nil || !strings.Contains(out, "damaged") {
			t.Errorf("%v of a damaged folder: got %q, %v", args, out, err)
		}
	}
	if _, _, err = run("verify", "--quick"); err == nil {
		t.Error("--quick without a folder is accepted")
	}
	if _, _, err = run("verify", t.TempDir()); err == nil {
		t.Error("an empty folder is accepted")
	}
}

func TestUnknownCommands(t *testing.T) {
	for _, args := range [][]string{{"bakcup", "x"}, {"nonsense"}, {"key", "a", "b"}} {
		if _, _, err := run(args...); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%v: got %v, want that there is no such command", args, err)
		}
	}
	if out, _, err := run("key"); err != nil || !strings.Contains(out, "create") {
		t.Errorf("key alone: got %q, %v, want help", out, err)
	}
}

var (
	_ caddy.Destructor = (*handle)(nil)
	_ checker          = (*lease)(nil)
	_ checker          = (*badger.Store)(nil)
)
