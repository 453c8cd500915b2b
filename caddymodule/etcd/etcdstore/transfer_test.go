package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
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

// exported returns an export, and its lines without the first and last, which contain the
// time.
func exported(t *testing.T, s domain.Store) (content, inside []byte, digest string) {
	t.Helper()
	var b bytes.Buffer
	summary, err := transfer.Export(t.Context(), s, &b)
	if err != nil {
		t.Fatal(err)
	}
	about, err := transfer.Objects(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	// The content of a deleted workspace is removed a little later.
	if want := summary.Total() - summary.Answers; about < want || about > want+10 {
		t.Errorf("got about %d objects, want %d", about, want)
	}
	all := bytes.SplitAfter(b.Bytes(), []byte("\n"))
	return b.Bytes(), bytes.Join(all[1:len(all)-2], nil), summary.Digest
}

func imported(t *testing.T, s domain.Store, content []byte) {
	t.Helper()
	begun := time.Now()
	summary, err := transfer.Import(t.Context(), s, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("RESULT import: bytes=%d took=%v %+v", len(content), time.Since(begun), summary.Counts)
}

// sameExport checks that two exports have the same content, byte by byte.
func sameExport(t *testing.T, what string, got, want []byte) {
	t.Helper()
	g, w := bytes.SplitAfter(got, []byte("\n")), bytes.SplitAfter(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			t.Fatalf("%s: line %d:\ngot  %.500s\nwant %.500s", what, i+2, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%s: got %d lines, want %d", what, len(g), len(w))
	}
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
		f.Must(f.CreateWorkspace(ctx, f.By, domain.NewWorkspace{Name: "n", Slug: slug}))
		f.Version(slug, "p", "{}")
	}
}

// TestTransfer moves a store from Badger to etcd and back, while another etcd node is
// running. The exports have the same content.
func TestTransfer(t *testing.T) {
	from := inMemory(t)
	f := storagetest.Fill(t, from)
	f.Some()
	f.Much()
	crowd(f)
	content, want, digest := exported(t, from)

	there, other := node(t), node(t)
	if err := domain.NewService(there).EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	imported(t, there, content)
	most := largestCommit(t, there)
	t.Logf("RESULT import: records in a commit=%d of %d", most, maxWrites)
	if most <= maxParts {
		t.Errorf("no commit had more than %d records", most)
	}
	sound(t, there)
	back := inMemory(t)
	for _, s := range []*Store{there, other, node(t)} {
		again, got, gotDigest := exported(t, s)
		sameExport(t, "from etcd", got, want)
		if gotDigest != digest {
			t.Errorf("got digest %s, want %s", gotDigest, digest)
		}
		content = again
	}
	imported(t, back, content)
	_, got, gotDigest := exported(t, back)
	sameExport(t, "back in Badger", got, want)
	if gotDigest != digest {
		t.Errorf("back in Badger: got digest %s, want %s", gotDigest, digest)
	}

	// The imported store works like any other.
	f = storagetest.Fill(t, there)
	f.Version("team", "long", `{"model":"next"}`)
	f.Label("team", "pruned", "gone", domain.Target{Version: 9})
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

// TestTransferResumed interrupts an import and continues it from another node.
func TestTransferResumed(t *testing.T) {
	from := inMemory(t)
	f := storagetest.Fill(t, from)
	f.Some()
	f.Much()
	content, want, _ := exported(t, from)
	interruptions := 0
	for part := 1; ; part++ {
		s := node(t)
		some := content[:min(len(content), part*len(content)/5)]
		summary, err := transfer.Import(t.Context(), s, bytes.NewReader(some))
		if err == nil {
			if summary.Resumed == 0 {
				t.Error("it was begun anew")
			}
			shortLeases(t, s)
			_, got, _ := exported(t, s)
			sameExport(t, "after all", got, want)
			sound(t, s)
			break
		}
		if !strings.Contains(err.Error(), "cut short") {
			t.Fatal(err)
		}
		interruptions++
		if _, err := transfer.Export(t.Context(), s, io.Discard); part > 1 && err == nil {
			t.Error("an unfinished import was exported")
		}
	}
	if interruptions != 4 {
		t.Errorf("got %d interruptions", interruptions)
	}
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

// TestTransferCompacted compacts etcd during an export. The export shows one revision or
// fails. It continues if nothing changed since, or if etcd still has the old data.
func TestTransferCompacted(t *testing.T) {
	admin, s, other := client(t), open(t, Options{Memory: 1}), node(t)
	f := storagetest.Fill(t, other)
	f.Some()
	f.Much()
	before, _, _ := exported(t, s)
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
		var want []byte
		if !test.fails {
			_, want, _ = exported(t, s)
		}
		to := &hooked{after: len(before) / 2, call: test.meanwhile}
		_, err := transfer.Export(t.Context(), s, to)
		lines := bytes.SplitAfter(to.Bytes(), []byte("\n"))
		switch {
		case test.fails:
			if !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "try again") {
				t.Errorf("%s: got error %v", test.name, err)
			}
			if bytes.HasPrefix(lines[len(lines)-2], []byte(`{"end"`)) {
				t.Errorf("%s: it has an end", test.name)
			}
		case err != nil:
			t.Errorf("%s: %v", test.name, err)
		default:
			sameExport(t, test.name, bytes.Join(lines[1:len(lines)-2], nil), want)
		}
	}
}

// TestTransferAbandoned gives an import up that was cut, by another node. The store is then
// whole, and both nodes change it.
func TestTransferAbandoned(t *testing.T) {
	from := inMemory(t)
	f := storagetest.Fill(t, from)
	f.Some()
	f.Much()
	content, _, _ := exported(t, from)
	for _, part := range []int{50, 90} { // in percent
		t.Run(fmt.Sprint(part), func(t *testing.T) { abandonCut(t, content[:len(content)*part/100]) })
	}
}

// abandonCut imports a cut export by one node, and gives that up by another.
func abandonCut(t *testing.T, content []byte) {
	there, other := node(t), node(t)
	if _, err := transfer.Import(t.Context(), there, bytes.NewReader(content)); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Fatal(err)
	}
	service := domain.NewService(other)
	by := domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})
	abandoned, err := transfer.Abandon(t.Context(), other, service, by)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", abandoned)
	if _, err := transfer.Abandon(t.Context(), there, domain.NewService(there), by); !errors.Is(err, transfer.ErrNone) {
		t.Errorf("again: got error %v", err)
	}
	for _, s := range []*Store{there, other} {
		f := storagetest.Fill(t, s)
		f.Must(nil, f.EnsureDefaultWorkspace(t.Context()))
		f.Version("", "new", "{}")
		report, err := s.Check(t.Context())
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("got error %v and the problems %q", err, report.Problems)
		}
	}
	rest, _, _ := exported(t, there)
	if _, err := transfer.Verify(t.Context(), bytes.NewReader(rest)); err != nil {
		t.Error(err)
	}
	imported(t, inMemory(t), rest)
}
