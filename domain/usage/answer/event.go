package answer

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// eventKind is the meaning of an event's type.
type eventKind uint8

const (
	noKind eventKind = iota
	otherKind
	completedKind // response.completed and response.incomplete
	failedKind    // response.failed
	errorKind
	startKind // message_start
	deltaKind // message_delta
	stopKind  // message_stop
)

func kindOf(name []byte) eventKind {
	switch string(name) {
	case "":
		return noKind
	case "response.completed", "response.incomplete":
		return completedKind
	case "response.failed":
		return failedKind
	case "error":
		return errorKind
	case "message_start":
		return startKind
	case "message_delta":
		return deltaKind
	case "message_stop":
		return stopKind
	}
	return otherKind
}

// endsStream reports whether an event of this kind is the last of a dialect's stream.
func endsStream(d domain.Dialect, k eventKind) bool {
	switch d {
	case domain.Responses:
		return k == completedKind || k == failedKind || k == errorKind
	case domain.Messages:
		return k == stopKind || k == errorKind
	}
	return false
}

// event has the members of one JSON text, an event's data or a body. As JSON parsers do, it
// keeps the last of several members of one name.
type event struct {
	kind      eventKind
	error     bool // error is neither null, false nor empty
	failed    bool // status is failed
	content   bool // there is text, reasoning, a refusal or a tool argument
	outer, in part // of the outermost object, and of its response or message
}

// part is a model and its usage.
type part struct {
	model name
	usage figures
}

// name is a short text, held without allocation.
type name struct {
	text [maxText]byte
	len  int
}

// set holds text. A longer one is not held.
func (n *name) set(text []byte) {
	n.len = 0
	if len(text) <= maxText {
		n.len = copy(n.text[:], text)
	}
}

// String returns the text.
func (n *name) String() string { return string(n.text[:n.len]) }

// reset prepares e for the next text.
func (e *event) reset() {
	e.kind, e.error, e.failed, e.content = noKind, false, false, false
	e.outer.reset()
	e.in.reset()
}

func (p *part) reset() {
	p.model.len = 0
	p.usage.said = false
}

// part returns the part that a place belongs to.
func (e *event) part(at *place) *part {
	if at.isInner {
		return &e.in
	}
	return &e.outer
}

// named returns the part whose model counts. LiteLLM has its own name of the model in each event,
// and the provider's within. Its answers that are no stream have its own alone.
func (e *event) named() *part {
	if e.outer.model.len > 0 {
		return &e.outer
	}
	return &e.in
}

// beginAt records that a value of a kind begins at a place. It forgets an earlier one of the same name.
func (e *event) beginAt(at *place, v jsontext.Kind) {
	switch at.what {
	case inner:
		e.in.reset()
	case kind:
		e.kind = noKind
	case status:
		e.failed = false
	case failure:
		e.error = v == 't' || v == '{' || v == '['
	case model:
		e.part(at).model.len = 0
	case usage:
		e.part(at).usage.begin(v)
	default:
		e.part(at).usage.beginMember(at.what, v)
	}
}

// readValue records a scalar, the token of a text, at a place. A long string or number has no text.
func (e *event) readValue(at *place, text *rawjson.Stream) {
	e.beginAt(at, text.Kind)
	if text.Kind == '0' {
		e.part(at).usage.setNumber(at.what, text.Value())
	}
	if text.Kind != '"' {
		return
	}
	isEmpty := len(text.Value()) == len(`""`)
	switch at.what {
	case content:
		e.content = e.content || !isEmpty
	case failure:
		e.error = !isEmpty
	case kind:
		if e.kind = kindOf(textOf(text)); text.Value() == nil {
			e.kind = otherKind
		}
	case status:
		e.failed = string(textOf(text)) == "failed"
	case model:
		e.part(at).model.set(textOf(text))
	}
}
