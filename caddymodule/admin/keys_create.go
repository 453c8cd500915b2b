package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/domain"
)

func rotateKey(r request) (any, error) {
	var in keyRotation
	if err := r.read(&in); err != nil {
		return nil, err
	}
	var grace time.Duration
	if in.Grace != "" {
		var err error
		if grace, err = caddy.ParseDuration(in.Grace); err != nil {
			return nil, badRequest("grace: must be a duration such as 24h or 7d")
		}
	}
	return r.showSecret(r.Service.RotateKey(r.Context(), operator, r.keyID, grace))
}

type keyRotation struct {
	// Grace is a duration such as 24h, empty for none.
	Grace string `json:"grace,omitzero"`
}

// newKeyOptions are the options of key create that newKeyRequest has in another form.
type newKeyOptions struct {
	may    []string
	like   string
	limit  float64
	limits domain.Limits
}

// countOption is an option for a number of requests or tokens.
type countOption struct {
	name, usage string
	value       *int64
}

func (o *newKeyOptions) counts() []countOption {
	return []countOption{
		{"rpm", "The requests of a minute", &o.limits.RequestsPerMinute},
		{"tpm", "The tokens of a minute", &o.limits.TokensPerMinute},
		{"rpd", "The requests of a day in UTC", &o.limits.RequestsPerDay},
		{"tpd", "The tokens of a day in UTC", &o.limits.TokensPerDay},
		{"concurrent", "The requests in flight at once", &o.limits.Concurrent},
	}
}

// apply puts the options into a request, also what they take from another key.
func (o *newKeyOptions) apply(target *client, in *newKeyRequest, isGiven func(option string) bool) error {
	for _, right := range o.may {
		in.Rights = append(in.Rights, domain.Right(right))
	}
	if isGiven("limit") {
		in.Limit = &o.limit
	}
	for _, option := range o.counts() {
		if isGiven(option.name) && (*option.value < 1 || *option.value > domain.MaxLimit) {
			return fmt.Errorf("--%s must be an integer from 1 to %d", option.name, domain.MaxLimit)
		}
	}
	if o.limits != (domain.Limits{}) {
		in.Limits = &o.limits
	}
	if o.like == "" {
		if in.Kind == "" && in.KeyLimits != (domain.KeyLimits{}) {
			in.Kind = domain.InferenceKey
		}
		if in.Kind == "" {
			return errors.New("--kind or --like is needed, unless the key has limits that only inference keys have")
		}
		return nil
	}
	k, err := target.callKey(http.MethodGet, o.like, "", nil)
	if err != nil {
		return err
	}
	in.Kind, in.Workspace = cmp.Or(in.Kind, k.Kind), cmp.Or(in.Workspace, k.WorkspaceID)
	if in.Presets == nil {
		in.Presets = k.Presets
	}
	if in.Models == nil {
		in.Models = k.Models
	}
	if in.Rights == nil {
		in.Rights = k.Rights
	}
	in.PresetRequired, in.OnlyWorkspace = in.PresetRequired || k.PresetRequired, in.OnlyWorkspace || k.OnlyWorkspace
	in.Limit, in.LimitReset, in.Limits = cmp.Or(in.Limit, k.Limit), cmp.Or(in.LimitReset, k.LimitReset), in.Limits.Or(k.Limits)
	in.IncludeBYOKInLimit = k.IncludeBYOKInLimit
	return nil
}

func createKeyCommand(target *client) *cobra.Command {
	var in newKeyRequest
	var options newKeyOptions
	create := &cobra.Command{
		Use:   "create --kind management|inference | --like <id> | <limits> [--user <id>] [--workspace <slug>] [--name <text>] [--expires <duration>]",
		Short: "Issues a key and prints it, once, on standard output",
		Long: `
Issues a key and prints it, once, on standard output.

An inference key can be limited to presets and to models: --preset, --preset-required and
--model. It can be limited in what it spends and uses: --limit with --reset, --rpm, --tpm,
--rpd, --tpd and --concurrent, which need no --kind. A management key can be limited to its workspace:
--only-workspace. It changes protected labels and presets only with --may protected-labels,
and issues inference keys by the API only with --may issue-keys.
Requests of an inference key with --may skip-logging may ask not to be logged.

With --like, what is not given is as with another key: its kind, workspace, limits and rights.
Its name, user and lifetime are not taken.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.apply(target, &in, cmd.Flags().Changed); err != nil {
				return err
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
	flags.StringVar((*string)(&in.Kind), "kind", "", "What the key may do: management or inference; default: inference for a key that is limited in what it uses")
	flags.StringVar(&options.like, "like", "", "The id of a key whose kind, workspace, limits and rights are the default")
	flags.StringVar(&in.UserID, "user", "", "The id of the user that the key stands for; default: the key's own id")
	flags.StringVar(&in.Workspace, "workspace", "", "The slug or id of the workspace that the key acts in; default: default")
	flags.StringVar(&in.Name, "name", "", "A note, shown in lists")
	flags.StringVar(&in.ExpiresIn, "expires", "", "How long the key lives, such as 720h or 30d; default: for ever")
	flags.StringArrayVar(&in.Presets, "preset", nil, "The slug of a preset that the inference key reaches, and no other; may be repeated")
	flags.BoolVar(&in.PresetRequired, "preset-required", false, "Refuse inference requests that name no preset")
	flags.StringArrayVar(&in.Models, "model", nil, "A model that requests may name, and no other; * stands for any text without a colon or comma; may be repeated")
	flags.Float64Var(&options.limit, "limit", 0, "How much the inference key may spend in each window of --reset, in US dollars; default: any amount")
	flags.StringVar((*string)(&in.LimitReset), "reset", "", "When spending counts anew, at midnight in UTC: daily, weekly or monthly; default: never")
	for _, option := range options.counts() {
		flags.Int64Var(option.value, option.name, 0, option.usage+"; default: any number")
	}
	flags.BoolVar(&in.OnlyWorkspace, "only-workspace", false, "Let the management key see and manage its workspace alone")
	flags.StringArrayVar(&options.may, "may", nil, "A right: protected-labels or issue-keys of a management key, skip-logging of an inference key; may be repeated")
	return create
}

func rotateKeyCommand(target *client) *cobra.Command {
	var in keyRotation
	rotate := &cobra.Command{
		Use:   "rotate [--grace <duration>] <id>",
		Short: "Gives a key another secret and prints that, once, on standard output",
		Long: `
Gives a key another secret and prints that, once, on standard output. The key keeps its id,
name, limits, usage and history. The secret before works until the grace ends, and without
--grace it ends at once. A secret before that one ends in any case.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := target.callKey(http.MethodPost, args[0], "/rotate", in)
			if err != nil {
				return err
			}
			former := "ended"
			if k.GraceEndsAt != nil {
				former = "works until " + k.GraceEndsAt.Format(time.RFC3339)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Rotated %s key %s, whose former secret %s. The new one is not shown again:\n", k.Kind, k.ID, former)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), k.Secret)
			return err
		},
	}
	rotate.Flags().StringVar(&in.Grace, "grace", "", "How long the secret before still works, such as 24h or 7d; default: not at all")
	return rotate
}
