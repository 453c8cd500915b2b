package caddymodule

import (
	"cmp"
	"context"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// csvMedia is the media type of reports that a client asks for as CSV.
const csvMedia = "text/csv"

// presetUsage reports the usage of a preset, also of an archived one.
func presetUsage(c *call) (answer, error) {
	return c.reportUsage(usage.OfPreset, func(ctx context.Context, of domain.UsageRange, read readUsage) error {
		return c.h.service.PresetUsage(ctx, c.who, c.given.workspace, c.slug(), of, read)
	})
}

// workspaceUsage reports the usage of all presets of a workspace, and of requests without one.
func workspaceUsage(c *call) (answer, error) {
	return c.reportUsage(usage.OfWorkspace, func(ctx context.Context, of domain.UsageRange, read readUsage) error {
		return c.h.service.WorkspaceUsage(ctx, c.who, c.r.PathValue("workspace"), of, read)
	})
}

// readUsage reads rows of usage.
type readUsage = func(iter.Seq2[domain.UsageRow, error]) error

// reportUsage answers with the report of the rows that view reads.
func (c *call) reportUsage(scope usage.Scope, view func(context.Context, domain.UsageRange, readUsage) error) (answer, error) {
	q, err := usage.ReadQuery(c.given.query, scope, time.Now())
	if err != nil {
		return answer{}, err
	}
	asCSV := acceptsCSV(c.r.Header)
	a := answer{status: http.StatusOK}
	of := domain.UsageRange{Day: q.Step == usage.Day, From: q.From, To: q.To}
	err = view(c.r.Context(), of, func(rows iter.Seq2[domain.UsageRow, error]) error {
		report, err := q.Collect(rows)
		if err != nil {
			return err
		}
		if asCSV {
			a.media = csvMedia
			a.body, err = report.CSV()
		} else {
			a.body, err = report.JSON()
		}
		return cmp.Or(err, c.acquirePage(len(a.body)))
	})
	if err != nil {
		return answer{}, err
	}
	c.w.Header().Add("Vary", "Accept")
	a.tag = domain.Tag(a.body)
	return a, err
}

// acceptsCSV reports whether a client names text/csv in Accept, and likes nothing better
// that JSON is (RFC 9110, 12.5.1).
func acceptsCSV(header http.Header) bool {
	csv, json := 0.0, 0.0
	for item := range strings.SplitSeq(strings.Join(header.Values("Accept"), ","), ",") {
		media, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		quality := 1.0
		if text, ok := parameters["q"]; ok {
			if quality, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		switch media {
		case csvMedia:
			csv = max(csv, quality)
		case jsonMedia, "application/*", "*/*":
			json = max(json, quality)
		}
	}
	return csv > 0 && csv >= json
}
