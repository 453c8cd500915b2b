package usage

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// MaxText bounds a text of a Key and the name of an outcome, in bytes. Longer ones are cut.
const MaxText = 256

// Request is one inference request whose answer has ended.
type Request struct {
	WorkspaceID string
	// PresetID and Preset, its slug, are empty without a preset. Version is 0 then.
	PresetID, Preset string
	Version          int
	// Label is the label that the request named, or empty.
	Label   string
	KeyID   string
	Dialect domain.Dialect
	// Asked is the model that was asked upstream. Model is the one that answered, or empty
	// if the answer does not say.
	Asked, Model string
	// Status is the answer's status, 0 if the client left before it.
	Status int
	// Refused says that a limit refused the request, which is no other request then.
	Refused bool
	// Failed says that the answer had an error event or an error body.
	Failed bool
	// Aborted says that the client left before the answer ended.
	Aborted  bool
	Streamed bool
	// Start decides the hour and the day of the request.
	Start     time.Time
	Duration  time.Duration
	FirstByte time.Duration
	// FirstContent is the time to the first content, negative if there was none.
	FirstContent time.Duration
	// Tokens count if Unknown is empty.
	Tokens  answer.Tokens
	Unknown answer.Reason
	// Content, Told, Cut and Bare are those of answer.Seen, if limits need them.
	Content   int64
	Told      answer.Tokens
	Cut, Bare bool
	// Cost counts if HasCost is true. Estimated says that it comes from Prices.
	Cost               decimal.Decimal
	HasCost, Estimated bool
}

// IsError reports whether the request ended with a status of 400 or more, or with an error
// event.
func (r *Request) IsError() bool { return r.Status >= 400 || r.Failed }

// usedAnything reports whether the request may have used something. An error has used nothing,
// unless its answer says so.
func (r *Request) usedAnything() bool {
	return !r.IsError() || r.Unknown == "" && r.Tokens != (answer.Tokens{})
}

// LacksCost reports whether the request may have cost something that is not known.
func (r *Request) LacksCost() bool { return !r.HasCost && r.usedAnything() }

// Key returns the key of the sums that the request adds to.
func (r *Request) Key() Key {
	model := r.Model
	if model == "" {
		model = r.Asked
	}
	return Key{
		PresetID: r.PresetID, Preset: r.Preset, Version: max(r.Version, 0), Label: cut(r.Label),
		Model: cut(model), KeyID: cut(r.KeyID), StatusClass: min(max(r.Status, 0)/100, 5),
	}
}

// Key identifies a sum of usage in a row. The workspace and the period are the row's.
type Key struct {
	PresetID, Preset string
	Version          int
	Label            string
	// Model is "\x00" for the sum of models that found no room in series of their own.
	Model string
	KeyID string
	// StatusClass is 1 to 5, or 0 if the client left before a status.
	StatusClass int
	// Other marks the sum of the requests that found no room in a series of their own. Only
	// PresetID and Preset are set beside it.
	Other bool
}

// otherModel stands for Key.Model where the model is other.
const otherModel = "\x00"

// cut returns a text that is valid UTF-8 and has at most MaxText bytes.
func cut(text string) string {
	if len(text) <= MaxText && utf8.ValidString(text) {
		return text
	}
	text = strings.ToValidUTF8(text[:min(len(text), MaxText)], "")
	return text
}
