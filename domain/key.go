package domain

import (
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
	// Label is the beginning and the end of the secret. It is empty for a key that was issued
	// before keys had one.
	Label string `json:"label,omitzero"`
	// Previous is the secret before the last rotation. It is nil without a rotation, and after
	// one that ended the secret at once.
	Previous *PreviousSecret `json:"previous,omitzero"`
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
	// Disabled refuses the key until it is enabled again.
	Disabled  bool       `json:"disabled,omitzero"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt *time.Time `json:"updated_at,omitzero"` // nil until the first change
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	// LastUsedAt is when the key was used, nil for never. It is coarse: the last use was up to
	// an hour later, or longer while the store took no writes.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`

	limits *KeyLimits // the same as KeyLimits in a cached key, nil for none
}

// PreviousSecret is a secret that a rotation replaced.
type PreviousSecret struct {
	Hash KeyHash `json:"hash"`
	// Until is when the secret stops working.
	Until time.Time `json:"until"`
}

// Live reports whether k is not revoked, has not expired at a time, and is not disabled.
func (k Key) Live(at time.Time) bool {
	_, ended := k.ended(at)
	return !ended && !k.Disabled
}

// Hashes returns the hashes by which k is found: its own, and that of the previous secret, which
// may not work any more.
func (k Key) Hashes() []KeyHash {
	if k.Previous == nil {
		return []KeyHash{k.Hash}
	}
	return []KeyHash{k.Hash, k.Previous.Hash}
}

// has reports whether the secret of a hash is one of k that works at a time.
func (k Key) has(hash KeyHash, at time.Time) bool {
	return subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1 ||
		k.Previous != nil && subtle.ConstantTimeCompare(k.Previous.Hash[:], hash[:]) == 1 && at.Before(k.Previous.Until)
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
	// Workspace is the id or slug of the workspace to act in. If it is empty, the key that
	// issues this one decides: it is the same workspace. A key that the server issues acts in
	// the default one then, also after that was deleted and made anew.
	Workspace string
	// Lifetime is how long the key lives. If it is zero, the key does not expire.
	Lifetime time.Duration
	// ExpiresAt is the end of the key if Lifetime is zero. Nil is never.
	ExpiresAt *time.Time
	// Scope limits the key.
	Scope Scope
	// KeyLimits are for inference keys only.
	KeyLimits
}

// IssueKey stores a new key and returns it with its secret. The secret is not stored, so it
// cannot be replayed, and w has no Idempotency. A wrong setting is Invalid. An unknown
// workspace is NotFound.
//
// Only the server itself issues keys of any kind. A management key issues inference keys, for
// workspaces that it reaches, and only with the right IssueKeys.
func (s *Service) IssueKey(ctx context.Context, w Write, in NewKey) (k Key, secret string, err error) {
	if err := w.Who.CheckIssueKeys(); err != nil {
		return Key{}, "", err
	}
	if in.Kind != InferenceKey && !w.Who.isServer() {
		return Key{}, "", &Error{Kind: Forbidden, Message: "Only the operator issues management keys"}
	}
	if err := in.check(); err != nil {
		return Key{}, "", err
	}
	id := s.newID()
	_, err = s.change(ctx, w, func(c *change) (err error) {
		if err := c.Condition.Check(); err != nil {
			return err
		}
		k = Key{ID: id, Kind: in.Kind, Name: in.Name, UserID: in.UserID, CreatedAt: c.now, ExpiresAt: in.ExpiresAt, KeyLimits: in.KeyLimits}
		k.Limits = k.Limits.nilIfNone()
		secret = k.newSecret()
		if !in.Scope.isZero() {
			k.Scope = &in.Scope
		}
		if in.Lifetime > 0 {
			k.ExpiresAt = new(c.now.Add(in.Lifetime))
		}
		if k.ExpiresAt != nil && !k.ExpiresAt.After(c.now) {
			return InvalidAt("/expires_at", "must be in the future")
		}
		if in.Workspace != "" || !w.Who.isServer() {
			if k.WorkspaceID, err = workspaceOf(c, c.Who, in.Workspace); err != nil {
				return err
			}
		}
		if err := c.PutKey(k); err != nil {
			return err
		}
		return c.record("key.create", k.audited(), 0, 0)
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

// newSecret gives k a new secret, and returns it.
func (k *Key) newSecret() string {
	prefix := secrets.Inference
	if k.Kind == ManagementKey {
		prefix = secrets.Management
	}
	const shown = 3
	secret := secrets.New(prefix)
	k.Hash, k.Hint = HashSecret(secret), secret[len(secret)-4:]
	k.Label = secret[:len(prefix)+shown] + "..." + k.Hint
	return secret
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
	_, isRevoked := s.revocations().all()[k.Hash]
	if !k.has(hash, now) || isRevoked || !k.Live(now) {
		return Principal{}, ErrCredentials
	}
	if !k.isUsedRecently(now) {
		s.recordUse(k, hash, now)
	}
	who := Principal{KeyID: k.ID, Hash: hash, UserID: k.UserID, Kind: k.Kind, WorkspaceID: k.WorkspaceID, Scope: k.Scope, KeyLimits: k.limits}
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
	if k.KeyLimits != (KeyLimits{}) {
		k.limits = new(k.KeyLimits)
	}
	if err == nil {
		s.keys.Put(hash, stamp, k, cachedKeyCost+k.Scope.cost())
	}
	return k, err
}

// KeyName returns the name of the issued key that who has, or had. It is empty for other keys, for one
// without a name, and if the store cannot tell.
func (s *Service) KeyName(ctx context.Context, who Principal) string {
	if who.Scope == nil { // a key of the configuration, or none
		return ""
	}
	k, err := s.keyOf(ctx, who.Hash)
	if err != nil {
		return ""
	}
	return k.Name
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

// recordUse stores in the background that k was used, by the secret of a hash, without keeping the
// request waiting. It ignores failures: other writes report a store that takes none.
func (s *Service) recordUse(k Key, hash KeyHash, at time.Time) {
	mark := func(cached *Key) bool { // so that storing it is tried once only
		known := cached.isUsedRecently(at)
		cached.LastUsedAt = &at
		return !known
	}
	if s.useWrites.Add(1) > maxUseWrites || !s.keys.Change(hash, mark) {
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
		_, _ = s.keyOf(ctx, hash)
	}()
}

// ErrCredentials is the error for a secret that is not a live key.
var ErrCredentials error = &Error{Kind: Unauthenticated, Message: "Invalid credentials"}

// ended returns when k was revoked or expired for good, and false if it is neither at a time.
func (k Key) ended(at time.Time) (time.Time, bool) {
	end := k.RevokedAt
	if k.ExpiresAt != nil && !at.Before(*k.ExpiresAt) && (end == nil || k.ExpiresAt.Before(*end)) {
		end = k.ExpiresAt
	}
	return ValueOr(end, time.Time{}), end != nil
}

// maxKeysRemoved bounds the keys that one change removes. Each adds an audit record.
const maxKeysRemoved = 100

// RemoveKey removes a revoked or expired key from the store and returns it. The audit trail
// keeps its records, and histories show no name for it. w has no Idempotency. A key that has
// not ended is Conflict. An unknown id is NotFound.
func (s *Service) RemoveKey(ctx context.Context, w Write, id string) (k Key, err error) {
	_, err = s.change(ctx, w, func(c *change) error {
		if k, err = issuedKey(c, id); err != nil {
			return err
		}
		if _, ended := k.ended(c.now); !ended {
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
