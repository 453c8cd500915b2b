package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// defaultAuditPage is the default number of records in an answer.
	defaultAuditPage = 100
	// newestRecords is the default number of records that the command prints.
	newestRecords = 50
)

// auditPage is a part of the audit trail, with the trail's end at that moment.
type auditPage struct {
	Records []domain.AuditRecord `json:"records"`
	Total   int                  `json:"total_count"`
	Head    domain.AuditHead     `json:"head"`
}

// listAudit answers with the records after a number, the oldest first.
func listAudit(r request) (any, error) {
	query := r.URL.Query()
	after, err := numberIn(query, "after", 0, 0, math.MaxInt)
	if err != nil {
		return nil, err
	}
	limit, err := numberIn(query, "limit", defaultAuditPage, 1, domain.MaxAuditPage)
	if err != nil {
		return nil, err
	}
	records, head, err := r.Service.AuditTrail(r.Context(), after, limit)
	if err != nil {
		return nil, err
	}
	return auditPage{records, head.Count, head}, nil
}

// numberIn returns a number of a query, or the default otherwise.
func numberIn(query url.Values, name string, otherwise, least, most int) (int, error) {
	text, err := domain.OnlyValue(name, query[name])
	if err != nil || text == "" {
		return otherwise, err
	}
	n, ok := domain.ParseNumber(text)
	if !ok || n < least || n > most {
		return 0, domain.InvalidAt(name, fmt.Sprintf("must be a number from %d to %d", least, most))
	}
	return n, nil
}

