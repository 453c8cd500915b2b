package domain

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// MaxKeyText bounds the user id and the name of a key, in characters.
const MaxKeyText = 256

// KeyHash is the SHA-256 of a secret. The secret itself is never kept. It has 256 random
// bits, so nobody can guess it from a plain hash.
type KeyHash [sha256.Size]byte

// HashSecret returns the hash of a secret.
func HashSecret(secret string) KeyHash {
	var text [128]byte // most secrets fit, and need no memory then
	return sha256.Sum256(append(text[:0], secret...))
}

// MarshalText writes h as 64 lower-case hexadecimal digits.
func (h KeyHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits, in either case.
func (h *KeyHash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("a SHA-256 has %d hexadecimal digits, not %d", 2*len(h), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Key is an issued key without its secret.
type Key struct {
	ID   string  `json:"id"`
	Kind KeyKind `json:"kind"`
	// Hash is the SHA-256 of the secret.
	Hash KeyHash `json:"hash"`
	// Hint is the end of the secret. Operators tell keys apart by it.
	Hint string `json:"hint"`
	// Name is the operator's note. It may be empty.
	Name string `json:"name"`
	// UserID is the key's user. If it is empty, the key's id stands for the user.
	UserID string `json:"user_id"`
	// WorkspaceID is the workspace the key acts in, empty for the default one.
	WorkspaceID string `json:"workspace_id"`
	// Scope has what the key reaches, and its rights. Nil reaches all and has no right.
	Scope *Scope `json:"scope,omitzero"`
	// KeyLimits bound an inference key.
	KeyLimits
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	// LastUsedAt is when the key was used, nil for never. It is coarse: the last use was up to
	// an hour later, or longer while the store took no writes.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// Live reports whether k is not revoked and has not expired at a time.
func (k Key) Live(at time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || at.Before(*k.ExpiresAt))
}

// isUsedRecently reports whether a use of k at a time need not be stored.
func (k Key) isUsedRecently(at time.Time) bool {
	return k.LastUsedAt != nil && at.Sub(*k.LastUsedAt) < lastUseResolution
}

// NewKey has the settings of a new key.
type NewKey struct {
	Kind KeyKind
	// UserID and Name hold at most MaxKeyText characters; both may be empty.
	UserID, Name string
	// Workspace is the id or slug of the workspace to act in, empty for the
	// default one.
	Workspace string
	// Lifetime is how long the key lives. If it is zero, the key does not expire.
	Lifetime time.Duration
	// Scope limits the key.
	Scope Scope
	// KeyLimits are for inference keys only.
	KeyLimits
}

// IssueKey stores a new key and returns it with its secret. The secret is not stored, so it
// cannot be replayed, and w has no Idempotency. A wrong setting is Invalid. An unknown
// workspace is NotFound.
func (s *Service) IssueKey(ctx context.Context, w Write, in NewKey) (Key, string, error) {
	if err := in.check(); err != nil {
		return Key{}, "", err
	}
	prefix := secrets.Inference
	if in.Kind == ManagementKey {
		prefix = secrets.Management
	}
	secret, id := secrets.New(prefix), s.newID()
	var k Key
	_, err := s.change(ctx, w, func(c *change) error {
		k = Key{
			ID: id, Kind: in.Kind, Hash: HashSecret(secret), Hint: secret[len(secret)-4:],
			Name: in.Name, UserID: in.UserID, CreatedAt: c.now, KeyLimits: in.KeyLimits,
		}
		k.Limits = k.Limits.nilIfNone()
		if !in.Scope.isZero() {
			k.Scope = &in.Scope
		}
		if in.Lifetime > 0 {
			end := c.now.Add(in.Lifetime)
			k.ExpiresAt = &end
		}
		if in.Workspace != "" {
			var err error
			if k.WorkspaceID, _, err = findWorkspace(c, in.Workspace); err != nil {
				return err
			}
		}
		if err := c.PutKey(k); err != nil {
			return err
		}
		return c.record("key.issue", k.audited(), 0, 0)
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

func (k Key) audited() AuditObject {
	return AuditObject{Kind: "key", ID: k.ID, WorkspaceID: k.WorkspaceID}
}

func (in NewKey) check() error {
	var issues []Issue
	if !in.Kind.Valid() {
		issues = append(issues, Issue{"/kind", "must be management or inference"})
	}
	for _, text := range []struct{ path, value string }{{"/user_id", in.UserID}, {"/name", in.Name}} {
		if !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			issues = append(issues, Issue{text.path, "must be printable text"})
		} else if utf8.RuneCountInString(text.value) > MaxKeyText {
			issues = append(issues, Issue{text.path, fmt.Sprintf("must be at most %d characters", MaxKeyText)})
		}
	}
	if in.Lifetime < 0 {
		issues = append(issues, Issue{"/expires_in", "must not be negative"})
	}
	issues = append(issues, in.Scope.check(in.Kind)...)
	issues = append(issues, in.KeyLimits.check(in.Kind)...)
	if issues != nil {
		return InvalidIssues(issues...)
	}
	return nil
}

// Keys returns all issued keys, also those that are not live. The oldest comes first. A key whose
// revocation is not stored yet is shown as revoked.
func (s *Service) Keys(ctx context.Context) (keys []Key, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		keys, err = r.Keys()
		return err
	})
	for i := range keys {
		s.revocations().show(&keys[i])
	}
	return keys, err
}

// Key returns the issued key of an id, as Keys does. An unknown id is NotFound.
func (s *Service) Key(ctx context.Context, id string) (k Key, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		k, err = issuedKey(r, id)
		return err
	})
	s.revocations().show(&k)
	return k, err
}

var errKeyNotFound = &Error{Kind: NotFound, Message: "Key not found"}

// issuedKey returns the issued key of an id. An unknown id is errKeyNotFound.
func issuedKey(r Reader, id string) (Key, error) {
	k, err := r.Key(id)
	if errors.Is(err, ErrNotFound) {
		err = errKeyNotFound
	}
	return k, err
}

// Authenticate returns the principal of the issued secret that has a hash, and stores its
// use in the background. An unknown, revoked or expired secret gives ErrCredentials, the
// same Unauthenticated error. Unknown secrets take the same steps whatever they look like.
func (s *Service) Authenticate(ctx context.Context, hash KeyHash) (Principal, error) {
	k, err := s.keyOf(ctx, hash)
	switch {
	case errors.Is(err, ErrNotFound):
		return Principal{}, ErrCredentials
	case err != nil:
		return Principal{}, err
	}
	return s.principalOf(k, hash)
}

// AuthenticateKnown is Authenticate for a cached, live key. It never reads the store. For
// other secrets it returns false: only Authenticate can tell whether they are keys.
func (s *Service) AuthenticateKnown(hash KeyHash) (Principal, bool) {
	k, ok := s.keys.Get(hash, s.store.Stamps().Key(hash))
	if !ok {
		return Principal{}, false
	}
	who, err := s.principalOf(k, hash)
	return who, err == nil
}

// principalOf returns the principal of k and records its use. It returns ErrCredentials if
// k is not live.
func (s *Service) principalOf(k Key, hash KeyHash) (Principal, error) {
	now := s.now()
	_, isRevoked := s.revocations().all()[hash]
	if subtle.ConstantTimeCompare(k.Hash[:], hash[:]) != 1 || isRevoked || !k.Live(now) {
		return Principal{}, ErrCredentials
	}
	if !k.isUsedRecently(now) {
		s.recordUse(k, now)
	}
	who := Principal{KeyID: k.ID, Hash: hash, UserID: k.UserID, Kind: k.Kind, WorkspaceID: k.WorkspaceID, Scope: k.Scope, KeyLimits: k.KeyLimits}
	if who.Scope == nil {
		who.Scope = &unlimited
	}
	if who.UserID == "" {
		who.UserID = k.ID
	}
	return who, nil
}

// keyOf returns the issued key whose secret has a hash, from the cache if that is
// current. It returns ErrNotFound if there is none.
func (s *Service) keyOf(ctx context.Context, hash KeyHash) (k Key, err error) {
	stamp := s.store.Stamps().Key(hash)
	if k, ok := s.keys.Get(hash, stamp); ok {
		return k, nil
	}
	err = s.store.View(ctx, func(r Reader) error {
		k, err = r.KeyByHash(hash)
		return err
	})
	if err == nil {
		s.keys.Put(hash, stamp, k, cachedKeyCost+k.Scope.cost())
	}
	return k, err
}

const (
	// lastUseResolution bounds writes of last uses to one an hour for each key.
	lastUseResolution = time.Hour
	// maxUseWrites bounds concurrent writes of last uses. Beyond it, a later request
	// writes.
	maxUseWrites = 8
	// useWriteTimeout bounds each of them.
	useWriteTimeout = 30 * time.Second
)

// recordUse stores in the background that k was used, without keeping the request waiting. It
// ignores failures: other writes report a store that takes none.
func (s *Service) recordUse(k Key, at time.Time) {
	mark := func(cached *Key) bool { // so that storing it is tried once only
		known := cached.isUsedRecently(at)
		cached.LastUsedAt = &at
		return !known
	}
	if s.useWrites.Add(1) > maxUseWrites || !s.keys.Change(k.Hash, mark) {
		s.useWrites.Add(-1)
		return
	}
	go func() {
		defer s.useWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), useWriteTimeout)
		defer cancel()
		_ = s.store.Update(ctx, func(tx Tx) error {
			k, err := tx.Key(k.ID) // it may have been revoked since
			if err != nil || k.isUsedRecently(at) {
				return err
			}
			used := at.UTC().Truncate(time.Millisecond)
			k.LastUsedAt = &used
			return tx.PutKey(k)
		})
		// Cache the changed key: the next request must not need the store for it.
		_, _ = s.keyOf(ctx, k.Hash)
	}()
}

