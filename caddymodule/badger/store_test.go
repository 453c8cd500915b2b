package caddymodule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/domain"
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
	const block = standard + "\ninference {\nkeys required\n}" // other routes need no store
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
		h.retry(t.Context(), new(attempts), time.Now())
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

// TestUnreachableFolder is a folder that cannot be made: it is the trouble of what needs
// the store alone, until it can be.
func TestUnreachableFolder(t *testing.T) {
	s := start(t, standard)
	served := func() { // what needs no store
		t.Helper()
		s.do("GET", "/v1/files", "").want(t, 202)
	}
	if _, err := os.Stat("/proc/self"); err == nil {
		if err := s.load(s.siteAt(s.address, "presets {\nstorage badger /proc/presets-of-a-test/store\n"+standard+"\n}")); err != nil {
			t.Fatalf("a folder that cannot be made keeps the server from starting: %v", err)
		}
		s.manage("GET", "/v1/presets", "").want(t, 503)
		served()
	}

	target := filepath.Join(t.TempDir(), "unmounted")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err) // Windows lets not everyone
	}
	if err := s.load(s.siteAt(s.address, "presets {\nstorage badger "+link+"\n"+standard+"\n}")); err != nil {
		t.Fatalf("a link that leads to nothing keeps the server from starting: %v", err)
	}
	s.manage("GET", "/v1/presets", "").want(t, 503)
	served()
	if !strings.Contains(s.logs(), "is its file system mounted?") {
		t.Error("the log does not say what is the matter")
	}
	if err := os.Rename(closedStore(t), target); err != nil {
		t.Fatal(err)
	}
	if !s.eventually(func() bool { return s.manage("GET", "/v1/presets", "").status == 200 }) {
		t.Fatal("the store that is there now is not opened")
	}
}

// A store that has lost its marker is emptied to restore a backup, and that is given up:
// no new store is made of what is left.
func TestRetryAfterARestore(t *testing.T) {
	marker := func(folder string) string { return filepath.Join(folder, badger.MarkerName) }
	folder := closedStore(t)
	if err := os.Remove(marker(folder)); err != nil {
		t.Fatal(err)
	}
	h := &handle{folder: folder, probe: probeApart, newest: func() *folderSettings { return nil }}
	a := h.attempts()
	if err := h.open(t.Context(), a.new); !errors.Is(err, badger.ErrDamaged) {
		t.Fatalf("got error %v, want that it is damaged", err)
	}
	now := time.Now()
	retry := func() {
		t.Helper()
		now = now.Add(time.Hour)
		h.retry(t.Context(), &a, now)
		if h.store.Load() != nil {
			t.Fatal("a store was opened")
		}
	}
	retry()
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	retry()
	if err := os.WriteFile(marker(folder), []byte(`{"format":3,"id":"x","state":"restoring"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	retry()
	if _, why := h.get(); errors.Is(why, badger.ErrDamaged) {
		t.Fatalf("got %v, want another reason", why)
	}
	if err := os.Remove(marker(folder)); err != nil {
		t.Fatal(err)
	}
	retry()
	if h.isStore() {
		t.Error("a new store was made")
	}
}

// The folder behind a link may be where a file system with a store is yet to be mounted.
func TestRetryBehindALink(t *testing.T) {
	target, link := filepath.Join(t.TempDir(), "unmounted"), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err) // Windows lets not everyone
	}
	for _, folder := range []string{link, filepath.Join(link, "store")} {
		h := &handle{folder: folder, newest: func() *folderSettings { return nil }}
		a := h.attempts()
		if err := h.open(t.Context(), a.new); !errors.Is(err, domain.ErrUnavailable) {
			t.Fatalf("%s: got error %v, want that it is not there", folder, err)
		}
		if err := os.Mkdir(target, 0o700); err != nil {
			t.Fatal(err)
		}
		h.retry(t.Context(), &a, time.Now())
		if entries, err := os.ReadDir(target); err != nil || len(entries) > 0 || h.store.Load() != nil {
			t.Errorf("%s: got %v, %v, want nothing in the folder", folder, entries, err)
		}
		if err := os.Remove(target); err != nil {
			t.Fatal(err)
		}
	}
}

// A retry makes a new store where there was none at the start, and nowhere else.
func TestRetryOfANewStore(t *testing.T) {
	for _, tc := range []struct {
		name string
		new  bool
		why  error
		want bool
	}{
		{"none at the start", true, badger.ErrDiskFull, true},
		{"none, for another reason", true, os.ErrPermission, true},
		{"its marker was lost", true, badger.ErrDamaged, false},
		{"moved away on a full disk", false, badger.ErrDiskFull, false},
		{"moved away", false, os.ErrPermission, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &handle{folder: filepath.Join(t.TempDir(), "store"), why: tc.why, newest: func() *folderSettings { return nil }}
			h.retry(t.Context(), &attempts{new: tc.new}, time.Now())
			if made := h.isStore(); made != tc.want {
				t.Errorf("a store was made: %t, want %t", made, tc.want)
			}
			if store := h.store.Load(); store != nil {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// onlyHandle returns the handle of the only folder in use.
func onlyHandle(t *testing.T) (only *handle) {
	t.Helper()
	for h := range folders.InUse() {
		only = h
	}
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

// A store is looked at again and again without anyone asking for it.
func TestScrubsByItself(t *testing.T) {
	s := start(t, standard)
	config, err := adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nlog {\noutput file %s\n}\n}\n%s", s.admin, s.logFile,
		s.siteAt(s.address, fmt.Sprintf("presets {\nstorage badger %s {\nscrub_interval 1s\n}\n%s\n}", s.folder, standard))))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"scrub_interval":1000000000`), []byte(`"scrub_interval":"30ms"`), 1) // JSON may say less
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	if !s.eventually(func() bool { return strings.Count(s.logs(), "nothing is damaged") >= 2 }) {
		t.Error("the store is not looked at twice")
	}
}

