package etcd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// node opens a store under the test's own prefix.
func node(t *testing.T) *Store { return open(t, Options{RequestTimeout: 10 * time.Second}) }

func inMemory(t *testing.T) *badger.Store {
	t.Helper()
	s, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// exported returns an export, and all of its lines but the first and the last, which
// have the time.
func exported(t *testing.T, s domain.Store) (content, inside []byte, digest string) {
	t.Helper()
	var b bytes.Buffer
	summary, err := transfer.Export(t.Context(), s, &b)
	if err != nil {
		t.Fatal(err)
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

// sameExport checks that an export has what another had inside, byte by byte.
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

// sound checks that all that is in a store is in order.
func sound(t *testing.T, s *Store) {
	t.Helper()
	report, err := s.Check(t.Context())
	if err != nil || report.Records < 1000 || len(report.Problems) > 0 {
		t.Errorf("got %d records, error %v and the problems %q", report.Records, err, report.Problems)
	}
}

// largestCommit returns how many records at most are as one commit has left them.
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

// crowd puts what makes the most records of few bytes into a store.
func crowd(f storagetest.Filler) {
	ctx := context.Background()
	for n := range 700 {
		slug := fmt.Sprintf("w%d", n)
		f.Must(f.CreateWorkspace(ctx, f.By, domain.NewWorkspace{Name: "n", Slug: slug}))
		f.Version(slug, "p", "{}")
	}
}

// TestTransfer moves a store from Badger to etcd, where another node looks on, and
// back. All that an export has stays as it is.
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

	// It is a store like any other.
	f = storagetest.Fill(t, there)
	f.Version("team", "long", `{"model":"next"}`)
	f.Label("team", "pruned", "gone", domain.Target{Version: 9})
	sound(t, other)
}

// An import that was interrupted is gone on with by another node.
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
			t.Error("what is not finished was exported")
		}
	}
	if interruptions != 4 {
		t.Errorf("got %d interruptions", interruptions)
	}
}
