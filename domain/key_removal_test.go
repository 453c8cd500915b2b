package domain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// keyIDs returns the ids of all stored keys, the oldest first.
func (f *fixture) keyIDs(t *testing.T) []string {
	t.Helper()
	keys, err := f.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return idsOf(keys)
}

func idsOf(keys []domain.Key) (ids []string) {
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// issue issues a management key with a lifetime.
func (f *fixture) issue(t *testing.T, lifetime time.Duration) (domain.Key, string) {
	t.Helper()
	k, secret := f.newKey(domain.NewKey{Kind: domain.ManagementKey, Name: "laptop", Lifetime: lifetime})
	return k, secret
}

func (f *fixture) revoke(t *testing.T, k domain.Key) {
	t.Helper()
	if _, err := f.RevokeKey(t.Context(), domain.By(admin), k.ID); err != nil {
		t.Fatal(err)
	}
}

// A removed key leaves its records in the audit trail, and no name.
func TestRemoveKey(t *testing.T) {
	f := newFixture(t)
	k, secret := f.issue(t, 0)
	expired, _ := f.issue(t, time.Hour)
	w := domain.By(domain.Principal{KeyID: k.ID, UserID: "ann", Kind: domain.ManagementKey, Hash: k.Hash})
	w.Idempotency = domain.Idempotency{Key: "again", Request: [32]byte{1}}
	f.must(f.ReleasePresetVersion(t.Context(), w, "", "p", nothing, domain.Release{}))
	names := func() (names []string) {
		list := f.found(f.PresetHistory(t.Context(), admin, "", "p", domain.Page{Limit: 10}))
		var entries []entry
		if err := json.Unmarshal(list.JSON, &entries); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := "null"
			if e.KeyName != nil {
				name = *e.KeyName
			}
			names = append(names, *e.KeyID+" "+name)
		}
		return names
	}
	if got, want := names(), []string{k.ID + " laptop"}; !slices.Equal(got, want) {
		t.Errorf("got the history %q, want %q", got, want)
	}
	hash := domain.HashSecret(secret)
	if _, err := f.Authenticate(t.Context(), hash); err != nil { // it is cached now
		t.Fatal(err)
	}

	before := f.records(t)
	for _, live := range []domain.Key{k, expired} {
		wantKind(t, errOf(f.RemoveKey(t.Context(), domain.By(admin), live.ID)), domain.Conflict, "The key is live: revoke it first")
	}
	for _, id := range []string{"", "absent", f.trail(t)[0].Object.ID} {
		wantKind(t, errOf(f.RemoveKey(t.Context(), domain.By(admin), id)), domain.NotFound, "Key not found")
	}
	if got := f.records(t); got != before {
		t.Errorf("refused removals added %d audit records", got-before)
	}

	f.revoke(t, k)
	f.now = f.now.Add(time.Hour) // the other one expires
	for _, gone := range []domain.Key{k, expired} {
		got, err := f.RemoveKey(t.Context(), domain.By(admin), gone.ID)
		if err != nil || got.ID != gone.ID || got.Hint != gone.Hint {
			t.Errorf("got key %+v and error %v, want %s", got, err, gone.ID)
		}
		last := f.trail(t)[f.records(t)-1]
		if last.Operation != "key.remove" || last.Object.ID != gone.ID || last.Object.Kind != "key" || last.UserID != admin.UserID {
			t.Errorf("got the audit record %+v", last)
		}
		wantKind(t, errOf(f.RemoveKey(t.Context(), domain.By(admin), gone.ID)), domain.NotFound, "Key not found")
	}
	if got := f.keyIDs(t); len(got) > 0 {
		t.Errorf("keys %q are left", got)
	}
	wantKind(t, errOf(f.Authenticate(t.Context(), hash)), domain.Unauthenticated, "Invalid credentials")
	if _, ok := f.AuthenticateKnown(hash); ok {
		t.Error("a removed key is known")
	}
	if got, want := names(), []string{k.ID + " null"}; !slices.Equal(got, want) {
		t.Errorf("got the history %q, want %q", got, want)
	}
	// A repeated request of the removed key does nothing again, if it ever came this far.
	out, err := f.ReleasePresetVersion(t.Context(), w, "", "p", nothing, domain.Release{})
	if err != nil || !out.Replayed {
		t.Errorf("got replayed %t and error %v", out.Replayed, err)
	}
}

func TestPruneKeys(t *testing.T) {
	f := newFixture(t)
	day := 24 * time.Hour
	const many = 230 // more than two changes remove
	var old []string
	for range many {
		k, _ := f.issue(t, day)
		old = append(old, k.ID)
	}
	revoked, _ := f.issue(t, 30*day)
	both, _ := f.issue(t, day)
	live, _ := f.issue(t, 0)
	f.now = f.now.Add(3 * day)
	f.revoke(t, both)    // it had expired two days before
	f.revoke(t, revoked) // just now
	records := f.records(t)

	for _, tc := range []struct {
		on   domain.KeyPruning
		want []string
	}{
		{domain.KeyPruning{EndedFor: 2*day + time.Second, DryRun: true}, nil},
		{domain.KeyPruning{EndedFor: 2 * day, DryRun: true}, append(slices.Clone(old), both.ID)},
		{domain.KeyPruning{DryRun: true}, append(slices.Clone(old), revoked.ID, both.ID)},
		{domain.KeyPruning{EndedFor: 2*day + time.Second}, nil},
		{domain.KeyPruning{EndedFor: 2 * day}, append(slices.Clone(old), both.ID)},
		{domain.KeyPruning{EndedFor: 2 * day}, nil},
		{domain.KeyPruning{}, []string{revoked.ID}},
		{domain.KeyPruning{}, nil},
	} {
		before := f.keyIDs(t)
		removed, err := f.PruneKeys(t.Context(), domain.By(admin), tc.on)
		got := idsOf(removed)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tc.want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v: removed %d keys, %v, want %d", tc.on, len(got), err, len(want))
		}
		if tc.on.DryRun {
			want = nil
		}
		left := slices.DeleteFunc(before, func(id string) bool { return slices.Contains(want, id) })
		if got := f.keyIDs(t); !slices.Equal(got, left) {
			t.Errorf("%+v: %d keys are left, want %d", tc.on, len(got), len(left))
		}
		records += len(want)
		if got := f.records(t); got != records {
			t.Errorf("%+v: the audit trail has %d records, want %d", tc.on, got, records)
		}
	}
	if got := fmt.Sprint(f.keyIDs(t)); got != "["+live.ID+"]" {
		t.Errorf("keys %s are left, want the live one", got)
	}
	wantKind(t, errOf(f.PruneKeys(t.Context(), domain.By(admin), domain.KeyPruning{EndedFor: -1})), domain.Invalid, "/older_than: must not be negative")
}