// ErrCredentials is the error for a secret that is not a live key.
var ErrCredentials error = &Error{Kind: Unauthenticated, Message: "Invalid credentials"}

// ended returns when k stopped being live, and false if it is live at a time.
func (k Key) ended(at time.Time) (time.Time, bool) {
	if k.Live(at) {
		return time.Time{}, false
	}
	end := cmp.Or(k.RevokedAt, k.ExpiresAt)
	if k.ExpiresAt != nil && k.ExpiresAt.Before(*end) {
		end = k.ExpiresAt
	}
	return *end, true
}

// maxKeysRemoved bounds the keys that one change removes. Each adds an audit record.
const maxKeysRemoved = 100

// RemoveKey removes a revoked or expired key from the store and returns it. The audit trail
// keeps its records, and histories show no name for it. w has no Idempotency. A live
// key is Conflict. An unknown id is NotFound.
func (s *Service) RemoveKey(ctx context.Context, w Write, id string) (k Key, err error) {
	_, err = s.change(ctx, w, func(c *change) error {
		if k, err = issuedKey(c, id); err != nil {
			return err
		}
		if k.Live(c.now) {
			return &Error{Kind: Conflict, Message: "The key is live: revoke it first"}
		}
		return c.removeKey(k)
	})
	return k, err
}

