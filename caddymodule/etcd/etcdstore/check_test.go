package etcdstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestCheck damages stored records while a node has them in memory. The check ignores keys
// that are not records.
func TestCheck(t *testing.T) {
	admin, s := client(t), node(t)
	f := storagetest.Fill(t, s)
	f.Some()
	f.Much()
	for _, key := range []string{"", "x", "\xff\xff", "b/\x00last"} {
		if _, err := admin.Put(t.Context(), prefix(t)+key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	sound(t, s)
	report, _ := s.Check(t.Context())
	t.Logf("RESULT check: %d records, twice in %v", report.Records, time.Since(begun))

	some := func(of records.Kind) *clientv3.GetResponse {
		response, err := admin.Get(t.Context(), prefix(t)+string(of.Prefix()), clientv3.WithPrefix(), clientv3.WithLimit(1))
		if err != nil || len(response.Kvs) == 0 {
			t.Fatal(response, err)
		}
		return response
	}
	version, key := some(records.KindVersion).Kvs[0], some(records.KindKeyHash).Kvs[0]
	flipped := bytes.Clone(version.Value)
	flipped[len(flipped)-1] ^= 1
	_, err1 := admin.Put(t.Context(), string(version.Key), string(flipped))
	_, err2 := admin.Delete(t.Context(), string(key.Key))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	report, err := s.Check(t.Context())
	text := strings.Join(report.Problems, "\n")
	if err != nil || !strings.Contains(text, "a preset version record: its checksum") || !strings.Contains(text, "it cannot be found by its hash") {
		t.Errorf("got error %v and the problems %s", err, text)
	}
	if !errors.Is(report.Err(), storage.ErrDamaged) {
		t.Errorf("got error %v", report.Err())
	}
}

// TestCheckAway disconnects the cluster during a check. The check reports no damage.
func TestCheckAway(t *testing.T) {
	t.Parallel()
	p := newProxy(t, sharedAddress(t))
	s := open(t, Options{Endpoints: []string{p.address}, RequestTimeout: 5 * time.Second, MaxStaleness: time.Minute})
	f := storagetest.Fill(t, open(t, Options{}))
	f.Some()
	f.Much()
	wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
	p.set(func() { p.cutAfter = 600 << 10 })
	report, err := s.Check(t.Context())
	if !errors.Is(err, domain.ErrUnavailable) || len(report.Problems) > 0 {
		t.Errorf("after %d records: got error %v and the problems %q", report.Records, err, report.Problems)
	}
	if report.Records == 0 {
		t.Error("it had not begun")
	}
	t.Logf("RESULT check, cut off: %d records", report.Records)
}
