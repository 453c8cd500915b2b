package caddymodule

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// defaultOutcome is the name of feedback that has none.
const defaultOutcome = "score"

// Errors of feedback.
var (
	errNotMeasured    = &domain.Error{Kind: domain.Conflict, Message: "Feedback is not taken, because usage is not measured: the server's configuration has no usage block"}
	errRequestUnknown = &domain.Error{Kind: domain.NotFound, Message: "The request_id belongs to no request with this preset"}
	errRequestOld     = &domain.Error{Kind: domain.NotFound, Message: "The request_id belongs to a request of more than 24 hours ago"}
	errSessionUnknown = &domain.Error{Kind: domain.NotFound, Message: "This server has not answered the session with this preset in the last 24 hours, or has forgotten it"}
)

// feedbackBody is the body of feedback. Score is a number or a boolean.
type feedbackBody struct {
	RequestID string         `json:"request_id"`
	SessionID string         `json:"session_id"`
	Score     jsontext.Value `json:"score"`
	Name      string         `json:"name"`
}

// score returns the score as a number.
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
	c.setFoundPlaceholders(domain.Found{WorkspaceID: workspace})
	of, err := c.h.shared.usage.answered(preset, body, time.Now())
	if err != nil {
		return response{}, err
	}
	c.setFoundPlaceholders(domain.Found{Number: of.Key.Version})
	of.Key.Preset = strings.Clone(c.slug()) // which is a part of the request's URL
	name := cmp.Or(body.Name, defaultOutcome)
	c.h.shared.usage.ledger.AddFeedback(usage.Feedback{
		WorkspaceID: workspace, Key: of.Key, Start: of.Start, Request: of.ID, Name: name, Score: score,
	})
	taken := takenFeedback{Version: of.Key.Version, Name: name, Score: score}
	if of.Key.Label != "" {
		taken.Label = &of.Key.Label
	}
	text, err := jsonv2.Marshal(taken)
	return object(http.StatusAccepted, text, ""), err
}

// answered returns the request that feedback on a preset is for.
func (rec *usageRecorder) answered(presetID string, body feedbackBody, now time.Time) (usage.Answered, error) {
	if rec.newest() == nil {
		return usage.Answered{}, errNotMeasured
	}
	if body.SessionID != "" {
		of, ok := rec.sessions.Latest(presetID, body.SessionID, now)
		if !ok {
			return of, errSessionUnknown
		}
		return of, nil
	}
	handles := rec.handles.Load()
	if handles == nil {
		return usage.Answered{}, domain.ErrUnavailable // as the store is
	}
	of, err := handles.Read(body.RequestID, now)
	switch {
	case errors.Is(err, usage.ErrHandleOld):
		return of, errRequestOld
	case err != nil || of.Key.PresetID != presetID:
		return of, errRequestUnknown
	}
	return of, nil
}
