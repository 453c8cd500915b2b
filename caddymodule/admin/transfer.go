package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// LinesType is the media type of an export.
const LinesType = "application/jsonl"

// recordsHeader of the answer to an export is about how many records follow, without kept
// answers.
const recordsHeader = "X-Presets-Records"

// exportStore answers with an export.
func exportStore(r request) error {
	about, err := transfer.Objects(r.Context(), r.Store)
	if err != nil {
		return transferError(err)
	}
	r.w.Header().Set(recordsHeader, strconv.Itoa(about))
	if r.isHead(LinesType) {
		return nil
	}
	to := r.download(LinesType)
	defer to.close()
	_, err = transfer.Export(to.ctx, r.Store, to)
	return transferError(to.abort("an export", err))
}

// importStore imports the export in the body.
func importStore(r request) error {
	from := r.upload()
	summary, err := transfer.Import(from.ctx, r.Store, from)
	from.close()
	if err == nil { // the export may be without a default workspace
		err = r.Service.EnsureDefaultWorkspace(r.Context())
	}
	if err != nil {
		return transferError(err)
	}
	return writeJSON(r.w, http.StatusOK, summary)
}

func transferError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transfer.ErrNone):
		return caddy.APIError{HTTPStatus: http.StatusConflict, Err: err}
	case errors.Is(err, transfer.ErrFile), errors.Is(err, transfer.ErrStore), errors.Is(err, transfer.ErrUnfinished):
		return badRequest(err)
	default:
		return withStatus(err)
	}
}

func exportCommand() *cobra.Command {
	var target client
	export := &cobra.Command{
		Use:   "export <file>|-",
		Short: "Exports a running server's store, for another engine",
		Long: `
Writes a snapshot of the whole store to a new file, or for - to standard output. It is
JSON Lines that any engine can import. It has the workspaces, the presets with all
their versions, labels and label changes, the audit trail, the keys by their hashes, and
the answers kept for an Idempotency-Key. The server goes on serving meanwhile.

An export holds all prompts in plain text, even if the store is encrypted. Only its
owner can read the file. The file gets its name once it is complete and on the disk.
Until then its name is <file>.partial.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeFile(cmd, args[0], target.exportTo)
		},
	}
	target.flags(export)
	return export
}

// exportTo copies an export from the server, checks it and describes it in messages.
func (t *client) exportTo(ctx context.Context, messages, to io.Writer) error {
	var summary transfer.Summary
	p, err := t.fetch(ctx, messages, Path+"export", func(p *progress) (err error) {
		summary, err = transfer.Follow(ctx, io.TeeReader(p, to), p.count)
		return err
	})
	switch {
	case errors.Is(err, transfer.ErrFile):
		return fmt.Errorf("the server sent an incomplete export; its log has the reason: %w", err)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(messages, "Exported %s: %d records and %s in %v, digest %s\n", describeCounts(summary.Counts), summary.Total(), humanize.IBytes(uint64(p.read())), p.elapsed(), summary.Digest)
	return err
}

func describeCounts(n transfer.Counts) string {
	return fmt.Sprintf("%d workspaces, %d presets, %d versions, %d changes of labels, %d rows of usage, %d keys, %d audit records and %d kept answers",
		n.Workspaces, n.Presets, n.Versions, n.LabelChanges, n.Usage, n.Keys, n.Audit, n.Answers)
}

func importCommand() *cobra.Command {
	var target client
	var abandon bool
	imports := &cobra.Command{
		Use:   "import <file>|-  or  import --abandon",
		Short: "Imports an export into a running server's new store",
		Long: `
Imports an export into the store of a running server. The store must be new: it may
hold only the records of a server's first start. Until the import is finished, other
changes of that store are answered with 503.

A file is checked to its end before anything is imported. Standard input, for -, is
imported as it arrives. The last line verifies all others and finishes the import.

Run the command again with the same file to continue an interrupted import. Until it is
finished, the store takes no change and no other import, and cannot be exported or
backed up.

--abandon gives an unfinished import up for good, and prints what is missing. The
imported objects stay, and the store takes changes again. The rest cannot be imported
into it any more.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if abandon {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if abandon {
				return target.abandonImport(cmd.OutOrStdout())
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			if args[0] == "-" {
				return target.importFrom(ctx, cmd.ErrOrStderr(), cmd.InOrStdin(), 0)
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			info, err := file.Stat()
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr(), file, info.Size())
			_, err = transfer.Check(ctx, p)
			p.done()
			if err == nil {
				_, err = file.Seek(0, io.SeekStart)
			}
			switch {
			case ctx.Err() != nil:
				return errInterrupted
			case err != nil:
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return target.importFrom(ctx, cmd.ErrOrStderr(), file, info.Size())
		},
	}
	target.flags(imports)
	imports.Flags().BoolVar(&abandon, "abandon", false, "Give an unfinished import up")
	return imports
}

// resumeHint ends the errors that leave the progress of an import unknown.
const resumeHint = "the import is not finished; import the same file again to continue it"

// importFrom sends an export to the server and describes the result in messages. size is its
// length in bytes, or 0 if that is unknown.
func (t *client) importFrom(ctx context.Context, messages io.Writer, from io.Reader, size int64) error {
	p := newProgress(messages, until(ctx, from), size)
	headers := http.Header{"Content-Type": {LinesType}}
	response, err := t.sendUntil(ctx, http.MethodPost, Path+"import", headers, p)
	p.done()
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted: %s", resumeHint)
	case err != nil && p.read() > 0 && strings.HasPrefix(err.Error(), "performing request"): // no answer has come
		return fmt.Errorf("%w: %s", err, resumeHint)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	var summary transfer.Summary
	if err := jsonv2.UnmarshalRead(response.Body, &summary); err != nil {
		return fmt.Errorf("reading the answer: %w: %s", err, resumeHint)
	}
	resumed := ""
	if summary.Resumed > 0 {
		resumed = fmt.Sprintf(", from line %d on", summary.Resumed+1)
	}
	_, err = fmt.Fprintf(messages, "Imported the export of %s%s in %v: %s, digest %s\n",
		summary.CreatedAt.Format(time.RFC3339), resumed, p.elapsed(), describeCounts(summary.Counts), summary.Digest)
	return err
}
