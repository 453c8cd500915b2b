package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestPurgeForOthers deletes a workspace on a node that gets no more answers, so it never
// purges the content. Another node does, which gets no token for that deletion.
func TestPurgeForOthers(t *testing.T) {
	t.Parallel()
	p := newProxy(t, sharedAddress(t))
	silent := open(t, Options{Endpoints: []string{p.address}})
	other := open(t, Options{purgeInterval: 100 * time.Millisecond})
	w := newWorkspace("w")
	if err := other.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(w) }); err != nil {
		t.Fatal(err)
	}
	put(t, other, w.ID, "p")
	etcd := client(t)
	stored := func() bool {
		response, err := etcd.Get(t.Context(), prefix(t)+string(records.PresetKey(w.ID, "p")))
		if err != nil {
			t.Fatal(err)
		}
		return len(response.Kvs) > 0
	}
	if !stored() {
		t.Fatal("the preset is not under its key: this tests nothing")
	}
	if err := silent.Sync(t.Context()); err != nil { // so that its change is made at once
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() {
		deleted <- silent.Update(context.Background(), func(tx domain.Tx) error {
			err := tx.DeleteWorkspace(w)
			p.set(func() { p.paused[answers] = true })
			return err
		})
	}()
	wait.Until(t, "the other node purges", func() bool { return !stored() })
	p.renew()
	if err := <-deleted; err != nil && !errors.Is(err, domain.ErrUnknown) {
		t.Errorf("got error %v, want none or ErrUnknown", err)
	}
}
