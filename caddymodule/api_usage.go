package caddymodule

import (
	"cmp"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	q, err := usage.ReadQuery(url.Values(c.given.query), scope, time.Now())
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

// defaultOutcome is the name of feedback that has none.
const defaultOutcome = "score"

// feedbackBody is the body of feedback. Score is a number or a boolean.
type feedbackBody struct {
	RequestID string         `json:"request_id"`
	SessionID string         `json:"session_id"`
	Score     jsontext.Value `json:"score"`
	Name      string         `json:"name"`
}

func (b *feedbackBody) score() (float64, error) {
	switch b.Score.Kind() {
	case jsontext.KindTrue:
		return 1, nil
	case jsontext.KindFalse:
		return 0, nil
	default:
		return strconv.ParseFloat(string(b.Score), 64)
	}
}

// takenFeedback tells a client what its feedback counts for.
type takenFeedback struct {
	Version int     `json:"version"`
	Label   *string `json:"label"`
	Name    string  `json:"name"`
	Score   float64 `json:"score"`
}

// giveFeedback sums a score for the version that answered a request. Usage is stored from
// time to time, so the answer is 202.
func giveFeedback(c *call) (response, error) {
	var body feedbackBody
	if err := c.decode(&body); err != nil {
		return response{}, err
	}
	score, err := body.score()
	if err != nil {
		return response{}, err
	}
	workspace, preset, err := c.h.service.FeedbackPreset(c.r.Context(), c.who, c.given.workspace, c.slug())
	if err != nil {
		return response{}, err
	}
	c.showFound(workspace, 0)
	of, err := c.h.shared.usage.Answered(preset, body.RequestID, body.SessionID, time.Now())
	if err != nil {
		return response{}, err
	}
	c.showFound("", of.Key.Version)
	of.Key.Preset = strings.Clone(c.slug()) // which is a part of the request's URL
	name := cmp.Or(body.Name, defaultOutcome)
	c.h.shared.usage.Ledger.AddFeedback(usage.Feedback{
		WorkspaceID: workspace, Key: of.Key, Start: of.Start, Request: of.ID, Name: name, Score: score,
	})
	taken := takenFeedback{Version: of.Key.Version, Name: name, Score: score}
	if of.Key.Label != "" {
		taken.Label = &of.Key.Label
	}
	text, err := jsonv2.Marshal(taken)
	return object(http.StatusAccepted, text, ""), err
}
