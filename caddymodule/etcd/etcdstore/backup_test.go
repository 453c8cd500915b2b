package etcdstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// node opens a store under the test's own prefix.
func node(t *testing.T) *Store { return open(t, Options{}) }

func inMemory(t *testing.T) *badger.Store {
	t.Helper()
	s, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

type backuper interface {
	Backup(ctx context.Context, w io.Writer) error
}

// dumped returns a dump of a store, and its end.
func dumped(t *testing.T, s backuper) (content []byte, end dump.End) {
	t.Helper()
	var b bytes.Buffer
	if err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	content = b.Bytes()
	info, end, err := dump.Follow(&b, func(int, int) {})
	if err != nil || info.Records < end.Entries || info.Records > end.Entries+1 { // the number of the last commit
		t.Fatalf("got %+v and %+v, %v", info, end, err)
	}
	return content, end
}

func reader(t *testing.T, content []byte) *dump.Reader {
	t.Helper()
	r, err := dump.NewReader(bytes.NewReader(content), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// options are those of a restore into the test's own prefix.
func options(t *testing.T) Options {
	return Options{Endpoints: []string{sharedAddress(t)}, Prefix: prefix(t)}
}

// restored restores a dump into the test's own prefix.
func restored(t *testing.T, content []byte) {
	t.Helper()
	begun := time.Now()
	if err := Restore(t.Context(), options(t), reader(t, content)); err != nil {
		t.Fatal(err)
	}
	t.Logf("RESULT restore: bytes=%d took=%v", len(content), time.Since(begun))
}

// served waits until a store shows what was restored.
func served(t *testing.T, s *Store) {
	t.Helper()
	wait.Until(t, "the store is served", func() bool { return s.View(t.Context(), func(domain.Reader) error { return nil }) == nil })
}

// sound checks the integrity of a store.
func sound(t *testing.T, s *Store) {
	t.Helper()
	report, err := s.Check(t.Context())
	if err != nil || report.Records < 1000 || len(report.Problems) > 0 {
		t.Errorf("got %d records, error %v and the problems %q", report.Records, err, report.Problems)
	}
}

// largestCommit returns the largest number of records with the same revision.
func largestCommit(t *testing.T, s *Store) (most int) {
	t.Helper()
	response, err := s.client.Get(t.Context(), s.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	by := map[int64]int{}
	for _, kv := range response.Kvs {
		by[kv.ModRevision]++
		most = max(most, by[kv.ModRevision])
	}
	return most
}

// crowd fills a store with many small records.
func crowd(f storagetest.Filler) {
	ctx := context.Background()
	for n := range 700 {
		slug := fmt.Sprintf("w%d", n)
		f.Must(f.CreateWorkspace(ctx, f.By, domain.WorkspacePatch{Name: new("n"), Slug: new(slug)}))
		f.Version(slug, "p", "{}")
	}
}

// TestDump moves a store from Badger to etcd and back, while nodes of it are running. The dumps
// have the same digest.
func TestDump(t *testing.T) {
	from := inMemory(t)
	f := storagetest.Fill(t, from)
	f.Some()
	f.Much()
	crowd(f)
	content, want := dumped(t, from)

	there, other := node(t), node(t)
	if err := domain.NewService(there).EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored(t, content)
	most := largestCommit(t, there)
	t.Logf("RESULT restore: records in a commit=%d of %d", most, maxWrites)
	if most <= maxParts {
		t.Errorf("no commit had more than %d records", most)
	}
	for _, s := range []*Store{there, other, node(t)} {
		served(t, s)
		again, end := dumped(t, s)
		if end.Digest != want.Digest {
			t.Errorf("got %+v, want %+v", end, want)
		}
		content = again
	}
	sound(t, there)
	shortLeases(t, there)
	folder := filepath.Join(t.TempDir(), "new")
	if err := badger.Restore(t.Context(), folder, badger.Options{}, reader(t, content)); err != nil {
		t.Fatal(err)
	}
	back, err := badger.Open(folder, badger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if _, end := dumped(t, back); end.Digest != want.Digest {
		t.Errorf("back in Badger: got %+v, want %+v", end, want)
	}

	// The restored store works like any other.
	f = storagetest.Fill(t, there)
	f.Version("team", "long", `{"model":"next"}`)
	f.Label("team", "pruned", "gone", domain.Target{Version: 9})
	sound(t, other)
	if err := Restore(t.Context(), options(t), reader(t, content)); !errors.Is(err, dump.ErrNotNew) {
		t.Errorf("into a store with content: got error %v, want ErrNotNew", err)
	}
	sound(t, other)
}

// shortLeases checks that temporary records have leases of some days, and that no longer
// leases are left.
func shortLeases(t *testing.T, s *Store) {
	t.Helper()
	all, err := s.client.Leases(t.Context())
	if err != nil || len(all.Leases) == 0 {
		t.Fatalf("got %v, error %v", all, err)
	}
	for _, lease := range all.Leases {
		left, err := s.client.TimeToLive(t.Context(), lease.ID)
		if err != nil || left.TTL > 7*24*3600 {
			t.Errorf("a lease has %v, error %v", left, err)
		}
	}
	answers, err := s.client.Get(t.Context(), s.prefix+string(records.KindReplay.Prefix()), clientv3.WithPrefix())
	if err != nil || len(answers.Kvs) == 0 {
		t.Fatalf("got %v, error %v", answers, err)
	}
	for _, answer := range answers.Kvs {
		if answer.Lease == 0 {
			t.Error("an answer is kept for ever")
		}
	}
}

// TestRestoreCutShort cuts restores at several places. The store is not served after any of them,
// neither by a running node nor by a new one, and takes no change. The next restore begins anew.
func TestRestoreCutShort(t *testing.T) {
	from := inMemory(t)
	f := storagetest.Fill(t, from)
	f.Some()
	f.Much()
	content, want := dumped(t, from)
	running := node(t)
	if err := domain.NewService(running).EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.RequestTimeout = 30 * time.Second
	for part := 1; part < 5; part++ {
		err := Restore(t.Context(), options(t), reader(t, content[:part*len(content)/5]))
		if !errors.Is(err, dump.ErrUnusable) || !strings.Contains(err.Error(), "cut short") {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), o); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "restore it again") {
			t.Errorf("opened: got error %v, want that it must be restored again", err)
		}
		if err := running.View(t.Context(), func(domain.Reader) error { return nil }); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("viewed: got error %v, want ErrUnavailable", err)
		}
		if _, err := domain.NewService(running).CreateWorkspace(t.Context(), f.By, domain.WorkspacePatch{Name: new("n"), Slug: new("n")}); err == nil {
			t.Error("it was changed")
		}
		if err := running.Backup(t.Context(), io.Discard); err == nil {
			t.Error("it was backed up")
		}
	}
	// Nothing is left of what only a cut restore wrote.
	if _, err := running.client.Put(t.Context(), running.prefix+string(records.AuditKey(1<<30)), "left"); err != nil {
		t.Fatal(err)
	}
	restored(t, content)
	for _, s := range []*Store{running, node(t)} {
		served(t, s)
		if _, end := dumped(t, s); end.Digest != want.Digest {
			t.Errorf("got %+v, want %+v", end, want)
		}
	}
	sound(t, running)
}

// TestRestoresAtOnce lets a second restore begin while the first one writes. The first one fails,
// and what it wrote is gone.
func TestRestoresAtOnce(t *testing.T) {
	one, two := inMemory(t), inMemory(t)
	f := storagetest.Fill(t, one)
	f.Some()
	f.Much()
	storagetest.Fill(t, two).Some()
	first, _ := dumped(t, one)
	second, want := dumped(t, two)
	between := &hookedReader{Reader: bytes.NewReader(first), after: len(first) / 2, call: func() { restored(t, second) }}
	from, err := dump.NewReader(between, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := Restore(t.Context(), options(t), from); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "another restore") {
		t.Errorf("got error %v, want that another restore came first", err)
	}
	s := node(t)
	if _, end := dumped(t, s); end.Digest != want.Digest {
		t.Errorf("got %+v, want %+v", end, want)
	}
}

// TestRestoreAnsweredLate loses the answer to the last request of a restore. A node that is served
// again makes a change before that request is repeated. The restore has succeeded.
func TestRestoreAnsweredLate(t *testing.T) {
	t.Parallel()
	from := inMemory(t)
	storagetest.Fill(t, from).Some()
	content, _ := dumped(t, from)
	running := node(t)
	r := newRetrier(t, sharedAddress(t))
	etcd, changed := client(t), make(chan error, 1)
	var again func() error
	again = func() error { // between the two deliveries of each request
		if got, err := etcd.Get(t.Context(), prefix(t)+lastKey); err != nil || len(got.Kvs) == 0 {
			r.between.Store(&again)
			return err
		}
		served(t, running)
		changed <- running.Update(context.Background(), func(tx domain.Tx) error { return tx.PutWorkspace(newWorkspace("after")) })
		return nil
	}
	r.between.Store(&again)
	if err := Restore(t.Context(), Options{Endpoints: []string{r.address}, Prefix: prefix(t)}, reader(t, content)); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
}

// TestRestoreLeaseLost ends the lease of a kept answer before the answer is written. The restore
// gets another one.
func TestRestoreLeaseLost(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w, err := dump.NewWriter(&b, dump.Info{CreatedAt: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := records.ReplayKey(domain.ReplayID{1})
	kept, err := json.Marshal(domain.Replay{ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	payload := append(binary.AppendUvarint(nil, uint64(len(kept))), kept...)
	if err := errors.Join(w.Add(answer, records.Seal(answer, payload)), w.Close()); err != nil {
		t.Fatal(err)
	}
	m := cluster(t, 1)[0]
	etcd, r := client(t, m.address), newRetrier(t, m.address)
	revoked := false
	r.before.Store(new(func() {
		leases, err := etcd.Leases(t.Context())
		if err != nil || len(leases.Leases) == 0 || revoked {
			return
		}
		_, err = etcd.Revoke(t.Context(), leases.Leases[0].ID)
		revoked = err == nil
	}))
	if err := Restore(t.Context(), Options{Endpoints: []string{r.address}}, reader(t, b.Bytes())); err != nil || !revoked {
		t.Fatalf("revoked %t: got error %v, want none", revoked, err)
	}
	got, err := etcd.Get(t.Context(), DefaultPrefix+string(answer))
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].Lease == 0 {
		t.Errorf("got %v, %v, want the answer with a lease", got, err)
	}
}

// hookedReader calls a function after a number of bytes was read.
type hookedReader struct {
	io.Reader
	after int
	call  func()
}

func (h *hookedReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p[:min(len(p), 10<<10)])
	if h.after -= n; h.after <= 0 && h.call != nil {
		h.call()
		h.call = nil
	}
	return n, err
}

// hooked calls a function after a number of bytes was written.
type hooked struct {
	bytes.Buffer
	after int
	call  func()
}

func (h *hooked) Write(p []byte) (int, error) {
	n, err := h.Buffer.Write(p)
	if h.Len() >= h.after && h.call != nil {
		h.call()
		h.call = nil
	}
	return n, err
}

// TestDumpCompacted compacts etcd during a dump. The dump shows one revision or fails. It goes on
// if nothing changed since, or if etcd still has the old data.
func TestDumpCompacted(t *testing.T) {
	admin, s, other := client(t), open(t, Options{Memory: 1}), node(t)
	f := storagetest.Fill(t, other)
	f.Some()
	f.Much()
	before, _ := dumped(t, s)
	change := func() int64 {
		f.Version("team", "long", `{"model":"next"}`)
		return other.model.Latest().Revision
	}
	compact := func(revision int64) {
		if _, err := admin.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
			t.Error(err)
		}
	}
	now := func() int64 {
		response, err := admin.Get(t.Context(), "filler")
		if err != nil {
			t.Fatal(err)
		}
		return response.Header.Revision
	}
	foreign := func() int64 {
		if _, err := admin.Put(t.Context(), "filler", "x"); err != nil {
			t.Fatal(err)
		}
		return now()
	}
	for _, test := range []struct {
		name      string
		meanwhile func()
		fails     bool
	}{
		{"not changed", func() { compact(foreign()) }, false},
		{"changed, kept", func() { begun := now(); change(); compact(begun) }, false},
		{"compacted, then changed", func() { compact(foreign()); change() }, true},
		{"changed, then compacted", func() { compact(change()) }, true},
	} {
		foreign() // so that now has not been compacted
		var want dump.End
		if !test.fails {
			_, want = dumped(t, s)
		}
		to := &hooked{after: len(before) / 2, call: test.meanwhile}
		err := s.Backup(t.Context(), to)
		_, end, followed := dump.Follow(&to.Buffer, func(int, int) {})
		switch {
		case test.fails:
			if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "try again") {
				t.Errorf("%s: got error %v", test.name, err)
			}
			if followed == nil {
				t.Errorf("%s: it has an end", test.name)
			}
		case err != nil || followed != nil || end.Digest != want.Digest:
			t.Errorf("%s: got %+v, %v, %v, want %+v", test.name, end, err, followed, want)
		}
	}
}
