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

// limit says what the key may spend, when that counts anew, and what is left.
func (k issuedKey) limit() string {
	if k.Limit == nil {
		return "-"
	}
	text := "$" + strconv.FormatFloat(*k.Limit, 'f', -1, 64)
	if k.LimitReset != "" {
		text += " " + string(k.LimitReset)
	}
	if k.LimitRemaining != nil {
		text += ", " + spentUSD(k.LimitRemaining) + " left"
	}
	return text
}

// spentUSD writes an amount of US dollars to the cent, or to four digits if it is less than one.
func spentUSD(amount *float64) string {
	switch {
	case amount == nil:
		return "-"
	case *amount >= 1:
		return "$" + strconv.FormatFloat(*amount, 'f', 2, 64)
	default:
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(*amount, 'g', 4, 64), 64)
		return "$" + strconv.FormatFloat(rounded, 'f', -1, 64)
	}
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
	} {
		table.Row(row[0], row[1])
	}
	if k.Kind == domain.InferenceKey {
		table.Row("limit", k.limit())
		table.Row("spent", fmt.Sprintf("%s today, %s this month", spentUSD(k.UsageDaily), spentUSD(k.UsageMonthly)))
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
