package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain/problem"
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
	_, ended := k.Ended(at)
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

// Has reports whether the secret of a hash is one of k that works at a time.
func (k Key) Has(hash KeyHash, at time.Time) bool {
	return subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1 ||
		k.Previous != nil && subtle.ConstantTimeCompare(k.Previous.Hash[:], hash[:]) == 1 && at.Before(k.Previous.Until)
}

// lastUseResolution bounds writes of last uses to one an hour for each key.
const lastUseResolution = time.Hour

// IsUsedRecently reports whether a use of k at a time need not be stored.
func (k Key) IsUsedRecently(at time.Time) bool {
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

// NewSecret gives k a new secret, and returns it.
func (k *Key) NewSecret() string {
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

// Check returns an Invalid error for a wrong setting.
func (in NewKey) Check() error {
	var issues []Issue
	if !in.Kind.Valid() {
		issues = append(issues, Issue{Path: "/kind", Message: "must be management or inference"})
	}
	for _, text := range []struct{ path, value string }{{"/user_id", in.UserID}, {"/name", in.Name}} {
		if !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			issues = append(issues, Issue{Path: text.path, Message: "must be printable text"})
		} else if utf8.RuneCountInString(text.value) > MaxKeyText {
			issues = append(issues, Issue{Path: text.path, Message: fmt.Sprintf("must be at most %d characters", MaxKeyText)})
		}
	}
	if in.Lifetime < 0 {
		issues = append(issues, Issue{Path: "/expires_in", Message: "must not be negative"})
	}
	issues = append(issues, in.Scope.Check(in.Kind)...)
	issues = append(issues, in.KeyLimits.Check(in.Kind)...)
	if issues != nil {
		return problem.InvalidIssues(issues...)
	}
	return nil
}

// Ended returns when k was revoked or expired for good, and false if it is neither at a time.
func (k Key) Ended(at time.Time) (time.Time, bool) {
	end := k.RevokedAt
	if k.ExpiresAt != nil && !at.Before(*k.ExpiresAt) && (end == nil || k.ExpiresAt.Before(*end)) {
		end = k.ExpiresAt
	}
	if end == nil {
		return time.Time{}, false
	}
	return *end, true
}

// KeepLimits keeps the limits for Principal, so that they stay the same.
func (k *Key) KeepLimits() {
	if k.KeyLimits != (KeyLimits{}) {
		k.limits = new(k.KeyLimits)
	}
}

// Principal returns the sender of a request with the secret of a hash, which is one of k. It has the
// limits of KeepLimits.
func (k Key) Principal(hash KeyHash) Principal {
	who := Principal{KeyID: k.ID, Hash: hash, UserID: k.UserID, Kind: k.Kind, WorkspaceID: k.WorkspaceID, Scope: k.Scope, KeyLimits: k.limits}
	if who.Scope == nil {
		who.Scope = &unlimited
	}
	if who.UserID == "" {
		who.UserID = k.ID
	}
	return who
}
