package prompts

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// segment is a part of a template's text: a variable's name, or text.
type segment struct {
	variable string // empty for text
	text     string
}

// splitTemplate returns the segments of text. {{name}} is a variable, with any number of
// spaces beside the name. \{{ is the text {{. All other braces are text.
func splitTemplate(text string) []segment {
	var segments []segment
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			segments = append(segments, segment{text: literal.String()})
			literal.Reset()
		}
	}
	for {
		at := strings.Index(text, "{{")
		if at < 0 {
			literal.WriteString(text)
			flush()
			return segments
		}
		if at > 0 && text[at-1] == '\\' {
			literal.WriteString(text[:at-1] + "{{")
			text = text[at+2:]
			continue
		}
		literal.WriteString(text[:at])
		name, rest, ok := cutVariable(text[at:])
		if !ok {
			literal.WriteByte('{') // the next brace may begin a variable
			text = text[at+1:]
			continue
		}
		flush()
		segments, text = append(segments, segment{variable: name}), rest
	}
}

// cutVariable returns the name of the variable that begins text, and the text behind it.
// text begins with {{.
func cutVariable(text string) (name, rest string, ok bool) {
	inner := strings.TrimLeft(text[2:], " ")
	name, rest = domain.CutVariableName(inner)
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " "), "}}")
	return name, rest, ok && name != ""
}

// Template is a version's template, prepared for the requests of a dialect. It never
// changes.
type Template struct {
	dialect   domain.Dialect
	Variables []string
	index     map[string]int // of variables
	longest   int            // of the names of variables, in bytes
	// prompt is the system prompt, as the inside of a JSON string.
	prompt []piece
	// messages are the elements of a list of messages, with commas between.
	messages []piece
}

// piece is a part of a template's JSON. It is text, or a variable.
type piece struct {
	json     jsontext.Value // text
	variable int            // its index, or noVariable
	// whole is set if the variable is all of a content, or of a part. An object may take
	// its place then.
	whole *placeOfWhole
}

const noVariable = -1

// placeOfWhole has the JSON around a variable that may be an object.
type placeOfWhole struct {
	beforeText, afterText jsontext.Value // around the inside of a string
	// beforeObject stands before an object, afterObject in the place of its last brace.
	beforeObject, afterObject jsontext.Value
	byAssistant               bool
}

// NewTemplate prepares a version's template for a dialect. It also returns the names of the
// messages, or of their parts, that the dialect cannot express, as translate does.
//
// In Chat, system messages at the beginning become a part of the system prompt, as they do where
// a template is made. Some models take one system message only.
func NewTemplate(v domain.PresetVersion, to domain.Dialect) (t *Template, dropped []string) {
	t = &Template{dialect: to, index: make(map[string]int)}
	prompt, messages := domain.ValueOr(v.SystemPrompt, ""), jsontext.Value(v.Template.Messages)
	t.prompt = t.compilePrompt(prompt)
	t.messages = t.compileMessages(v.Dialect, messages) // even if the dialect cannot express all of them, it needs all variables
	if v.Dialect == to {
		return t, nil
	}
	messages, dropped = dialects.TranslateMessages(messages, v.Dialect, to)
	if to == domain.Chat {
		head, rest := rawjson.SplitItems(messages, isSystemText)
		if text, ok := SystemText(to, slices.Concat(jsontext.Value{'['}, head, jsontext.Value{']'})); ok {
			if prompt != "" {
				prompt += promptSeparator
			}
			t.prompt = t.compilePrompt(prompt + text)
			messages = slices.Concat(jsontext.Value{'['}, rest)
		}
	}
	t.messages = t.compileMessages(to, messages)
	return t, dropped
}

func (t *Template) compilePrompt(text string) []piece {
	c := compiler{template: t}
	c.text(splitTemplate(text))
	return c.finish()
}

func (t *Template) compileMessages(dialect domain.Dialect, list jsontext.Value) []piece {
	c := compiler{template: t, dialect: dialect}
	c.messages(list)
	return c.finish()
}

// isSystemText reports whether a chat message is one of the system or developer with text alone.
func isSystemText(message jsontext.Value) bool {
	for _, part := range rawjson.Items(rawjson.Get(message, "content")) {
		if !dialects.IsText(dialects.TextOf(part, "type")) {
			return false
		}
	}
	return dialects.IsSystemMessage(domain.Chat, message)
}

// hasVariables reports whether there is a variable among pieces.
func hasVariables(pieces []piece) bool {
	return slices.ContainsFunc(pieces, func(p piece) bool { return p.variable != noVariable })
}

// Cost is the memory that t takes, about, in bytes.
func (t *Template) Cost() int {
	cost := 0
	for _, name := range t.Variables {
		cost += 2*len(name) + 64
	}
	for _, pieces := range [][]piece{t.prompt, t.messages} {
		for _, p := range pieces {
			cost += 2*len(p.json) + 64
			if p.whole != nil {
				cost += len(p.whole.beforeText) + len(p.whole.afterText) + 128
			}
		}
	}
	return cost
}

// compiler makes the pieces of a template.
type compiler struct {
	template *Template
	dialect  domain.Dialect // of the messages
	pieces   []piece
	literal  []byte // not yet a piece
}

func (c *compiler) finish() []piece {
	c.flush()
	return c.pieces
}