func (c *change) removeKey(k Key) error {
	if err := c.DeleteKey(k); err != nil {
		return err
	}
	return c.record("key.remove", k.audited(), 0, 0)
}

// KeyPruning says which keys to remove.
type KeyPruning struct {
	// EndedFor is for how long a key must have been revoked or expired. Zero means any
	// time. It must not be negative.
	EndedFor time.Duration
	// DryRun removes nothing, and only reports.
	DryRun bool
}

// PruneKeys removes the keys that are not live, and returns them, the oldest first. Many keys
// take several changes. After an error it returns the keys that are gone already.
// w has no Idempotency.
func (s *Service) PruneKeys(ctx context.Context, w Write, on KeyPruning) (removed []Key, err error) {
	if on.EndedFor < 0 {
		return nil, InvalidAt("/older_than", "must not be negative")
	}
	var ended []Key
	err = s.store.View(ctx, func(r Reader) error {
		ended, err = r.Keys()
		return err
	})
	now := s.timestamp()
	ended = slices.DeleteFunc(ended, func(k Key) bool {
		end, ok := k.ended(now)
		return !ok || end.After(now.Add(-on.EndedFor))
	})
	if err != nil || on.DryRun {
		return ended, err
	}
	for some := range slices.Chunk(ended, maxKeysRemoved) {
		var gone []Key
		_, err := s.change(ctx, w, func(c *change) error {
			gone = nil
			for _, k := range some {
				_, err := c.Key(k.ID)
				if errors.Is(err, ErrNotFound) { // another call was first
					continue
				}
				if err == nil {
					err = c.removeKey(k)
				}
				if err != nil {
					return err
				}
				gone = append(gone, k)
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed = append(removed, gone...)
	}
	return removed, nil
}
