package domain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func TestIssuedSecretsHaveTheDocumentedForm(t *testing.T) {
	f := newFixture(t)
	seen := map[string]bool{}
	for _, tc := range []struct {
		kind   domain.KeyKind
		prefix string
	}{{domain.ManagementKey, "caddypresets_mgmt_"}, {domain.InferenceKey, "caddypresets_inf_"}} {
		k, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: tc.kind})
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(secret, tc.prefix)
		if !ok || len(rest) != 49 || strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Errorf("secret of a %s key does not have the documented form", tc.kind)
		}
		if !strings.HasSuffix(secret, k.Hint) || len(k.Hint) != 4 {
			t.Errorf("hint %q is not the end of the secret", k.Hint)
		}
		if stored, _ := json.Marshal(k); strings.Contains(string(stored), secret) || strings.Contains(string(stored), rest[:20]) {
			t.Error("the stored key holds its secret")
		}
		if seen[secret] {
			t.Error("two keys have one secret")
		}
		seen[secret] = true
	}
}

// lastUse waits until the key's last use is recorded as at.
func lastUse(t *testing.T, store domain.Store, id string, at time.Time) (k domain.Key) {
	t.Helper()
	at = at.UTC().Truncate(time.Millisecond)
	wait.Until(t, fmt.Sprintf("the last use is recorded as %v", at), func() bool {
		err := store.View(t.Context(), func(r domain.Reader) (err error) {
			k, err = r.Key(id)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return k.LastUsedAt != nil && k.LastUsedAt.Equal(at)
	})
	return k
}

// TestKnownKeys checks that a used key is in memory, also after its use was recorded. It
// is refused after its revocation, also if another service revoked it.
func TestKnownKeys(t *testing.T) {
	f := newFixture(t)
	elsewhere := domain.NewService(f.store) // as the admin endpoint has it
	unread, end := context.WithCancel(t.Context())
	end() // in which the store cannot be read
	var secrets []string
	for range 3 {
		k, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.InferenceKey, Lifetime: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil {
			t.Fatal(err)
		}
		lastUse(t, f.store, k.ID, f.now) // recording it has changed the key
		wait.Until(t, "the key is in memory", func() bool { _, err := f.Authenticate(unread, domain.HashSecret(secret)); return err == nil })
		atomic.StoreInt64(&f.views, 0)
		for range 3 {
			if who, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil || who.KeyID != k.ID {
				t.Fatalf("got %v, %v, want the key %s", who, err, k.ID)
			}
		}
		if n := atomic.LoadInt64(&f.views); n != 0 {
			t.Errorf("got %d look-ups for three uses of a key, want none", n)
		}
		secrets = append(secrets, secret)
		if len(secrets) == 2 {
			if _, err := elsewhere.RevokeKey(t.Context(), domain.By(admin), k.ID); err != nil {
				t.Fatal(err)
			}
		}
		_, err = f.Authenticate(t.Context(), domain.HashSecret(secret))
		if revoked := len(secrets) == 2; revoked != errors.Is(err, domain.ErrCredentials) {
			t.Errorf("got %v of a key that is revoked: %t", err, revoked)
		}
	}
	f.now = f.now.Add(time.Hour)
	if _, err := f.Authenticate(t.Context(), domain.HashSecret(secrets[0])); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("got %v of an expired key, want %v", err, domain.ErrCredentials)
	}
}

// Each secret is looked up once, like a well-formed one. A faster refusal would reveal the
// difference.
func TestDamagedSecretsAreRefused(t *testing.T) {
	f := newFixture(t)
	_, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.ManagementKey})
	if err != nil {
		t.Fatal(err)
	}
	damaged := []string{"", "x", secret + "0", secret[1:], strings.ToUpper(secret), "sk-or-v1-0123456789abcdef0123456789abcdef"}
	for i := range secret {
		other := byte('A')
		if secret[i] == other {
			other = 'B'
		}
		damaged = append(damaged, secret[:i]+string(other)+secret[i+1:], secret[:i])
	}
	for _, d := range damaged {
		f.views = 0
		if _, err := f.Authenticate(t.Context(), domain.HashSecret(d)); !errors.Is(err, domain.ErrCredentials) {
			t.Errorf("a damaged secret gives %v, want ErrCredentials", err)
		}
		if f.views != 1 {
			t.Errorf("got %d look-ups for a damaged secret, want 1", f.views)
		}
	}
	if _, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil {
		t.Errorf("the secret itself gives %v", err)
	}
}

