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
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

func listKeys(r request) (any, error) {
	keys, err := r.Service.Keys(r.Context())
	return keyList{r.show(keys...)}, err
}

// showOne shows a key, if there is no error instead of it.
func (r request) showOne(k domain.Key, err error) (any, error) { return r.show(k)[0], err }

func getKey(r request) (any, error) { return r.showOne(r.Service.Key(r.Context(), operator.Who, r.keyID)) }

func removeKey(r request) (any, error) {
	return r.showOne(r.Service.RemoveKey(r.Context(), operator, r.keyID))
}

func revokeKey(r request) (any, error) {
	k, err := r.Service.RevokeKey(r.Context(), operator, r.keyID)
	if errors.Is(err, domain.ErrRevocationNotStored) {
		r.live.RetryRevocations()
		caddy.Log().Named("admin.api.presets").Error("a key is revoked in memory alone, until the store takes its revocation", zap.String("key", k.ID), zap.Error(err))
		err = fmt.Errorf("%w; the server tries again each second, and a restart before it succeeds makes the key valid again", err)
	}
	return r.showOne(k, err)
}

type newKeyRequest struct {
	Kind      domain.KeyKind `json:"kind"`
	UserID    string         `json:"user_id,omitzero"`
	Workspace string         `json:"workspace,omitzero"`
	Name      string         `json:"name,omitzero"`
	// ExpiresIn is a duration such as 720h or 30d, empty for ever.
	ExpiresIn string `json:"expires_in,omitzero"`
	domain.Scope
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
	Hint      string     `json:"hint"`
	Live      bool       `json:"live"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	// LastUsedAt is stored once an hour at most. It is nil for never.
	LastUsedAt *time.Time `json:"last_used_at"`
	// Secret is set only in the answer to the key's creation.
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
			WorkspaceID: k.WorkspaceID, WorkspaceSlug: slug, Scope: scope,
			Hint: k.Hint, Live: k.Live(time.Now()),
			CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
		}
	}
	return shown
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
		Kind: in.Kind, UserID: in.UserID, Name: in.Name, Workspace: in.Workspace, Lifetime: lifetime, Scope: in.Scope,
	})
	if err != nil {
		return nil, err
	}
	issued := r.show(k)[0]
	issued.Secret = secret
	return issued, nil
}

func keyCommand() *cobra.Command {
	var target client
	key := &cobra.Command{
		Use:   "key",
		Short: "Issues, lists, revokes and removes keys",
	}
	target.flags(key)
	key.AddCommand(createKeyCommand(&target), listKeysCommand(&target), showKeyCommand(&target), revokeKeyCommand(&target),
		removeKeyCommand(&target), pruneKeysCommand(&target))
	refuseUnknown(key)
	return key
}

// errSecretAsID refuses a key in place of its id, since Caddy logs the address of each request.
var errSecretAsID = errors.New("that is a key, and not the id of one, so nothing was sent. " +
	`Find its id with "caddy presets key list": ENDS IN has its last characters`)

// callKey calls a path of the key of an id, or below it.
func (t *client) callKey(method, id, below string) (issuedKey, error) {
	if secrets.AreIn(id) {
		return issuedKey{}, errSecretAsID
	}
	return call[issuedKey](t, method, Path+"keys/"+url.PathEscape(id)+below, nil)
}

func createKeyCommand(target *client) *cobra.Command {
	var in newKeyRequest
	var may []string
	create := &cobra.Command{
		Use:   "create --kind management|inference [--user <id>] [--workspace <slug>] [--name <text>] [--expires <duration>] [limits]",
		Short: "Issues a key and prints it, once, on standard output",
		Long: `
Issues a key and prints it, once, on standard output.

An inference key can be limited to presets and to models: --preset, --preset-required and
--model. A management key can be limited to its workspace: --only-workspace. It changes
protected labels and presets only with --may protected-labels.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, right := range may {
				in.Rights = append(in.Rights, domain.Right(right))
			}
			k, err := call[issuedKey](target, http.MethodPost, Path+"keys", in)
			if err != nil {
				return err
			}
			expires := "never expires"
			if k.ExpiresAt != nil {
				expires = "expires " + k.ExpiresAt.Format(time.RFC3339)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Issued %s key %s, which %s. It is not shown again:\n", k.Kind, k.ID, expires)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), k.Secret)
			return err
		},
	}
	flags := create.Flags()
	flags.StringVar((*string)(&in.Kind), "kind", "", "What the key may do: management or inference")
	flags.StringVar(&in.UserID, "user", "", "The id of the user that the key stands for; default: the key's own id")
	flags.StringVar(&in.Workspace, "workspace", "", "The slug or id of the workspace that the key acts in; default: default")
	flags.StringVar(&in.Name, "name", "", "A note, shown in lists")
	flags.StringVar(&in.ExpiresIn, "expires", "", "How long the key lives, such as 720h or 30d; default: for ever")
	flags.StringArrayVar(&in.Presets, "preset", nil, "The slug of a preset that the inference key reaches, and no other; may be repeated")
	flags.BoolVar(&in.PresetRequired, "preset-required", false, "Refuse inference requests that name no preset")
	flags.StringArrayVar(&in.Models, "model", nil, "A model that requests may name, and no other; * stands for any text without a colon or comma; may be repeated")
	flags.BoolVar(&in.OnlyWorkspace, "only-workspace", false, "Let the management key see and manage its workspace alone")
	flags.StringArrayVar(&may, "may", nil, "A right of the management key: protected-labels; may be repeated")
	_ = create.MarkFlagRequired("kind") // fails for an unknown flag only
	return create
}

func listKeysCommand(target *client) *cobra.Command {
	var asJSON bool
	list := &cobra.Command{
		Use:   "list [--json]",
		Short: "Lists the issued keys, without their secrets",
		Long: `
Lists the issued keys, without their secrets, and says what each may do. It shortens long
lists of presets and models; "key show" prints them whole. The last use is stored once an
hour at most, so it may be up to an hour later than shown.`,
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
			k, err := target.callKey(http.MethodDelete, args[0], "")
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
	table.Row("ID", "KIND", "STATE", "ENDS IN", "USER", "WORKSPACE", "CREATED", "EXPIRES", "LAST USED", "MAY", "NAME")
	for _, k := range keys {
		table.Row(k.ID, string(k.Kind), k.state(), k.Hint,
			cmp.Or(k.UserID, "-"), cmp.Or(k.WorkspaceSlug, k.WorkspaceID), k.CreatedAt.Format(time.RFC3339),
			timeOr(k.ExpiresAt, "never"), timeOr(k.LastUsedAt, "never"), k.may(listedNames), k.Name)
	}
	return table.Flush()
}

func (k issuedKey) state() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case !k.Live:
		return "expired"
	default:
		return "live"
	}
}
