package domain

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// KeyPatch is the body of a key's update, already checked against its schema. An absent field
// stays as it is. Null clears a field that may be null.
type KeyPatch struct {
	Name               *string            `json:"name"`
	Disabled           *bool              `json:"disabled"`
	Limit              Settable[float64]  `json:"limit"`
	LimitReset         Settable[Interval] `json:"limit_reset"`
	IncludeBYOKInLimit *bool              `json:"include_byok_in_limit"`
	Limits             Settable[Limits]   `json:"limits"`
	Presets            Settable[[]string] `json:"presets"`
	PresetRequired     *bool              `json:"preset_required"`
	Models             Settable[[]string] `json:"models"`
}

// apply returns k with the changes made. It has a Scope, which it does not share with k.
func (patch KeyPatch) apply(k Key) Key {
	setTo(&k.Name, patch.Name)
	setTo(&k.Disabled, patch.Disabled)
	patch.Limit.set(&k.Limit)
	if patch.LimitReset.Given {
		k.LimitReset = ValueOr(patch.LimitReset.Value, "")
	}
	setTo(&k.IncludeBYOKInLimit, patch.IncludeBYOKInLimit)
	patch.Limits.set(&k.Limits)
	k.Limits = k.Limits.NilIfNone()
	scope := ValueOr(k.Scope, Scope{})
	if patch.Presets.Given {
		scope.Presets = ValueOr(patch.Presets.Value, nil)
	}
	setTo(&scope.PresetRequired, patch.PresetRequired)
	if patch.Models.Given {
		scope.Models = ValueOr(patch.Models.Value, nil)
	}
	k.Scope = &scope
	return k
}

// Key returns the issued key of an id, or of the hash of its secret. A key whose revocation is
// not stored yet is shown as revoked. A management key sees inference keys that are not revoked,
// in the workspaces that it reaches, and only with the right IssueKeys. Any other key is NotFound
// for it, as an unknown one.
func (s *Service) Key(ctx context.Context, who Principal, ref string) (k Key, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		k, err = s.findKey(r, who, ref)
		return err
	})
	return k, err
}

// OwnKey returns the key of a principal, and the workspace that it acts in. A key of the
// configuration has an id, a user and the workspace alone. A workspace that is deleted is NotFound.
func (s *Service) OwnKey(ctx context.Context, who Principal) (k Key, home Workspace, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		id, err := Home(r, who)
		if err != nil {
			return err
		}
		if home, err = r.Workspace(id); err != nil {
			return err
		}
		k, err = r.KeyByHash(who.Hash)
		if errors.Is(err, ErrNotFound) {
			k, err = Key{ID: who.KeyID, Kind: who.Kind, UserID: who.UserID}, nil
		}
		k.WorkspaceID = id
		return err
	})
	return k, home, err
}

// findKey is Key within a snapshot. For a management key the result has the id of its workspace.
func (s *Service) findKey(r Reader, who Principal, ref string) (k Key, err error) {
	if err := who.CheckIssueKeys(); err != nil {
		return Key{}, err
	}
	var hash KeyHash
	if hash.UnmarshalText([]byte(ref)) == nil {
		k, err = r.KeyByHash(hash)
	} else {
		k, err = r.Key(ref)
	}
	if errors.Is(err, ErrNotFound) {
		return Key{}, errKeyNotFound
	}
	if err != nil {
		return Key{}, err
	}
	s.revocations().show(&k)
	if who.IsServer() {
		return k, nil
	}
	own, err := homeOf(r, k)
	if err == nil && who.OnlyWorkspace() {
		var reached string
		if reached, err = Home(r, who); reached != own {
			k.Kind = ""
		}
	}
	if KindOf(err) == NotFound || k.Kind != InferenceKey || k.RevokedAt != nil {
		return Key{}, errKeyNotFound
	}
	k.WorkspaceID = own
	return k, err
}

// homeOf returns the id of the workspace that k acts in. It may be deleted, unless it is the
// default one.
func homeOf(r Reader, k Key) (string, error) {
	if k.WorkspaceID != "" {
		return k.WorkspaceID, nil
	}
	return Home(r, Principal{})
}