func TestAuthenticate(t *testing.T) {
	f := newFixture(t)
	w := f.workspace(t, "team")
	k, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{
		Kind: domain.InferenceKey, UserID: "carol", Workspace: "team", Name: "ci", Lifetime: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := domain.Principal{KeyID: k.ID, Hash: domain.HashSecret(secret), UserID: "carol", Kind: domain.InferenceKey, WorkspaceID: w.ID, Scope: new(domain.Scope)}
	if got, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}

	issued := f.now
	f.now = k.ExpiresAt.Add(-time.Nanosecond)
	if _, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	f.now = *k.ExpiresAt
	if _, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("at its end: got %v, want ErrCredentials", err)
	}
	f.now = issued

	revoked, err := f.RevokeKey(t.Context(), domain.By(admin), k.ID)
	if err != nil || revoked.RevokedAt == nil {
		t.Fatalf("revoking gives %+v, %v", revoked, err)
	}
	if _, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("after it was revoked: got %v, want ErrCredentials", err)
	}
	f.now = f.now.Add(time.Minute)
	if again, err := f.RevokeKey(t.Context(), domain.By(admin), k.ID); err != nil || !again.RevokedAt.Equal(*revoked.RevokedAt) {
		t.Errorf("revoking again gives %+v, %v, want nothing changed", again, err)
	}

	anonymous, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.ManagementKey})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); got.UserID != anonymous.ID || err != nil {
		t.Errorf("a key without a user acts as %q, %v, want its own id", got.UserID, err)
	}
	keys, err := f.Keys(t.Context())
	if err != nil || len(keys) != 2 || keys[0].ID != k.ID || keys[1].ID != anonymous.ID {
		t.Errorf("got keys %+v, %v, want the two issued ones, oldest first", keys, err)
	}
}

func TestKeysRefused(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("é", domain.MaxKeyText)
	if _, _, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.InferenceKey, UserID: long, Name: long}); err != nil {
		t.Errorf("texts of exactly the longest length: %v", err)
	}
	for name, tc := range map[string]struct {
		in   domain.NewKey
		kind domain.Kind
		says string
	}{
		"no kind":            {domain.NewKey{}, domain.Invalid, "/kind"},
		"unknown kind":       {domain.NewKey{Kind: "root"}, domain.Invalid, "/kind"},
		"long user":          {domain.NewKey{Kind: domain.InferenceKey, UserID: long + "x"}, domain.Invalid, "/user_id"},
		"long name":          {domain.NewKey{Kind: domain.InferenceKey, Name: long + "x"}, domain.Invalid, "/name"},
		"line break in name": {domain.NewKey{Kind: domain.InferenceKey, Name: "a\nb"}, domain.Invalid, "/name"},
		"not text":           {domain.NewKey{Kind: domain.InferenceKey, Name: "\xff"}, domain.Invalid, "/name"},
		"negative lifetime":  {domain.NewKey{Kind: domain.InferenceKey, Lifetime: -1}, domain.Invalid, "/expires_in"},
		"unknown workspace":  {domain.NewKey{Kind: domain.InferenceKey, Workspace: "nowhere"}, domain.NotFound, "Workspace not found"},
	} {
		t.Run(name, func(t *testing.T) {
			_, secret, err := f.IssueKey(t.Context(), domain.By(admin), tc.in)
			wantKind(t, err, tc.kind, tc.says)
			if secret != "" {
				t.Error("a refused key has a secret")
			}
		})
	}
	_, err := f.RevokeKey(t.Context(), domain.By(admin), "no such key")
	wantKind(t, err, domain.NotFound, "Key not found")
}

// held is a store whose updates wait for a permit and report when they are done.
type held struct {
	domain.Store
	together *sync.WaitGroup // of those who read, where they wait for each other
	begun    chan struct{}
	permits  chan error // nil lets an update through
	done     chan error
}

