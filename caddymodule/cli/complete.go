package cli

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// completionTime bounds how long a shell waits for the server.
	completionTime = time.Second
	// maxCandidates bounds how many candidates a shell gets.
	maxCandidates = 100
)

// source returns the candidates for an argument from a server. args are the earlier ones, and
// typed is the beginning of this one.
type source func(ctx context.Context, a api, args []string, typed string) ([]string, error)

// slugs are those of presets, and archivedSlugs those of archived ones. They have @preset/ before them if
// the word begins with it.
var slugs, archivedSlugs = slugsOf(""), slugsOf(domain.PresetArchived)

func slugsOf(status domain.PresetStatus) source {
	return func(ctx context.Context, a api, _ []string, typed string) ([]string, error) {
		word, isReference := strings.CutPrefix(typed, domain.ReferenceMark)
		found, err := a.names(ctx, "/presets", a.query("q", word, "status", string(status), "sort", "slug", "order", "asc"), domain.CheckPresetSlug)
		for i := range found {
			if isReference {
				found[i] = domain.ReferenceMark + found[i]
			}
		}
		return found, err
	}
}

// workspaces are the slugs of workspaces.
var workspaces source = func(ctx context.Context, a api, _ []string, _ string) ([]string, error) {
	return a.names(ctx, "/workspaces", url.Values{}, func(slug string) error {
		if uuid.Validate(slug) == nil {
			return nil
		}
		return domain.CheckPresetSlug(slug) // its characters are safe for a shell
	})
}

// labels are those of the preset that the first argument names.
var labels source = func(ctx context.Context, a api, args []string, _ string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("no preset is named")
	}
	slug, _, err := SplitReference(args[0])
	if err != nil {
		return nil, err
	}
	p, _, err := a.preset(ctx, slug)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(p.Labels))
	return slices.DeleteFunc(names, func(name string) bool { return domain.CheckLabel(name) != nil }), nil
}

// names returns slugs that check allows: shells expand candidates, and a server may be hostile.
func (a api) names(ctx context.Context, path string, query url.Values, check func(string) error) ([]string, error) {
	query.Set("limit", strconv.Itoa(maxCandidates))
	response, err := a.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	var page []struct {
		Slug string `json:"slug"`
	}
	if err := json.Unmarshal(response.Data, &page); err != nil {
		return nil, err
	}
	var found []string
	for _, one := range page {
		if check(one.Slug) == nil {
			found = append(found, one.Slug)
		}
	}
	return found, nil
}

// complete completes a word from a source. It asks the server within completionTime, once. Errors are
// silent, because the shell shows the command that is being typed. The key must not come from standard
// input, which is the shell's.
func (t *target) complete(from source) cobra.CompletionFunc {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if t.keyFile == "-" {
			return nil, directive
		}
		a, err := t.api(cmd)
		if err != nil {
			return nil, directive
		}
		a.Tries = 1
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		found, err := from(ctx, a, args, typed)
		if err != nil {
			return nil, directive
		}
		return slices.DeleteFunc(found, func(one string) bool { return !strings.HasPrefix(one, typed) }), directive
	}
}

func (t *target) completeArgs(sources ...source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(sources) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return t.complete(sources[len(args)])(cmd, args, typed)
	}
}

func completeFlag(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, by) // fails for an unknown flag only
}

func oneOf(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
