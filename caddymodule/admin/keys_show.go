package admin

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

// listedNames is how many presets and how many models a row of the list names.
const listedNames = 3

// may says what the key may do, naming at most so many presets, and so many models.
func (k issuedKey) may(names int) string { return strings.Join(k.permissions(names), "; ") }

// permissions returns the parts of may. Each part is a clause of its own.
func (k issuedKey) permissions(names int) (parts []string) {
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if k.Kind == domain.ManagementKey {
		if k.OnlyWorkspace {
			add("manages workspace %s only", cmp.Or(k.WorkspaceSlug, k.WorkspaceID))
		} else {
			add("manages all workspaces")
		}
		if slices.Contains(k.Rights, domain.ProtectedLabels) {
			add("changes what is protected")
		} else {
			add("cannot change what is protected")
		}
		if slices.Contains(k.Rights, domain.IssueKeys) {
			add("issues inference keys")
		}
		return parts
	}
	add("reads presets, runs models")
	if k.Presets != nil {
		add("presets %s only", some(k.Presets, names))
	}
	if k.PresetRequired {
		add("every request names a preset")
	}
	if slices.Contains(k.Rights, domain.SkipLogging) {
		add("may skip logging")
	}
	if k.Models != nil {
		add("names models %s only", some(k.Models, names))
	}
	if k.Limits != nil {
		for _, limit := range []struct {
			most int64
			of   string
		}{
			{k.Limits.RequestsPerMinute, "requests a minute"},
			{k.Limits.TokensPerMinute, "tokens a minute"},
			{k.Limits.RequestsPerDay, "requests a day"},
			{k.Limits.TokensPerDay, "tokens a day"},
			{k.Limits.Concurrent, "requests at once"},
		} {
			if limit.most > 0 {
				add("%d %s at most", limit.most, limit.of)
			}
		}
	}
	return parts
}

// limit says what the key may spend, and when that counts anew.
func (k issuedKey) limit() string {
	switch {
	case k.Limit == nil:
		return "-"
	case k.LimitReset == "":
		return usd(k.Limit)
	default:
		return usd(k.Limit) + " " + string(k.LimitReset)
	}
}

// usd writes an amount of US dollars.
func usd(amount *float64) string {
	if amount == nil {
		return "-"
	}
	return "$" + strconv.FormatFloat(*amount, 'f', -1, 64)
}

// some returns at most so many of the texts, and the number of the others.
func some(texts []string, most int) string {
	if more := len(texts) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), more)
	}
	return strings.Join(texts, ", ")
}

func showKeyCommand(target *client) *cobra.Command {
	var asJSON bool
	show := &cobra.Command{
		Use:   "show [--json] <id>",
		Short: "Shows a key without its secret, and all that it may do",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := target.callKey(http.MethodGet, args[0], "", nil)
			if err != nil {
				return err
			}
			return output(cmd, asJSON, k, k.print)
		},
	}
	show.Flags().BoolVar(&asJSON, "json", false, "Print JSON")
	return show
}

func (k issuedKey) print(w io.Writer) error {
	table := terminal.NewTable(w)
	for _, row := range [][2]string{
		{"id", k.ID},
		{"kind", string(k.Kind)},
		{"state", k.state()},
		{"secret", "ends in " + k.Hint},
		{"user", cmp.Or(k.UserID, "-")},
		{"workspace", cmp.Or(k.WorkspaceSlug, k.WorkspaceID)},
		{"name", cmp.Or(k.Name, "-")},
		{"created", k.CreatedAt.Format(time.RFC3339)},
		{"expires", timeOr(k.ExpiresAt, "never")},
		{"revoked", timeOr(k.RevokedAt, "never")},
		{"last used", timeOr(k.LastUsedAt, "never")},
		{"limit", k.limit()},
		{"spent", fmt.Sprintf("%s today, %s this month", usd(k.UsageDaily), usd(k.UsageMonthly))},
	} {
		table.Row(row[0], row[1])
	}
	title := "may"
	if !k.Live {
		title = "could, while live"
	}
	for _, part := range k.permissions(math.MaxInt) {
		table.Row(title, part)
		title = ""
	}
	return table.Flush()
}