func auditCommand() *cobra.Command {
	var (
		target       client
		verify       bool
		expected     string
		asJSON       bool
		after, limit int
		filter       auditFilter
	)
	audit := &cobra.Command{
		Use:   "audit [--workspace <slug>] [--preset <slug>] [--since <time>] [--json] [--after <number>] [--limit <count>] | --verify [--head <hash>] [--json]",
		Short: "Prints or verifies the trail of all changes",
		Long: `
Prints who changed what and when: the newest 50 changes as a table, or with --json the whole
trail, one record a line. It leaves out changes that are made while it runs. --workspace, --preset
and --since choose records, of which --limit counts.

Every record holds the hash of the one before, so that nobody can change, remove or insert a
record unnoticed. --verify computes all hashes again, and prints the number of records and the
last hash, with --json as an object. Keep that hash in another place: --verify --head checks that
the trail still has it, and so detects a trail that was replaced as a whole.

The hash of a record is the SHA-256 of its line of --json without the last member, hash.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := target.auditPage(0, 1)
			if err != nil {
				return err
			}
			trail := trail{&target, page.Head}
			if verify || expected != "" {
				if err := trail.verify(expected); err != nil {
					return err
				}
				return output(cmd, asJSON, trail.head, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d records, unbroken, head %x\n", trail.head.Count, trail.head.Hash)
					return err
				})
			}
			flags := cmd.Flags()
			if asJSON && !flags.Changed("limit") {
				limit = 0
			}
			print := printRecords
			if asJSON {
				print = printRecordLines
			}
			if filter != (auditFilter{}) {
				chosen, err := filter.apply(trail, after, limit, !flags.Changed("after"))
				if err != nil {
					return err
				}
				return print(cmd.OutOrStdout(), chosen)
			}
			if limit > 0 && !flags.Changed("after") {
				after = max(trail.head.Count-limit, 0)
			}
			return print(cmd.OutOrStdout(), trail.records(after, limit))
		},
	}
	target.flags(audit)
	flags := audit.Flags()
	flags.BoolVar(&verify, "verify", false, "Check the hashes of the whole trail")
	flags.StringVar(&expected, "head", "", "Verify, and check that the trail has the record of this hash")
	flags.BoolVar(&asJSON, "json", false, "Print JSON, one record a line")
	flags.IntVar(&after, "after", 0, "Print the records after this number, instead of the newest")
	flags.IntVar(&limit, "limit", newestRecords, "Print at most so many records; 0, as with --json: all")
	flags.StringVar(&filter.workspace, "workspace", "", "Print the records of the workspace of a slug or id, and of what is in it")
	flags.StringVar(&filter.preset, "preset", "", "Print the records of the presets of a slug")
	flags.StringVar(&filter.since, "since", "", "Print the records since then: a duration such as 7d, a date, or a time as RFC 3339")
	for _, check := range []string{"verify", "head"} {
		for _, other := range []string{"after", "limit", "workspace", "preset", "since"} {
			audit.MarkFlagsMutuallyExclusive(check, other)
		}
	}
	return audit
}

// trail is the audit trail of a running server, up to head. Later records are left out, so
// that reading it ends even while others write.
type trail struct {
	target *client
	head   domain.AuditHead
}

func (t *client) auditPage(after, limit int) (auditPage, error) {
	return call[auditPage](t, http.MethodGet, fmt.Sprintf("%saudit?after=%d&limit=%d", Path, after, limit), nil)
}

// records yields at most limit records after a number, 0 for all. An error ends them.
func (t trail) records(after, limit int) records {
	end := t.head.Count
	if limit > 0 && after <= end-limit {
		end = after + limit
	}
	return func(yield func(domain.AuditRecord, error) bool) {
		for read := after; read < end; {
			page, err := t.target.auditPage(read, min(end-read, domain.MaxAuditPage))
			if err == nil && len(page.Records) == 0 {
				err = fmt.Errorf("the audit trail ends with record %d and not with %d", read, t.head.Count)
			}
			if err != nil {
				yield(domain.AuditRecord{}, err)
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
					return
				}
			}
			read += len(page.Records)
		}
	}
}

// verify checks the whole trail, and that it has the expected hash, if expected is not empty.
func (t trail) verify(expected string) error {
	var want, none domain.AuditHash
	if expected != "" {
		if err := want.UnmarshalText([]byte(expected)); err != nil {
			return fmt.Errorf("--head: %w", err)
		}
	}
	found := want == none // every trail begins with it
	var head domain.AuditHead
	for r, err := range t.records(0, 0) {
		if err != nil {
			return err
		}
		if head, err = domain.VerifyAudit(head, []domain.AuditRecord{r}); err != nil {
			return err
		}
		found = found || head.Hash == want
	}
	switch {
	case head != t.head:
		return fmt.Errorf("the audit trail ends with a wrong record %d; the last record has hash %x", head.Count, t.head.Hash)
	case !found:
		return errors.New("the audit trail is unbroken, but no record has the hash of --head: the hash is from another trail")
	}
	return nil
}

// printRecordLines prints records as JSON Lines, each as its hash was made of.
func printRecordLines(w io.Writer, all records) error {
	for r, err := range all {
		if err != nil {
			return err
		}
		line, err := jsonv2.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func printRecords(w io.Writer, all records) error {
	table := terminal.NewTable(w)
	table.Row("NUMBER", "TIME", "OPERATION", "OBJECT", "VERSION", "USER", "KEY", "REQUEST")
	for r, err := range all {
		if err != nil {
			return err
		}
		table.Row(strconv.Itoa(r.Number), r.Time.Format(time.RFC3339), r.Operation,
			objectName(r.Object), versionChange(r), userName(r), cmp.Or(r.KeyID, "-"), cmp.Or(r.RequestID, "-"))
	}
	return table.Flush()
}

// objectName returns an object's reference, slug or id, and what the change did to it.
func objectName(o domain.AuditObject) string {
	name := cmp.Or(o.Slug, o.ID)
	if o.Label != "" {
		name += "@" + o.Label
	}
	if o.Split != "" {
		name += " split " + o.Split
	}
	if o.Status != "" {
		name += " " + string(o.Status)
	}
	if o.Pruned != "" {
		name += " less " + o.Pruned
	}
	return name
}

// userName returns the user of the key, and the person whom a proxy named.
func userName(r domain.AuditRecord) string {
	if r.Actor == "" {
		return r.UserID
	}
	return r.UserID + " (" + r.Actor + ")"
}

func versionChange(r domain.AuditRecord) string {
	switch {
	case r.Object.Draft != 0:
		return fmt.Sprintf("%d, draft %d", r.After, r.Object.Draft)
	case r.Before == r.After && r.After == 0:
		return "-"
	case r.Before == r.After:
		return strconv.Itoa(r.After)
	default:
		return fmt.Sprintf("%d -> %d", r.Before, r.After)
	}
}
