// Package transcript keeps what a model is asked and what it answers, within bounds and without images, files
// and keys. A Copy keeps a request. A Reader joins the messages of an answer from its body, or from the
// events of its stream, in all dialects.
package transcript

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/domain/sse"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Message is a message of a model. Its JSON is an output message of OpenTelemetry's conventions for
// generative AI.
type Message struct {
	Role  string `json:"role"`
	Parts []Part `json:"parts"`
	// FinishReason is in the words of the answer's API. It is empty if the answer does not say.
	FinishReason string `json:"finish_reason,omitempty"`
}

// Part is a part of a message.
type Part struct {
	// Type is one of the conventions (text, reasoning, tool_call), or refusal, or the API's own name of
	// something else, such as a web search.
	Type string `json:"type"`
	// Content is a text, a reasoning or a refusal. Of something else it is its JSON.
	Content string `json:"content,omitempty"`
	// ID, Name and Arguments are those of a call of a tool. Arguments are JSON: a string if the model
	// wrote none.
	ID        string         `json:"id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
	// Response is what a tool returned, in a message of a request.
	Response jsontext.Value `json:"response,omitzero"`
}

// The types of parts.
const (
	textType      = "text"
	reasoningType = "reasoning"
	refusalType   = "refusal"
	toolType      = "tool_call"
)

// Answer is what a Reader has read.
type Answer struct {
	// Messages has a message for each choice. It is empty if the answer has none, such as an error.
	Messages []Message
	// Cut, Files and Keys are those of a Side.
	Cut, Files, Keys bool
}

// Reader joins the messages of one answer. It is not safe for concurrent use.
type Reader struct {
	dialect  domain.Dialect
	streamed bool
	reserve  func(bytes int) bool

	lines   sse.Reader
	event   Copy // or the body
	hasData bool

	choices []*choice
	size    int   // of what is kept
	granted int   // memory for it and for event
	refused bool  // there was no more, so nothing is kept
	last    *part // to which the event has added
	cut     bool  // nothing is added any more
	files   bool
}

// choice is a message in the making.
type choice struct {
	index  int
	finish string
	parts  []*part
}

// part is a part of one in the making. Those of one key are joined.
type part struct {
	key      partKey
	kind     string
	id, name string
	text     Copy // the content, or the arguments
	isCut    bool // with slack
}

// partKey identifies a part by its place in the API's answer, with -1 for what has none.
type partKey struct {
	kind       string
	item, part int
}

// New returns a Reader of an answer in dialect d, which is a stream of events or a body of JSON. reserve is
// asked before the Reader takes more memory. If it refuses, the Reader drops what it has, and keeps nothing. Nil sets
// no limit but MaxSide, which bounds the texts of the answer in any case, and one event.
func New(d domain.Dialect, streamed bool, reserve func(bytes int) bool) *Reader {
	return &Reader{dialect: d, streamed: streamed, reserve: reserve}
}

const (
	// partSize is the memory of a part beside its texts, about.
	partSize = 128
	// grant is how much memory is reserved at once.
	grant = 16 << 10
)

// grow reports whether n bytes more are kept.
func (r *Reader) grow(n int) bool {
	if r.size+n > maxRead || !r.isGranted(r.size+n, r.event.need(0)) {
		r.cut = true
		return false
	}
	r.size += n
	return true
}

// isGranted reserves memory for texts, which take twice their size while they grow, and for an event.
func (r *Reader) isGranted(size, event int) bool {
	for need := 2*size + event; need > r.granted && !r.refused; r.granted += grant {
		if r.reserve != nil && !r.reserve(grant) {
			r.refused, r.cut, r.choices, r.event = true, true, nil, Copy{}
		}
	}
	return !r.refused
}

// Write reads the answer's next bytes, without their encoding. It keeps no part of p, and never fails.
func (r *Reader) Write(p []byte) {
	if !r.streamed {
		r.addData(p)
		return
	}
	for r.lines.Feed(p); r.lines.Next(); {
		switch r.lines.Field {
		case sse.Data:
			if r.hasData && r.lines.Begins {
				r.addData([]byte{'\n'})
			}
			r.hasData = true
			r.addData(r.lines.Value())
		case sse.End:
			r.endEvent()
		}
	}
}

// addData reads a piece of the data of an event, or of the body, which may not end yet.
func (r *Reader) addData(p []byte) {
	for piece := range slices.Chunk(p, grant) {
		if r.event.cut || !r.isGranted(r.size, r.event.need(len(piece))) {
			return
		}
		r.event.Add(piece)
	}
}

// endEvent reads an event.
func (r *Reader) endEvent() {
	if !r.hasData {
		return
	}
	r.add(r.addEvent)
	r.hasData = false
	r.event = Copy{text: r.event.text[:0]}
}

// add reads the data of an event, or the body. Of data that is cut, it reads what there is. A cut event that adds
// nothing, such as one that repeats the request, cuts nothing.
func (r *Reader) add(read func(jsontext.Value)) {
	r.event.endRun()
	data, isCut, hasFiles := bytes.TrimSpace(r.event.text), r.event.cut, r.event.files
	if isCut {
		data = closeJSON(data)
	}
	if rawjson.Check(data) != nil {
		return
	}
	r.last = nil
	if read(data); r.last != nil {
		r.files = r.files || hasFiles
		r.cut, r.last.isCut = r.cut || isCut, r.last.isCut || isCut
	}
}

// Close ends the answer. Nothing may be written after it.
func (r *Reader) Close() Answer {
	if r.streamed {
		r.endEvent() // it counts without its empty line
	} else {
		isCut := r.event.cut
		r.add(r.addBody)
		r.cut = r.cut || isCut
	}
	r.event = Copy{}
	a := Answer{Cut: r.cut, Files: r.files}
	slices.SortStableFunc(r.choices, func(a, b *choice) int { return cmp.Compare(a.index, b.index) })
	rest := MaxSide
	for _, c := range r.choices {
		m := Message{Role: "assistant", Parts: []Part{}, FinishReason: secrets.MaskText(c.finish)}
		for _, p := range c.parts {
			p.text.endRun()
			text, hasKeys := secrets.Mask(p.text.text)
			a.Keys, a.Files = a.Keys || hasKeys, a.Files || p.text.files
			text, isCut := cutText(text, p.isCut, rest)
			a.Cut, rest = a.Cut || isCut, rest-len(text)
			m.Parts = append(m.Parts, p.finish(text))
		}
		a.Messages = append(a.Messages, m)
	}
	return a
}

// finish returns the part with a text.
func (p *part) finish(text []byte) Part {
	out := Part{Type: p.kind, ID: secrets.MaskText(p.id), Name: secrets.MaskText(p.name)}
	switch {
	case p.kind != toolType:
		out.Content = strings.ToValidUTF8(string(text), "\uFFFD")
	case len(text) == 0:
	case rawjson.Check(text) == nil:
		out.Arguments = text
	default:
		out.Arguments = rawjson.Quote(strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	return out
}

// choice returns the message of an index.
func (r *Reader) choice(index int) *choice {
	for _, c := range r.choices {
		if c.index == index {
			return c
		}
	}
	c := &choice{index: index}
	if !r.grow(partSize) {
		return c // which is not kept
	}
	r.choices = append(r.choices, c)
	return c
}

// part returns the part of a key, which may be new.
func (r *Reader) part(c *choice, key partKey) *part {
	for _, p := range slices.Backward(c.parts) {
		if p.key == key {
			return p
		}
	}
	p := &part{key: key, kind: key.kind}
	if !r.grow(partSize) {
		return p
	}
	c.parts = append(c.parts, p)
	return p
}

// addText adds a text to the part of a key, which may be new.
func (r *Reader) addText(c *choice, key partKey, value jsontext.Value) {
	if value == nil || r.cut {
		return
	}
	text, _ := rawjson.Text(value)
	r.addPlain(c, key, text)
}

func (r *Reader) addPlain(c *choice, key partKey, text string) {
	if text == "" || r.cut {
		return
	}
	p := r.part(c, key)
	if r.cut || !r.isGranted(r.size+len(text), r.event.need(0)) {
		return
	}
	before := len(p.text.text)
	isWhole := p.text.addPlain(text, before+maxRead-r.size)
	r.size += len(p.text.text) - before
	r.last, r.cut, p.isCut = p, !isWhole, !isWhole
}

// addCall adds to a call of a tool. Its id and name come once.
func (r *Reader) addCall(c *choice, item int, id, name, arguments jsontext.Value) {
	p := r.part(c, partKey{toolType, item, -1})
	if r.cut {
		return
	}
	r.last = p
	for _, of := range []struct {
		into *string
		from jsontext.Value
	}{{&p.id, id}, {&p.name, name}} {
		if *of.into == "" {
			if *of.into, _ = rawjson.Head(of.from, maxName); len(*of.into) > maxName {
				*of.into = strings.ToValidUTF8((*of.into)[:maxName], "")
			}
			r.grow(len(*of.into))
		}
	}
	switch arguments.Kind() {
	case '"':
		r.addText(c, p.key, arguments)
	case '{', '[':
		if len(arguments) > len("{}") { // a stream sends its arguments in pieces, behind an empty object
			r.addPlain(c, p.key, string(arguments))
		}
	}
}

// maxName bounds the id and the name of a tool's call.
const maxName = 256

// addOther adds something that only the answer's API has.
func (r *Reader) addOther(c *choice, item int, value jsontext.Value) {
	kind, _ := rawjson.Head(rawjson.Get(value, "type"), maxName)
	if kind == "" || len(kind) > maxName {
		return
	}
	r.addPlain(c, partKey{kind, item, -1}, string(value))
}

// number returns a member that is a small number, -1 for none.
func number(object jsontext.Value, name string) int {
	n, err := strconv.Atoi(string(rawjson.Get(object, name)))
	if err != nil || n < 0 || n > 1<<20 {
		return -1
	}
	return n
}

// setFinish sets why a message ended, unless value is no text.
func (c *choice) setFinish(value jsontext.Value) {
	if reason, ok := rawjson.Head(value, maxName); ok && len(reason) <= maxName {
		c.finish = reason
	}
}
