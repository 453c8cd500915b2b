package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

func listKeys(r request) (any, error) {
	keys, err := r.Service.Keys(r.Context())
	return keyList{r.withUsage(r.show(keys...))}, err
}

// showOne shows a key, if there is no error instead of it.
func (r request) showOne(k domain.Key, err error) (any, error) { return r.show(k)[0], err }

func getKey(r request) (any, error) {
	k, err := r.Service.Key(r.Context(), operator.Who, r.keyID)
	return r.withUsage(r.show(k))[0], err
}

func removeKey(r request) (any, error) {
	return r.showOne(r.Service.RemoveKey(r.Context(), operator, r.keyID))
}

func revokeKey(r request) (any, error) {
	return r.showOne(r.live.RevokeKey(r.Context(), r.Service, operator, r.keyID))
}

type newKeyRequest struct {
	Kind      domain.KeyKind `json:"kind"`
	UserID    string         `json:"user_id,omitzero"`
	Workspace string         `json:"workspace,omitzero"`
	Name      string         `json:"name,omitzero"`
	// ExpiresIn is a duration such as 720h or 30d, empty for ever.
	ExpiresIn string `json:"expires_in,omitzero"`
	domain.Scope
	domain.KeyLimits
}

// issuedKey is a key as the admin endpoint shows it.
type issuedKey struct {
	ID          string         `json:"id"`
	Kind        domain.KeyKind `json:"kind"`
	Name        string         `json:"name"`
	UserID      string         `json:"user_id"`
	WorkspaceID string         `json:"workspace_id"` // empty: the default workspace
	// WorkspaceSlug is empty if the workspace was deleted or cannot be read.
	WorkspaceSlug string `json:"workspace_slug"`
	domain.Scope
	domain.KeyLimits
	Hint      string     `json:"hint"`
	Live      bool       `json:"live"`
	Disabled  bool       `json:"disabled"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	// GraceEndsAt is until when the secret before the last rotation works.
	GraceEndsAt *time.Time `json:"grace_ends_at,omitzero"`
	// LastUsedAt is stored once an hour at most. It is nil for never.
	LastUsedAt *time.Time `json:"last_used_at"`
	// UsageDaily and UsageMonthly are what the key has spent in the present day and month, in US
	// dollars. They are nil if that is not known.
	UsageDaily   *float64 `json:"usage_daily"`
	UsageMonthly *float64 `json:"usage_monthly"`
	// LimitRemaining is what is left of the limit in its present window, nil without one or if that is not known.
	LimitRemaining *float64 `json:"limit_remaining"`
	// Secret is set only in the answers to the key's creation and rotation.
	Secret string `json:"key,omitzero"`
}

type keyList struct {
	Keys []issuedKey `json:"keys"`
}

// show returns keys as the admin endpoint shows them.
func (r request) show(keys ...domain.Key) []issuedKey {
	slugs := map[string]string{"": domain.DefaultWorkspaceSlug}
	shown := make([]issuedKey, len(keys))
	for i, k := range keys {
		slug, known := slugs[k.WorkspaceID]
		if !known {
			// Show the key without it, because its secret may be shown only now.
			if found, err := r.Service.Workspace(r.Context(), operator.Who, k.WorkspaceID); err == nil {
				var w domain.Workspace
				_ = jsonv2.Unmarshal(found.JSON, &w)
				slug = w.Slug
			}
			slugs[k.WorkspaceID] = slug
		}
		var scope domain.Scope
		if k.Scope != nil {
			scope = *k.Scope
		}
		shown[i] = issuedKey{
			ID: k.ID, Kind: k.Kind, Name: k.Name, UserID: k.UserID,
			WorkspaceID: k.WorkspaceID, WorkspaceSlug: slug, Scope: scope, KeyLimits: k.KeyLimits,
			Hint: k.Hint, Live: k.Live(time.Now()), Disabled: k.Disabled,
			CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
		}
		if k.Previous != nil && time.Now().Before(k.Previous.Until) {
			shown[i].GraceEndsAt = &k.Previous.Until
		}
	}
	return shown
}

// withUsage adds what the keys have spent. Without it the keys are as useful, so it may be missing.
func (r request) withUsage(keys []issuedKey) []issuedKey {
	if r.StoreUsage == nil {
		return keys // nothing is measured
	}
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	spent := quota.Of(r.live.Name()).SpentBy(r.Context(), r.Store, time.Now(), ids...)
	for i := range keys {
		k := &keys[i]
		of, ok := spent[k.ID]
		if !ok || k.Kind != domain.InferenceKey {
			continue // it spends nothing
		}
		k.UsageDaily, k.UsageMonthly = new(of.Of(domain.Daily)), new(of.Of(domain.Monthly))
		if k.Limit != nil {
			k.LimitRemaining = new(max(0, *k.Limit-of.Of(k.LimitReset)))
		}
	}
	return keys
}

func issueKey(r request) (any, error) {
	var in newKeyRequest
	if err := r.read(&in); err != nil {
		return nil, err
	}
	var lifetime time.Duration
	if in.ExpiresIn != "" {
		var err error
		if lifetime, err = caddy.ParseDuration(in.ExpiresIn); err != nil || lifetime <= 0 {
			return nil, badRequest("expires_in: must be a positive duration such as 720h or 30d, of at most %dd", math.MaxInt64/(24*time.Hour))
		}
	}
	k, secret, err := r.Service.IssueKey(r.Context(), operator, domain.NewKey{
		Kind: in.Kind, UserID: in.UserID, Name: in.Name, Workspace: in.Workspace, Lifetime: lifetime, Scope: in.Scope, KeyLimits: in.KeyLimits,
	})
	return r.showSecret(k, secret, err)
}

// showSecret shows a key with its new secret, if there is no error instead of it.
func (r request) showSecret(k domain.Key, secret string, err error) (any, error) {
	shown := r.show(k)[0]
	shown.Secret = secret
	return shown, err
}

func keyCommand() *cobra.Command {
	var target client
	key := &cobra.Command{
		Use:   "key",
		Short: "Issues, lists, rotates, revokes and removes keys",
	}
	target.flags(key)
	key.AddCommand(createKeyCommand(&target), listKeysCommand(&target), showKeyCommand(&target), rotateKeyCommand(&target),
		revokeKeyCommand(&target), removeKeyCommand(&target), pruneKeysCommand(&target))
	refuseUnknown(key)
	return key
}

// errSecretAsID refuses a key in place of its id, since Caddy logs the address of each request.
var errSecretAsID = errors.New("that is a key, and not the id of one, so nothing was sent. " +
	`Find its id with "caddy presets key list": ENDS IN has its last characters`)

// callKey calls a path of the key of an id, or below it, with a body that may be nil.
func (t *client) callKey(method, id, below string, body any) (issuedKey, error) {
	if secrets.AreIn(id) {
		return issuedKey{}, errSecretAsID
	}
	return call[issuedKey](t, method, Path+"keys/"+url.PathEscape(id)+below, body)
}

func listKeysCommand(target *client) *cobra.Command {
	var asJSON bool
	list := &cobra.Command{
		Use:   "list [--json]",
		Short: "Lists the issued keys, without their secrets",
		Long: `
Lists the issued keys, without their secrets, and says what each may do. It shortens long
lists of presets and models; "key show" prints them whole. TODAY and MONTH are what a key has
spent in the present day and month in UTC. The last use is stored once an hour at most, so it
may be up to an hour later than shown.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := call[keyList](target, http.MethodGet, Path+"keys", nil)
			if err != nil {
				return err
			}
			return output(cmd, asJSON, keys.Keys, func(w io.Writer) error { return printKeys(w, keys.Keys) })
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "Print JSON")
	return list
}

