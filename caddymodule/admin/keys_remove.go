package admin

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/domain"
)

type keyPruning struct {
	// OlderThan is a duration such as 30d, empty for any time.
	OlderThan string `json:"older_than,omitzero"`
	DryRun    bool   `json:"dry_run,omitzero"`
}

// prunedKeys is the answer, with the keys that were removed or would be.
type prunedKeys struct {
	DryRun bool        `json:"dry_run"`
	Keys   []issuedKey `json:"keys"`
}

func pruneKeys(r request) (any, error) {
	var in keyPruning
	if err := r.read(&in); err != nil {
		return nil, err
	}
	on := domain.KeyPruning{DryRun: in.DryRun}
	if in.OlderThan != "" {
		var err error
		if on.EndedFor, err = caddy.ParseDuration(in.OlderThan); err != nil || on.EndedFor < 0 {
			return nil, badRequest("older_than: must be a duration such as 720h or 30d")
		}
	}
	keys, err := r.Service.PruneKeys(r.Context(), operator, on)
	if err != nil && len(keys) > 0 {
		err = fmt.Errorf("%d keys were removed, and then: %w", len(keys), err)
	}
	return prunedKeys{in.DryRun, r.show(keys...)}, err
}

func removeKeyCommand(target *client) *cobra.Command {
	return &cobra.Command{
		Use:   "remove <id>",
		Short: "Removes a revoked or expired key from the store",
		Long: `
Removes a revoked or expired key from the store, and from "key list". A live key is
refused: revoke it first. The audit trail keeps its records. Histories show the id of the
key, and no name.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := target.callKey(http.MethodPost, args[0], "/remove", nil)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Removed %s key %s, which was %s.\n", k.Kind, k.ID, k.state())
			return err
		},
	}
}

func pruneKeysCommand(target *client) *cobra.Command {
	var in keyPruning
	prune := &cobra.Command{
		Use:   "prune [--older-than <duration>] [--dry-run]",
		Short: "Removes all revoked and expired keys from the store",
		Long: `
Removes all revoked and expired keys from the store, and prints them. --older-than leaves
those that ended within that time. Live keys stay. The audit trail has a record of each
removal. Many keys are removed in several changes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pruned, err := call[prunedKeys](target, http.MethodPost, Path+"keys/prune", in)
			if err != nil {
				return err
			}
			if len(pruned.Keys) > 0 {
				if err := printKeys(cmd.OutOrStdout(), pruned.Keys); err != nil {
					return err
				}
			}
			what := "keys removed"
			if pruned.DryRun {
				what = "keys that would be removed"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d\n", what, len(pruned.Keys))
			return err
		},
	}
	flags := prune.Flags()
	flags.StringVar(&in.OlderThan, "older-than", "", "For how long a removed key has been revoked or expired, such as 30d; default: any time")
	flags.BoolVar(&in.DryRun, "dry-run", false, "Print what would be removed, and remove nothing")
	return prune
}