func (h *held) View(ctx context.Context, fn func(domain.Reader) error) error {
	if h.together != nil {
		h.together.Done()
		h.together.Wait()
	}
	return h.Store.View(ctx, fn)
}

func (h *held) Update(_ context.Context, fn func(domain.Tx) error) error {
	h.begun <- struct{}{}
	err := <-h.permits
	if err == nil {
		err = h.Store.Update(context.Background(), fn)
	}
	h.done <- err
	return err
}

// useRecorder is a Service that waits for the test before it records a use, beside one
// that does not wait.
type useRecorder struct {
	*fixture
	held  *held
	uses  *domain.Service
	clock time.Time
}

func newUseRecorder(t *testing.T) *useRecorder {
	f := newFixture(t)
	n := &useRecorder{fixture: f, clock: f.now, held: &held{
		Store: f.store, begun: make(chan struct{}, 100), permits: make(chan error), done: make(chan error, 100),
	}}
	n.uses = domain.NewServiceWith(n.held, func() time.Time { return n.clock }, uuid.NewString)
	return n
}

func (n *useRecorder) issue(t *testing.T) (domain.Key, string) {
	t.Helper()
	k, secret, err := n.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.InferenceKey})
	if err != nil {
		t.Fatal(err)
	}
	if k.LastUsedAt != nil {
		t.Errorf("a new key was used at %v", k.LastUsedAt)
	}
	return k, secret
}

// use uses a key, without anybody waiting for the store.
func (n *useRecorder) use(t *testing.T, secret string) {
	t.Helper()
	if _, err := n.uses.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil {
		t.Fatal(err)
	}
}

// record waits until a use is being recorded, and lets that end with an error or nil.
func (n *useRecorder) record(t *testing.T, with error) {
	t.Helper()
	<-n.held.begun
	n.held.permits <- with
	if err := <-n.held.done; !errors.Is(err, with) {
		t.Fatal(err)
	}
}

// quiet fails the test if a use is being recorded.
func (n *useRecorder) quiet(t *testing.T) {
	t.Helper()
	if len(n.held.begun) > 0 {
		t.Error("a use is being recorded")
	}
}

func TestLastUse(t *testing.T) {
	n := newUseRecorder(t)
	k, secret := n.issue(t)
	trail := n.records(t)
	first := n.clock
	var wg sync.WaitGroup
	n.held.together = new(sync.WaitGroup) // so that all see a key that was never used
	n.held.together.Add(clients)
	for range clients {
		wg.Go(func() { n.use(t, secret) })
	}
	wg.Wait()
	n.held.together = nil
	n.record(t, nil)
	if stored := lastUse(t, n.store, k.ID, first); stored.RevokedAt != nil || stored.Hash != k.Hash || !stored.CreatedAt.Equal(k.CreatedAt) {
		t.Errorf("got %+v, want %+v with its last use", stored, k)
	}
	n.clock = first.Add(time.Hour - time.Second)
	for range 10 {
		n.use(t, secret)
	}
	n.clock = first.Add(-time.Hour) // a clock that was set back
	n.use(t, secret)
	n.quiet(t)
	n.clock = first.Add(time.Hour)
	n.use(t, secret)
	n.use(t, secret)
	n.record(t, nil)
	lastUse(t, n.store, k.ID, n.clock)
	n.quiet(t)
	if now := n.records(t); now != trail {
		t.Errorf("the audit trail tells of %d uses, want none", now-trail)
	}
	keys, err := n.Keys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].LastUsedAt == nil {
		t.Errorf("got %+v, %v, want the key with its last use", keys, err)
	}
}

// A key that was refused was not used.
func TestRefusedKeysAreNotUsed(t *testing.T) {
	n := newUseRecorder(t)
	revoked, secret := n.issue(t)
	if _, err := n.RevokeKey(t.Context(), domain.By(admin), revoked.ID); err != nil {
		t.Fatal(err)
	}
	_, expired, err := n.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.InferenceKey, Lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	n.clock = n.clock.Add(time.Hour)
	for _, s := range []string{secret, expired, secret + "x"} {
		if _, err := n.uses.Authenticate(t.Context(), domain.HashSecret(s)); !errors.Is(err, domain.ErrCredentials) {
			t.Errorf("got %v, want %v", err, domain.ErrCredentials)
		}
	}
	n.quiet(t)
}