func (c *compiler) flush() {
	if len(c.literal) > 0 {
		c.pieces = append(c.pieces, piece{json: slices.Clip(c.literal), variable: noVariable})
		c.literal = nil
	}
}

func (c *compiler) add(text ...byte) { c.literal = append(c.literal, text...) }

func (c *compiler) addVariable(name string, whole *placeOfWhole) {
	t := c.template
	i, known := t.index[name]
	if !known {
		i = len(t.Variables)
		t.index[name], t.Variables = i, append(t.Variables, name)
		t.longest = max(t.longest, len(name))
	}
	c.flush()
	c.pieces = append(c.pieces, piece{variable: i, whole: whole})
}

// text adds the inside of a JSON string.
func (c *compiler) text(segments []segment) {
	for _, s := range segments {
		if s.variable != "" {
			c.addVariable(s.variable, nil)
			continue
		}
		c.add(quoteInside(s.text)...)
	}
}

// messages adds the elements of a list of messages.
func (c *compiler) messages(list jsontext.Value) {
	for i, message := range rawjson.Items(list) {
		if i > 0 {
			c.add(',')
		}
		c.message(message)
	}
}

// mayHaveBraces reports whether a text of value may have {{.
func mayHaveBraces(value jsontext.Value) bool {
	return bytes.Contains(value, []byte("{{")) || bytes.Contains(value, []byte(`\u00`))
}

// message adds a message, or another item of a conversation.
func (c *compiler) message(message jsontext.Value) {
	content := contentMember(c.dialect, message)
	if content == "" || !mayHaveBraces(message) {
		c.add(message...)
		return
	}
	byAssistant := rawjson.IsText(rawjson.Get(message, "role"), "assistant")
	c.object(message, content, func(value jsontext.Value) { c.content(value, byAssistant) })
}

// contentMember returns the name of the member with the text of a message, or of a tool's
// result. It is empty for other items.
func contentMember(dialect domain.Dialect, message jsontext.Value) string {
	if dialect != domain.Responses {
		return "content"
	}
	switch dialects.TextOf(message, "type") {
	case "", "message":
		return "content"
	case "function_call_output":
		return "output"
	}
	return ""
}

// object adds an object. One of its members is added by a function.
func (c *compiler) object(object jsontext.Value, special string, add func(jsontext.Value)) {
	c.add('{')
	first := true
	for name, value := range rawjson.Pairs(object) {
		if !first {
			c.add(',')
		}
		first = false
		c.add(name...)
		c.add(':')
		if rawjson.IsText(name, special) {
			add(value)
		} else {
			c.add(value...)
		}
	}
	c.add('}')
}

// content adds a content: a string, or a list of parts.
func (c *compiler) content(content jsontext.Value, byAssistant bool) {
	switch content.Kind() {
	case '"':
		text, _ := rawjson.Text(content)
		segments := splitTemplate(text)
		if name := soleVariable(segments); name != "" {
			quotes := jsontext.Value{'"'}
			c.addVariable(name, &placeOfWhole{quotes, quotes, jsontext.Value{'['}, jsontext.Value("}]"), byAssistant})
			return
		}
		c.string(content, segments)
	case '[':
		c.add('[')
		for i, part := range rawjson.Items(content) {
			if i > 0 {
				c.add(',')
			}
			c.part(part, byAssistant)
		}
		c.add(']')
	default:
		c.add(content...)
	}
}

// soleVariable returns the name of the variable that is all of segments, or "".
func soleVariable(segments []segment) string {
	if len(segments) == 1 {
		return segments[0].variable
	}
	return ""
}

// string adds a string with its segments. A string that does not change keeps its bytes.
func (c *compiler) string(value jsontext.Value, segments []segment) {
	if text, _ := rawjson.Text(value); len(segments) == 0 || len(segments) == 1 && segments[0].text == text {
		c.add(value...)
		return
	}
	c.add('"')
	c.text(segments)
	c.add('"')
}

// part adds a part of a content.
func (c *compiler) part(part jsontext.Value, byAssistant bool) {
	kind := dialects.TextOf(part, "type")
	switch {
	case !mayHaveBraces(part):
	case kind == "tool_result" && c.dialect == domain.Messages:
		c.object(part, "content", func(value jsontext.Value) { c.content(value, false) })
		return
	case dialects.IsText(kind):
		text, ok := rawjson.Text(rawjson.Get(part, "text"))
		if !ok {
			break
		}
		segments := splitTemplate(text)
		if name := soleVariable(segments); name != "" {
			c.addVariable(name, wholePart(part, byAssistant))
			return
		}
		c.object(part, "text", func(value jsontext.Value) { c.string(value, segments) })
		return
	}
	c.add(part...)
}

// wholePart returns the place of a variable that is all the text of a part.
func wholePart(part jsontext.Value, byAssistant bool) *placeOfWhole {
	var around compiler
	var before int
	around.object(part, "text", func(jsontext.Value) {
		around.add('"')
		before = len(around.literal)
		around.add('"')
	})
	place := &placeOfWhole{
		beforeText: around.literal[:before:before], afterText: around.literal[before:],
		afterObject: jsontext.Value{'}'}, byAssistant: byAssistant,
	}
	if caching := rawjson.Get(part, "cache_control"); caching != nil {
		place.afterObject = slices.Concat(jsontext.Value(`,"cache_control":`), caching, jsontext.Value{'}'})
	}
	return place
}