func TestChecksDue(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		some     bool
		luck     float64
		interval time.Duration
		want     time.Duration // after the last; negative for never
	}{
		{false, 0, day, 0},
		{false, 1, day, time.Hour},
		{false, 0.5, day, 30 * time.Minute},
		{false, 1, 10 * time.Minute, time.Minute},
		{true, 0, day, day},
		{false, 0, -1, -1},
		{true, 0, -1, -1},
	} {
		last := time.Now()
		c := checks{last: last, some: tc.some, luck: tc.luck}
		if tc.want < 0 {
			if c.due(last.Add(1000*day), tc.interval) {
				t.Errorf("%+v: a check is due that there is to be none of", tc)
			}
			continue
		}
		if !c.due(last.Add(tc.want), tc.interval) || c.due(last.Add(tc.want-1), tc.interval) {
			t.Errorf("%+v: it is not due just then", tc)
		}
	}
	if a, b := newChecks(time.Now()), newChecks(time.Now()); a.luck == b.luck {
		t.Errorf("got %g twice, want that servers do not all check at once", a.luck)
	}
}

// Reading a damaged record is counted, whoever asks.
func TestDamageOfARecord(t *testing.T) {
	const canary = "CANARY of a record"
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/responses", `{"model":"m","instructions":"`+canary+`"}`).want(t, 200)
	s.stop() // which writes it to a table
	s.reload(standard)
	series := `caddy_presets_store_damage_total{store="` + s.canonicalFolder() + `"}`
	if got := s.metric(series); got != "0" {
		t.Errorf("before there is damage: got %q, want 0", got)
	}
	tables, _ := filepath.Glob(filepath.Join(s.folder, "*.sst"))
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
	if r := s.manage("GET", "/v1/presets/p/versions/1", ""); r.status < 500 || strings.Contains(r.body, "ANARY") {
		t.Errorf("got %d, %s, want an error without what is damaged", r.status, r.body)
	}
	if got := s.metric(series); got == "0" || got == "" {
		t.Errorf("got %q damages, want some", got)
	}
}