// WorkspaceKeys returns a page of the inference keys that act in the workspace of an id or slug,
// the oldest first, and how many there are. Without a ref it is the workspace of who. Revoked keys
// are left out, and so are disabled ones unless they are wanted. who needs the right IssueKeys. Two lists are read at a time,
// because each reads all keys. It is Unavailable if that takes more than five seconds, with the wait for its turn.
func (s *Service) WorkspaceKeys(ctx context.Context, who Principal, ref string, withDisabled bool, page Page) (keys []Key, total int, err error) {
	if err := who.CheckIssueKeys(); err != nil {
		return nil, 0, err
	}
	read := func(r Reader) error {
		id, err := workspaceOf(r, who, ref)
		if err != nil {
			return err
		}
		fallback, err := homeOf(r, Key{})
		if err != nil {
			return err
		}
		if keys, err = r.Keys(); err != nil {
			return err
		}
		for i := range keys {
			s.revocations().show(&keys[i])
			if keys[i].WorkspaceID == "" {
				keys[i].WorkspaceID = fallback
			}
		}
		keys = slices.DeleteFunc(keys, func(k Key) bool {
			return k.Kind != InferenceKey || k.RevokedAt != nil || k.WorkspaceID != id || k.Disabled && !withDisabled
		})
		return nil
	}
	err = s.lists.run(ctx, func(ctx context.Context) error { return s.store.View(ctx, read) })
	total = len(keys)
	start := min(page.Offset, total)
	return keys[start:min(start+page.Limit, total)], total, err
}

// UpdateKey changes a key, which it finds as Key does, and returns it. If the key has these
// values already, nothing changes. A wrong value is Invalid. A key that is revoked or expired is
// Conflict, and one with rights is Forbidden for an issued key. A changed key acts with the next request. w has no Idempotency, and keys have no
// entity tag, so no If-Match holds.
func (s *Service) UpdateKey(ctx context.Context, w Write, ref string, patch KeyPatch) (Key, error) {
	return s.changeKey(ctx, w, ref, func(c *change, k *Key) (operation string, err error) {
		old := *k
		*k = patch.apply(old)
		err = NewKey{Kind: k.Kind, Name: k.Name, UserID: k.UserID, Scope: *k.Scope, KeyLimits: k.KeyLimits}.Check()
		if k.Scope.IsEmpty() {
			k.Scope = nil
		}
		if reflect.DeepEqual(*k, old) {
			return "", err
		}
		return "key.update", err
	})
}

// MaxGrace bounds how long a secret works after a rotation.
const MaxGrace = 30 * 24 * time.Hour

// RotateKey gives a key, which it finds as UpdateKey does, another secret, and returns both. The
// secret before works until grace is over, which is at most MaxGrace, and one before that ends at once. The key keeps its
// id and all else.
func (s *Service) RotateKey(ctx context.Context, w Write, ref string, grace time.Duration) (k Key, secret string, err error) {
	if grace < 0 || grace > MaxGrace {
		return Key{}, "", InvalidAt("/grace", "must be from 0 to 30 days")
	}
	k, err = s.changeKey(ctx, w, ref, func(c *change, k *Key) (string, error) {
		k.Previous = &PreviousSecret{Hash: k.Hash, Until: c.now.Add(grace)} // its hash finds the key, also without grace
		secret = k.NewSecret()
		return "key.rotate", nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

// changeKey has edit change a key that has not ended. It stores and records the change unless edit
// returns no operation for it.
func (s *Service) changeKey(ctx context.Context, w Write, ref string, edit func(*change, *Key) (operation string, err error)) (shown Key, err error) {
	_, err = s.change(ctx, w, func(c *change) error {
		found, err := s.findKey(c, c.Who, ref)
		if err != nil {
			return err
		}
		if err := c.Condition.Check(); err != nil {
			return err
		}
		if _, ended := found.Ended(c.now); ended {
			return &Error{Kind: Conflict, Message: "The key is revoked or expired, and cannot be changed"}
		}
		k, err := c.Key(found.ID) // found may have another workspace
		if err != nil {
			return err
		}
		if err := c.Who.CheckGives(k.Scope); err != nil {
			return err
		}
		before := k
		operation, err := edit(c, &k)
		if err != nil {
			return err
		}
		shown = k
		if operation != "" {
			k.UpdatedAt = &c.now
			shown = k
			if err := c.PutKey(k); err != nil {
				return err
			}
			object := auditedKey(k)
			object.WorkspaceID = found.WorkspaceID
			switch {
			case k.Disabled && !before.Disabled:
				object.Status = PresetDisabled
			case before.Disabled && !k.Disabled:
				object.Status = PresetActive
			}
			changes, err := diff.Fields(settingsOf(before), settingsOf(k))
			if err != nil {
				return err
			}
			if err := c.record(operation, object, 0, 0, changes...); err != nil {
				return err
			}
		}
		shown.WorkspaceID = found.WorkspaceID
		return nil
	})
	return shown, err
}

// keySettings is what an update changes of a key.
type keySettings struct {
	Name     string `json:"name"`
	Disabled bool   `json:"disabled"`
	KeyLimits
	Scope
}

func settingsOf(k Key) keySettings {
	return keySettings{k.Name, k.Disabled, k.KeyLimits, ValueOr(k.Scope, Scope{})}
}
