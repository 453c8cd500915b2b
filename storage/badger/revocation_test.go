package badger

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// smallDisk is a disk whose ballast becomes free space when it is given up, unless a greedy
// program takes that, too.
type smallDisk struct {
	disk
	greedy atomic.Bool
}

func (d *smallDisk) freeOf(folder string) (uint64, error) {
	free, err := d.disk.freeOf(folder)
	if d.ballast() == 0 && !d.greedy.Load() {
		free += ballastSize
	}
	return free, err
}

// TestRevocationOnFullDisk revokes keys while the disk is full, with the ballast and without it.
// All Services of the store refuse a key at once. Its revocation is stored with the reserve, or else
// once there is space.
func TestRevocationOnFullDisk(t *testing.T) {
	canAllocate(t)
	d := &smallDisk{disk: disk{folder: t.TempDir()}}
	d.free.Store(1 << 40)
	open := func() (*Store, *domain.Service) {
		t.Helper()
		s, err := openFolder(d.folder, testOptions, d.freeOf)
		if err != nil {
			t.Fatal(err)
		}
		return s, domain.NewService(s)
	}
	operator := domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})
	s, service := open()
	var ids []string
	var hashes []domain.KeyHash
	for range 3 {
		k, secret, err := service.IssueKey(t.Context(), operator, domain.NewKey{Kind: domain.InferenceKey})
		if err != nil {
			t.Fatal(err)
		}
		ids, hashes = append(ids, k.ID), append(hashes, domain.HashSecret(secret))
		if _, err := service.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil {
			t.Fatal(err)
		}
	}
	s.guard.refresh(true)
	if d.ballast() != ballastSize {
		t.Fatalf("got a ballast of %d bytes", d.ballast())
	}
	other := domain.NewService(s) // of another site
	refused := func(n int, want bool) {
		t.Helper()
		for _, of := range []*domain.Service{service, other, domain.NewService(s)} {
			_, err := of.Authenticate(t.Context(), hashes[n])
			_, isKnown := of.AuthenticateKnown(hashes[n])
			if errors.Is(err, domain.ErrCredentials) != want || isKnown == want {
				t.Errorf("key %d: got error %v, known %v, want it to be refused: %v", n, err, isKnown, want)
			}
			k, err := of.Key(t.Context(), domain.Principal{Kind: domain.ManagementKey}, ids[n])
			if err != nil || k.Live(time.Now()) == want {
				t.Errorf("key %d: it is shown as revoked at %v, %v, want revoked: %v", n, k.RevokedAt, err, want)
			}
		}
	}

	d.free.Store(0)
	if err := s.Update(t.Context(), put(newWorkspace("w"))); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("another write: got error %v, want ErrDiskFull", err)
	}
	if k, err := service.RevokeKey(t.Context(), operator, ids[0]); err != nil || k.RevokedAt == nil {
		t.Errorf("with the reserve: got %v, %v, want a stored revocation", k.RevokedAt, err)
	}
	refused(0, true)
	refused(1, false)

	d.greedy.Store(true)
	k, err := service.RevokeKey(t.Context(), operator, ids[1])
	if !errors.Is(err, domain.ErrRevocationNotStored) || !errors.Is(err, ErrDiskFull) || k.RevokedAt == nil {
		t.Errorf("without a reserve: got %v, %v, want a revocation that is not stored", k.RevokedAt, err)
	}
	if again, err := other.RevokeKey(t.Context(), operator, ids[1]); !errors.Is(err, domain.ErrRevocationNotStored) || !again.RevokedAt.Equal(*k.RevokedAt) {
		t.Errorf("a second time: got %v, %v, want that of the first time, %v", again.RevokedAt, err, k.RevokedAt)
	}
	refused(1, true)
	if keys, err := other.Keys(t.Context()); err != nil || keys[1].RevokedAt == nil || keys[2].RevokedAt != nil {
		t.Errorf("the list: got %v, %v, want the second key to be revoked, and not the third", keys, err)
	}
	if stored, left := service.StoreRevocations(t.Context()); len(stored) != 0 || len(left) != 1 || left[0] != ids[1] {
		t.Errorf("on the full disk: stored %v, left %v", stored, left)
	}
	d.free.Store(1 << 40)
	if stored, left := service.StoreRevocations(t.Context()); len(left) != 0 || len(stored) != 1 || stored[0] != ids[1] {
		t.Errorf("with space: stored %v, left %v", stored, left)
	}
	refused(1, true)
	refused(2, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s, service = open()
	defer s.Close()
	other = service
	refused(0, true)
	refused(1, true)
	refused(2, false)
	if after, err := service.Key(t.Context(), domain.Principal{Kind: domain.ManagementKey}, ids[1]); err != nil || !after.RevokedAt.Equal(*k.RevokedAt) {
		t.Errorf("got a revocation of %v, %v, want the time of the first request, %v", after.RevokedAt, err, k.RevokedAt)
	}
	records, _, err := service.AuditTrail(t.Context(), 0, 100)
	revocations := 0
	for _, r := range records {
		if r.Operation == "key.delete" {
			revocations++
		}
	}
	if err != nil || revocations != 2 {
		t.Errorf("the audit trail has %d revocations, %v, want 2", revocations, err)
	}
}