// A store in which nobody was before, and that cannot be opened at first, has its
// default workspace once it can.
func TestDefaultWorkspaceLater(t *testing.T) {
	s := start(t, standard)
	s.folder = storeFolder(t)
	store, err := badger.Open(s.folder, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service := domain.NewService(store) // a table needs something in it
	if _, _, err := service.IssueKey(t.Context(), operator, domain.NewKey{Kind: domain.ManagementKey}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	undo := damage(t, s.folder)
	s.reload(standard)
	s.manage("GET", "/v1/workspaces/default", "").want(t, 503)
	undo()
	if !s.eventually(func() bool { return s.manage("GET", "/v1/workspaces/default", "").status == 200 }) {
		t.Error("there is no default workspace")
	}
	s.stop() // before the folder goes
}

// told is a store whose answers are given, and which counts how often it is asked.
type told struct {
	domain.Store
	err   error
	asked int
}

func (s *told) View(context.Context, func(domain.Reader) error) error { s.asked++; return s.err }

func (s *told) Update(context.Context, func(domain.Tx) error) error { s.asked++; return s.err }

func (*told) Stamps() *domain.Stamps     { return noStamps }
func (*told) Sync(context.Context) error { return nil }

func TestEnsureLaterEnds(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	broken := &told{err: errors.New("broken")}
	h := &Handler{logger: zap.New(core), service: domain.NewService(broken)}
	h.ensureLater(t.Context())
	if entries := logs.FilterField(zap.Error(broken.err)).All(); broken.asked != 1 || len(entries) != 1 || entries[0].Level != zap.ErrorLevel {
		t.Errorf("got %d attempts and %v, want one that is logged as an error", broken.asked, logs.All())
	}
	for _, err := range []error{domain.ErrConflict, domain.ErrUnknown} {
		passing := &told{err: fmt.Errorf("%w: for now", err)}
		h.service = domain.NewService(passing)
		ctx, cancel := context.WithTimeout(t.Context(), 10*retryInterval)
		h.ensureLater(ctx)
		cancel()
		if passing.asked < 2 {
			t.Errorf("%v: got %d attempts, want another", err, passing.asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	absent := &told{err: domain.ErrUnavailable}
	h.service = domain.NewService(absent)
	for range 20 { // a select would pick either
		h.ensureLater(ctx)
	}
	if absent.asked != 0 {
		t.Errorf("the store was asked %d times after the end", absent.asked)
	}
}

// A request whose time is over does not open a folder that is in nobody's
// configuration any more.
func TestLeaseAfterTheEnd(t *testing.T) {
	l := newLease(folderSettings{folder: storeFolder(t), logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.View(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that its context has ended", err)
	}
	if _, err := os.Stat(l.Settings.folder); err == nil {
		t.Error("the folder was opened")
	}
}

// closedStore makes a store that nobody has open.
func closedStore(t *testing.T) (folder string) {
	t.Helper()
	folder = storeFolder(t)
	store, err := badger.Open(folder, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

// A handle that is no longer needed does not wait for what an attempt to open the
// store takes.
func TestCloseEndsProbe(t *testing.T) {
	probing, first := make(chan struct{}), true
	h := &handle{folder: closedStore(t), newest: func() *folderSettings { return nil }, probe: func(ctx context.Context, _ string, _ badger.Options) error {
		if first {
			first = false
			return domain.ErrUnavailable
		}
		close(probing)
		<-ctx.Done()
		return fmt.Errorf("%w: %w", domain.ErrUnavailable, ctx.Err())
	}}
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
	<-probing
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// While a folder is being opened the metrics of the others can be read.
func TestMetricsWhileOpening(t *testing.T) {
	start(t, standard)
	folders.Turn.Lock()
	defer folders.Turn.Unlock()
	gathered := make(chan int)
	go func() {
		registry := prometheus.NewRegistry()
		_ = registerStoreMetrics(registry)
		families, _ := registry.Gather()
		gathered <- len(families)
	}()
	select {
	case n := <-gathered:
		if n == 0 {
			t.Error("there are no metrics of the store that is open")
		}
	case <-time.After(30 * time.Second):
		t.Error("the metrics wait for the folder")
	}
}

// Attempts that read all tables become rare, those on a full disk do not; and only
// another reason is told of.
func TestRetries(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	var failure error
	probes := 0
	h := &handle{folder: closedStore(t), probe: func(context.Context, string, badger.Options) error { probes++; return failure }}
	h.newest = func() *folderSettings { return &folderSettings{logger: zap.New(core)} }
	now, a := time.Now(), attempts{pause: retryInterval}
	try := func(err error) (tried bool) {
		before := probes
		failure = err
		h.retry(t.Context(), &a, now)
		return probes > before
	}
	other := func() error { return fmt.Errorf("%w: %d", domain.ErrUnavailable, probes) }
	var pauses []time.Duration
	h.why = other()
	for range 12 {
		if !try(other()) {
			t.Fatal("it is not tried when its time has come")
		}
		pauses = append(pauses, a.pause)
		if now = now.Add(a.pause - 1); try(other()) {
			t.Fatal("it is tried before its time")
		}
		now = a.next
	}
	if pauses[0] != 2*retryInterval || pauses[1] != 4*retryInterval || slices.Max(pauses) != maxRetryPause || pauses[11] != maxRetryPause {
		t.Errorf("got pauses %v, want that they double up to %v", pauses, maxRetryPause)
	}
	if n := logs.Len(); n != 0 {
		t.Errorf("got %d lines, want none for the same reason", n)
	}
	full := func() error { return fmt.Errorf("%w: %d MiB are free", badger.ErrDiskFull, probes) }
	for range 5 {
		if !try(full()) {
			t.Fatal("a full disk is not looked at each time")
		}
	}
	if n := logs.Len(); n != 1 {
		t.Errorf("got %d lines, want one for the new reason", n)
	}
	if !try(nil) || h.store.Load() == nil {
		t.Fatal("it is not open")
	}
	if err := h.store.Load().Close(); err != nil {
		t.Error(err)
	}
}

func TestVerifyCommand(t *testing.T) {
	s := start(t, standard)
	out, _, err := run("verify", "--address", s.admin)
	if err != nil || !strings.Contains(out, "Nothing is damaged") {
		t.Errorf("a running server: got %q, %v", out, err)
	}
	for _, args := range [][]string{{"verify", s.folder}, {"verify", "--quick", s.folder}} {
		_, errs, err := run(args...)
		if err == nil || !strings.Contains(errs+err.Error(), "in use") || !strings.Contains(errs+err.Error(), "without the folder") {
			t.Errorf("%v of a folder in use: got %q, %v", args, errs, err)
		}
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
	_ checker = (*lease)(nil)
	_ checker = (*badger.Store)(nil)
)