// A note changes the key as it is at the time of writing.
func TestNotesUndoNothing(t *testing.T) {
	n := newUseRecorder(t)
	k, secret := n.issue(t)
	n.use(t, secret)
	<-n.held.begun
	revoked, err := n.RevokeKey(t.Context(), domain.By(admin), k.ID)
	if err != nil {
		t.Fatal(err)
	}
	n.held.permits <- nil
	if err := <-n.held.done; err != nil {
		t.Fatal(err)
	}
	if stored := lastUse(t, n.store, k.ID, n.clock); stored.RevokedAt == nil || !stored.RevokedAt.Equal(*revoked.RevokedAt) {
		t.Errorf("got %+v, want it revoked", stored)
	}
	if _, err := n.uses.Authenticate(t.Context(), domain.HashSecret(secret)); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("got %v, want %v", err, domain.ErrCredentials)
	}

	// If two Services note a use of one key, the second has nothing to do.
	k, secret = n.issue(t)
	n.use(t, secret)
	<-n.held.begun
	if _, err := n.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil {
		t.Fatal(err)
	}
	lastUse(t, n.store, k.ID, n.now)
	n.clock = n.clock.Add(time.Minute)
	stamp := n.store.Stamps().Key(k.Hash)
	n.held.permits <- nil
	if err := <-n.held.done; err != nil {
		t.Fatal(err)
	}
	lastUse(t, n.store, k.ID, n.now)
	if n.store.Stamps().Key(k.Hash) != stamp {
		t.Error("the key was written twice")
	}
}

// A store that takes no writes is not asked again for each request.
func TestUseThatCannotBeNoted(t *testing.T) {
	n := newUseRecorder(t)
	k, secret := n.issue(t)
	n.use(t, secret)
	full := errors.New("no space left")
	n.record(t, full)
	for range 10 {
		n.use(t, secret)
	}
	n.quiet(t)
	n.clock = n.clock.Add(time.Hour)
	n.use(t, secret)
	n.record(t, nil)
	lastUse(t, n.store, k.ID, n.clock)
}

// Many keys in use cause few writes. Uses that were left out are recorded later.
func TestManyKeysAreUsedAtOnce(t *testing.T) {
	n := newUseRecorder(t)
	const most = 8
	ids := make(map[string]string)
	for range 3 * most {
		k, secret := n.issue(t)
		ids[k.ID] = secret
	}
	for _, secret := range ids {
		n.use(t, secret)
	}
	for range most {
		<-n.held.begun
	}
	n.quiet(t)
	for range most {
		n.held.permits <- nil
		if err := <-n.held.done; err != nil {
			t.Fatal(err)
		}
	}
	n.quiet(t)
	for recorded := most; recorded < len(ids); recorded++ {
		for len(n.held.begun) == 0 { // a place is free once the one before is gone
			for _, secret := range ids {
				n.use(t, secret)
			}
		}
		n.record(t, nil)
	}
	for id := range ids {
		lastUse(t, n.store, id, n.clock)
	}
}

func TestHoldsIssued(t *testing.T) {
	for text, want := range map[string]bool{
		"caddypresets_inf_": true, "caddypresets_mgmt_x": true, "xcaddypresets_inf_": true, "a_b_caddypresets_inf_x": true, "Bearer caddypresets_inf_x, y": true,
		"CADDYPRESETS_MGMT_X": true, "Caddypresets_Inf_x": true, "caddypresets_caddypresets_inf_": true, string(secrets.Hidden) + "1": true,
		"": false, "_": false, "caddypresets": false, "caddypresets_": false, "caddypresets_inf": false, "caddypresets_info_": false, "caddypresets-inf-x": false,
		"addypresets_inf_x": false, "ſcaddypreſets_inf_": false, "caddypresets%5Finf%5Fx": false, "sk-or-v1-x": false,
	} {
		if got := secrets.AreIn(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
