package answer

import "github.com/caddy-presets/caddy-presets/domain"

// valueKind is the JSON type of a value.
type valueKind uint8

const (
	nullValue valueKind = iota
	falseValue
	trueValue
	numberValue
	stringValue
	arrayValue
	objectValue
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

// part returns the part that n belongs to.
func (e *event) part(n node) *part {
	if n&within != 0 {
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

// beginAt records that a value of type v begins at n. It forgets an earlier one of the same name.
func (e *event) beginAt(n node, v valueKind) {
	switch n {
	case inner:
		e.in.reset()
		return
	case kind:
		e.kind = noKind
		return
	case status:
		e.failed = false
		return
	case failure:
		e.error = v == trueValue || v == objectValue || v == arrayValue
		return
	}
	p := e.part(n)
	switch n &^ within {
	case model:
		p.model.len = 0
	case usage:
		p.usage.begin(v)
	case input, output, cacheRead, cacheWrite, reasoning, cost, upstreamCost, ownKey, inputDetails, outputDetails, costDetails:
		p.usage.beginMember(n&^within, v)
	}
}

// beginString is beginAt for a string. It reports whether the string is wanted.
func (e *event) beginString(n node) bool {
	e.beginAt(n, stringValue)
	switch n &^ within {
	case content, contentParts, kind, status, model, failure:
		return true
	}
	return false
}

// addString records a string at n. A long one has no text.
func (e *event) addString(n node, text []byte, long bool) {
	if long {
		text = nil
	}
	switch n &^ within {
	case content, contentParts:
		e.content = e.content || long || len(text) > 0
	case failure:
		e.error = long || len(text) > 0
	case kind:
		if e.kind = kindOf(text); long {
			e.kind = otherKind
		}
	case status:
		e.failed = string(text) == "failed"
	case model:
		e.part(n).model.set(text)
	}
}

// addNumber records a number at n. A long one has no text.
func (e *event) addNumber(n node, text []byte) {
	switch n &^ within {
	case input, output, cacheRead, cacheWrite, reasoning:
		*e.part(n).usage.count(n &^ within) = countOf(text)
	case cost:
		e.part(n).usage.cost.set(text)
	case upstreamCost:
		e.part(n).usage.upstream.set(text)
	}
}
