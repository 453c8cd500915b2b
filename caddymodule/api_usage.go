package caddymodule

import (
	"iter"
	"net/http"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// presetUsage reports the usage of a preset, also of an archived one.
func presetUsage(c *call) (response, error) {
	return c.reportUsage(usage.OfPreset, func(of domain.UsageRange, read readRows) error {
		return c.h.service.PresetUsage(c.r.Context(), c.who, c.given.workspace, c.slug(), of, read)
	})
}

// workspaceUsage reports the usage of all presets of a workspace, and of requests without one.
func workspaceUsage(c *call) (response, error) {
	return c.reportUsage(usage.OfWorkspace, func(of domain.UsageRange, read readRows) error {
		return c.h.service.WorkspaceUsage(c.r.Context(), c.who, c.found.Value("workspace"), of, read)
	})
}

// readRows reads the rows of a report.
type readRows = func(iter.Seq2[domain.UsageRow, error]) error

// reportUsage answers with the report that the query asks for, in JSON or CSV. query gives the rows
// of a range to read.
func (c *call) reportUsage(scope usage.Scope, query func(of domain.UsageRange, read readRows) error) (response, error) {
	q, err := usage.ReadQuery(c.given.query, scope, time.Now())
	if err != nil {
		return response{}, err
	}
	a := response{status: http.StatusOK}
	err = query(domain.UsageRange{Day: q.Step == usage.Day, From: q.From, To: q.To}, func(rows iter.Seq2[domain.UsageRow, error]) error {
		report, err := q.Collect(rows)
		if err != nil {
			return err
		}
		if mediatype.PrefersCSV(c.r.Header) {
			a.media = mediatype.CSV
			a.body = report.CSV()
		} else {
			a.body = report.JSON()
		}
		return c.acquirePage(len(a.body))
	})
	if err != nil {
		return response{}, err
	}
	c.header.Add("Vary", "Accept")
	a.tag = domain.Tag(a.body)
	return a, nil
}
