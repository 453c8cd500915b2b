// Package envelope has the error bodies that clients of each API expect.
package envelope

import (
	"cmp"
	"net/http"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Problem is a failure as the client sees it.
type Problem struct {
	Status  int
	Code    domain.Code // empty if the status is enough
	Message string
	Issues  []domain.Issue
	// Spending is for a limit of costs, nil for none.
	Spending *Spending
	UserID   string // of the caller, or empty
}

// Spending tells of a limit of costs that is used up, as OpenRouter does.
type Spending struct {
	LimitSource string          `json:"limit_source"`
	Scope       string          `json:"scope"` // key, workspace or preset
	Interval    domain.Interval `json:"interval"`
	LimitUSD    float64         `json:"limit_usd"`
	SpendUSD    float64         `json:"spend_usd"`
	ResetsAt    *time.Time      `json:"resets_at"`
}

// metadata returns the metadata of an answer, nil for none.
func (p Problem) metadata() *metadata {
	if p.Issues == nil && p.Spending == nil {
		return nil
	}
	return &metadata{p.Issues, p.Spending}
}

// API is the error answer of the preset and workspace API (specification,
// "Errors"), and of chat completions.
type API struct {
	Error  envelopeError `json:"error"`
	UserID string        `json:"user_id,omitempty"`
}

type envelopeError struct {
	Code     int       `json:"code"`
	Message  string    `json:"message"`
	Metadata *metadata `json:"metadata,omitempty"`
}

type metadata struct {
	Issues []domain.Issue `json:"issues,omitempty"`
	*Spending
}

// NewAPI returns an API for a problem.
func NewAPI(p Problem) any {
	return API{Error: envelopeError{Code: p.Status, Message: p.Message, Metadata: p.metadata()}, UserID: p.UserID}
}

// Responses is the error answer of POST /responses. Its code is the status, because
// OpenRouter's Python client wants an integer. OpenAI's clients show the type.
type Responses struct {
	Error struct {
		Code    int    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Metadata *metadata `json:"metadata"`
}

// NewResponses returns a Responses for a problem. It gives a type of its own to each cause that programs handle separately.
// All other refused requests are an invalid_prompt.
func NewResponses(p Problem) any {
	var e Responses
	e.Error.Code, e.Error.Message = p.Status, p.Message
	e.Error.Type = cmp.Or(string(p.Code), responsesErrorTypes[p.Status], "invalid_prompt")
	if p.Code == "" && p.Status >= http.StatusInternalServerError {
		e.Error.Type = "server_error"
	}
	e.Metadata = p.metadata()
	return e
}

// responsesErrorTypes are types of Responses by status.
var responsesErrorTypes = map[int]string{
	http.StatusUnauthorized:    "invalid_api_key",
	http.StatusForbidden:       "insufficient_permissions",
	http.StatusTooManyRequests: "rate_limit_exceeded",
}

// Messages is the error answer of POST /messages.
type Messages struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Metadata *Spending `json:"metadata,omitempty"`
}

// NewMessages returns a Messages for a problem.
func NewMessages(p Problem) any {
	e := Messages{Type: "error"}
	e.Error.Message, e.Metadata = p.Message, p.Spending
	e.Error.Type = cmp.Or(messagesErrorTypes[p.Status], "invalid_request_error")
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusGatewayTimeout {
		e.Error.Type = "api_error"
	}
	return e
}

// messagesErrorTypes are types of Messages by status.
var messagesErrorTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestTimeout:        "timeout_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusGatewayTimeout:        "timeout_error",
}
