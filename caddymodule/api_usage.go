package caddymodule

import (
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
	if acceptsCSV(c.r.Header) {
		u.media = csvMedia
	}
	return u, nil
}

// read reads the rows of the report.
func (u *usageReport) read(rows iter.Seq2[domain.UsageRow, error]) error {
	report, err := u.query.Collect(rows)
	if err != nil {
		return err
	}
	if u.media == csvMedia {
		u.body, err = report.CSV()
	} else {
		u.body, err = report.JSON()
	}
	if err != nil {
		return err
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

// acceptsCSV reports whether a client likes CSV better than JSON (RFC 9110, 12.5.1). Named with
// the same quality, JSON wins. A name counts more than a range such as */*.
func acceptsCSV(header http.Header) bool {
	csv, json := acceptanceOf(header, csvMedia), acceptanceOf(header, jsonMedia)
	return csv.quality > json.quality || csv.quality > 0 && csv.quality == json.quality && csv.precision > json.precision
}

// acceptance is what Accept says of a media type.
type acceptance struct {
	quality   float64
	precision int // of the range that says so: 3 for the name, 2 for text/*, 1 for */*, 0 for none
}

// acceptanceOf returns what the most precise range of Accept says of a media type.
func acceptanceOf(header http.Header, media string) (best acceptance) {
	kind, _, _ := strings.Cut(media, "/")
	precisions := map[string]int{media: 3, kind + "/*": 2, "*/*": 1}
	for item := range strings.SplitSeq(strings.Join(header.Values("Accept"), ","), ",") {
		given, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		a := acceptance{1, precisions[given]}
		if text, ok := parameters["q"]; ok {
			if a.quality, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if a.precision > best.precision || a.precision == best.precision && a.precision > 0 && a.quality > best.quality {
			best = a
		}
	}
	return best
}