func revokeKeyCommand(target *client) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke <id>",
		Short: "Ends a key for good, at once",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := target.callKey(http.MethodDelete, args[0], "", nil)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Revoked %s key %s.\n", k.Kind, k.ID)
			return err
		},
	}
}

func printKeys(w io.Writer, keys []issuedKey) error {
	table := terminal.NewTable(w)
	table.Row("ID", "KIND", "STATE", "ENDS IN", "USER", "WORKSPACE", "CREATED", "EXPIRES", "LAST USED", "NAME", "LIMIT", "TODAY", "MONTH", "MAY")
	for _, k := range keys {
		table.Row(k.ID, string(k.Kind), k.state(), k.Hint,
			cmp.Or(k.UserID, "-"), cmp.Or(k.WorkspaceSlug, k.WorkspaceID), k.CreatedAt.Format(time.RFC3339),
			timeOr(k.ExpiresAt, "never"), timeOr(k.LastUsedAt, "never"), cmp.Or(k.Name, "-"), k.limit(), spentUSD(k.UsageDaily), spentUSD(k.UsageMonthly), k.may(listedNames))
	}
	return table.Flush()
}

func (k issuedKey) state() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.Disabled:
		return "disabled"
	case !k.Live:
		return "expired"
	default:
		return "live"
	}
}
