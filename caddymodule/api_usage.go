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
	report, err := c.newUsageReport(usage.OfPreset)
	if err != nil {
		return response{}, err
	}
	err = c.h.service.PresetUsage(c.r.Context(), c.who, c.given.workspace, c.slug(), report.of, report.read)
	return report.response(err)
}

// workspaceUsage reports the usage of all presets of a workspace, and of requests without one.
func workspaceUsage(c *call) (response, error) {
	report, err := c.newUsageReport(usage.OfWorkspace)
	if err != nil {
		return response{}, err
	}
	err = c.h.service.WorkspaceUsage(c.r.Context(), c.who, c.found.Value("workspace"), report.of, report.read)
	return report.response(err)
}

// usageReport is the answer to a query of usage.
type usageReport struct {
	c     *call
	query usage.Query
	of    domain.UsageRange // of the query
	media string            // empty for JSON
	body  []byte
}

// newUsageReport reads the query of a report.
func (c *call) newUsageReport(scope usage.Scope) (*usageReport, error) {
	q, err := usage.ReadQuery(c.given.query, scope, time.Now())
	if err != nil {
		return nil, err
	}
	u := &usageReport{c: c, query: q, of: domain.UsageRange{Day: q.Step == usage.Day, From: q.From, To: q.To}}
	if mediatype.PrefersCSV(c.r.Header) {
		u.media = mediatype.CSV
	}
	return u, nil
}

// read reads the rows of the report.
func (u *usageReport) read(rows iter.Seq2[domain.UsageRow, error]) error {
	report, err := u.query.Collect(rows)
	if err != nil {
		return err
	}
	if u.media == mediatype.CSV {
		u.body = report.CSV()
	} else {
		u.body = report.JSON()
	}
	return u.c.acquirePage(len(u.body))
}

// response returns the report as a response. err is the outcome of the read.
func (u *usageReport) response(err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	u.c.header.Add("Vary", "Accept")
	return response{status: http.StatusOK, media: u.media, body: u.body, tag: domain.Tag(u.body)}, nil
}
