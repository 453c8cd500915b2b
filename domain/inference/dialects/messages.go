package dialects

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// TranslateMessages returns the messages of a dialect as another one writes them. dropped
// names the items, parts and members that the other one cannot express, such as
// "input.2" and "messages.0.content.1". Texts keep their bytes.
//
// A tool call is an item in Responses. It is a member of the model's message in Chat, and a
// part of it in Messages. Calls go into the message of the model before them, if there is
// one. In Messages all results in a row are one message.
func TranslateMessages(list jsontext.Value, from, to domain.Dialect) (translated jsontext.Value, dropped []string) {
	r := conversationReader{dialect: from}
	for i, message := range rawjson.Items(list) {
		r.at = ConversationField[from] + "." + strconv.Itoa(i)
		r.read(message)
	}
	w := conversationWriter{dialect: to, drop: r.drop}
	for rest := r.turns; len(rest) > 0; {
		rest = rest[w.write(rest):]
	}
	for _, name := range r.dropped {
		if name = HeaderName(name); !slices.Contains(dropped, name) {
			dropped = append(dropped, name)
		}
	}
	return rawjson.ArrayOf(w.messages...), dropped
}

// turn is a message, a tool call, or the result of one.
type turn struct {
	at   string // its place in the list that was read
	kind turnKind
	role string // of a message
	// content is a string, or nil. parts are set instead if it is a list.
	content jsontext.Value
	parts   []placedPart
	// id is that of a call. name and arguments are set for a call alone. The arguments are
	// a string with JSON.
	id, name, arguments jsontext.Value
}

type turnKind byte

const (
	messageTurn turnKind = iota
	callTurn
	resultTurn
)

// placedPart is a part of a content with its place.
type placedPart struct {
	Part
	at string
}

func (t turn) isEmpty() bool { return t.content == nil && len(t.parts) == 0 }

func (t turn) isByAssistant() bool {
	return t.kind == callTurn || t.kind == messageTurn && t.role == "assistant"
}

// conversationReader reads the messages of a dialect.
type conversationReader struct {
	dialect domain.Dialect
	at      string // the item that is read
	turns   []turn
	dropped []string
}

func (r *conversationReader) drop(name string) { r.dropped = append(r.dropped, name) }

// dropOthers drops the members of an item that are not known.
func (r *conversationReader) dropOthers(at string, item jsontext.Value, known ...string) {
	for quoted, value := range rawjson.Pairs(item) {
		if name, _ := rawjson.Text(quoted); value.Kind() != 'n' && !slices.Contains(known, name) {
			r.drop(at + "." + name)
		}
	}
}

func (r *conversationReader) read(item jsontext.Value) {
	kind := TextOf(item, "type")
	role := TextOf(item, "role")
	switch {
	case r.dialect == domain.Responses && kind == "function_call":
		r.call(r.at, rawjson.Get(item, "call_id"), rawjson.Get(item, "name"), rawjson.Get(item, "arguments"))
		r.dropOthers(r.at, item, "type", "id", "status", "call_id", "name", "arguments")
	case r.dialect == domain.Responses && kind == "function_call_output":
		r.result(r.at, rawjson.Get(item, "call_id"), rawjson.Get(item, "output"))
		r.dropOthers(r.at, item, "type", "id", "status", "call_id", "output")
	case r.dialect == domain.Responses && kind != "" && kind != "message":
		r.drop(r.at)
	case r.dialect == domain.Chat && role == "tool":
		r.result(r.at, rawjson.Get(item, "tool_call_id"), rawjson.Get(item, "content"))
		r.dropOthers(r.at, item, "role", "tool_call_id", "content")
	case role == "system", role == "developer", role == "user", role == "assistant":
		r.message(role, item)
	default:
		r.drop(r.at)
	}
}

// message reads a message, and the calls and results in it.
func (r *conversationReader) message(role string, item jsontext.Value) {
	r.content(role, rawjson.Get(item, "content"))
	switch {
	case r.dialect == domain.Responses:
		r.dropOthers(r.at, item, "type", "id", "status", "role", "content")
	case r.dialect == domain.Chat && role == "assistant":
		for i, call := range rawjson.Items(rawjson.Get(item, "tool_calls")) {
			function := rawjson.Get(call, "function")
			r.call(r.at+".tool_calls."+strconv.Itoa(i), rawjson.Get(call, "id"), rawjson.Get(function, "name"), rawjson.Get(function, "arguments"))
		}
		r.dropOthers(r.at, item, "role", "content", "tool_calls")
	default:
		r.dropOthers(r.at, item, "role", "content")
	}
}

// content reads the content of a message.
func (r *conversationReader) content(role string, content jsontext.Value) {
	switch content.Kind() {
	case '"':
		r.turns = append(r.turns, turn{at: r.at, role: role, content: content})
		return
	case '[':
	default:
		return
	}
	message := turn{at: r.at, role: role}
	flush := func() {
		if !message.isEmpty() {
			r.turns = append(r.turns, message)
			message.parts = nil
		}
	}
	for i, part := range rawjson.Items(content) {
		at := r.at + ".content." + strconv.Itoa(i)
		switch kind := TextOf(part, "type"); {
		case r.dialect == domain.Messages && kind == "tool_use":
			flush()
			input := rawjson.Get(part, "input")
			if input == nil {
				input = jsontext.Value(`{}`)
			}
			r.call(at, rawjson.Get(part, "id"), rawjson.Get(part, "name"), rawjson.Quote(string(input)))
			r.dropOthers(at, part, "type", "id", "name", "input")
		case r.dialect == domain.Messages && kind == "tool_result":
			flush()
			r.result(at, rawjson.Get(part, "tool_use_id"), rawjson.Get(part, "content"))
			r.dropOthers(at, part, "type", "tool_use_id", "content")
		default:
			message.parts = r.parts(message.parts, at, part)
		}
	}
	flush()
}

// parts appends a part, if there is one that other dialects know.
func (r *conversationReader) parts(parts []placedPart, at string, part jsontext.Value) []placedPart {
	read, ok := ReadPart(r.dialect, part)
	if !ok {
		r.drop(at)
		return parts
	}
	return append(parts, placedPart{read, at})
}

func (r *conversationReader) call(at string, id, name, arguments jsontext.Value) {
	if id.Kind() != '"' || name.Kind() != '"' || arguments.Kind() != '"' {
		r.drop(at)
		return
	}
	r.turns = append(r.turns, turn{at: at, kind: callTurn, id: id, name: name, arguments: arguments})
}

func (r *conversationReader) result(at string, id, content jsontext.Value) {
	t := turn{at: at, kind: resultTurn, id: id}
	switch content.Kind() {
	case '"':
		t.content = content
	case '[':
		for i, part := range rawjson.Items(content) {
			t.parts = r.parts(t.parts, at+".content."+strconv.Itoa(i), part)
		}
	}
	switch {
	case id.Kind() != '"':
		r.drop(at)
		return
	case t.isEmpty():
		t.content = rawjson.Quote("")
	}
	r.turns = append(r.turns, t)
}

// conversationWriter writes messages of a dialect.
type conversationWriter struct {
	dialect  domain.Dialect
	drop     func(name string)
	messages []jsontext.Value
}

// write writes the message that the first of turns begins, and returns how many of them
// are in it.
func (w *conversationWriter) write(turns []turn) int {
	first, group := turns[0], 1
	switch {
	case w.dialect == domain.Responses:
		w.responses(first)
		return 1
	case first.kind == resultTurn && w.dialect == domain.Messages:
		for group < len(turns) && turns[group].kind == resultTurn {
			group++
		}
		w.results(turns[:group])
	case first.isByAssistant():
		for group < len(turns) && turns[group].kind == callTurn {
			group++
		}
		w.assistant(turns[:group])
	case first.kind == resultTurn:
		w.add(rawjson.NewMember("role", rawjson.Quote("tool")), rawjson.NewMember("tool_call_id", first.id), rawjson.NewMember("content", w.content(first)))
	default:
		role := first.role
		if role == "developer" && w.dialect == domain.Messages {
			role = "system"
		}
		w.message(role, first)
	}
	return group
}

func (w *conversationWriter) add(members ...rawjson.Member) {
	w.messages = append(w.messages, rawjson.ObjectOf(members...))
}

// message adds a message, unless nothing of its content is left.
func (w *conversationWriter) message(role string, t turn) {
	if content := w.content(t); content != nil {
		w.add(rawjson.NewMember("role", rawjson.Quote(role)), rawjson.NewMember("content", content))
	}
}

// responses adds an item of Responses.
func (w *conversationWriter) responses(t turn) {
	switch t.kind {
	case callTurn:
		w.add(rawjson.NewMember("type", rawjson.Quote("function_call")), rawjson.NewMember("call_id", t.id), rawjson.NewMember("name", t.name), rawjson.NewMember("arguments", t.arguments))
	case resultTurn:
		w.add(rawjson.NewMember("type", rawjson.Quote("function_call_output")), rawjson.NewMember("call_id", t.id), rawjson.NewMember("output", w.content(t)))
	default:
		w.message(t.role, t)
	}
}

// assistant adds a message of the model with its calls.
func (w *conversationWriter) assistant(turns []turn) {
	message := turn{role: "assistant"}
	if turns[0].kind == messageTurn {
		message, turns = turns[0], turns[1:]
	}
	if len(turns) == 0 {
		w.message("assistant", message)
		return
	}
	if w.dialect == domain.Chat {
		content := w.content(message)
		if content == nil {
			content = jsontext.Value("null")
		}
		calls := make([]jsontext.Value, len(turns))
		for i, call := range turns {
			function := rawjson.ObjectOf(rawjson.NewMember("name", call.name), rawjson.NewMember("arguments", call.arguments))
			calls[i] = rawjson.ObjectOf(rawjson.NewMember("id", call.id), rawjson.NewMember("type", rawjson.Quote("function")), rawjson.NewMember("function", function))
		}
		w.add(rawjson.NewMember("role", rawjson.Quote("assistant")), rawjson.NewMember("content", content), rawjson.NewMember("tool_calls", rawjson.ArrayOf(calls...)))
		return
	}
	var blocks []jsontext.Value
	if message.content != nil {
		blocks = append(blocks, rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("text")), rawjson.NewMember("text", message.content)))
	}
	blocks = append(blocks, w.parts(message)...)
	for _, call := range turns {
		arguments, _ := rawjson.Text(call.arguments)
		if _, err := rawjson.Members([]byte(arguments)); err != nil {
			w.drop(call.at)
			continue
		}
		blocks = append(blocks, rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("tool_use")), rawjson.NewMember("id", call.id), rawjson.NewMember("name", call.name), rawjson.NewMember("input", jsontext.Value(arguments))))
	}
	if len(blocks) > 0 {
		w.add(rawjson.NewMember("role", rawjson.Quote("assistant")), rawjson.NewMember("content", rawjson.ArrayOf(blocks...)))
	}
}

// results adds a message of Messages with the results of calls.
func (w *conversationWriter) results(turns []turn) {
	blocks := make([]jsontext.Value, len(turns))
	for i, t := range turns {
		blocks[i] = rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("tool_result")), rawjson.NewMember("tool_use_id", t.id), rawjson.NewMember("content", w.content(t)))
	}
	w.add(rawjson.NewMember("role", rawjson.Quote("user")), rawjson.NewMember("content", rawjson.ArrayOf(blocks...)))
}

// content returns the content of a turn, or nil if nothing of a message is left. A result
// always has a content.
func (w *conversationWriter) content(t turn) jsontext.Value {
	if t.content != nil {
		return t.content
	}
	parts := w.parts(t)
	switch {
	case len(parts) > 0:
		return rawjson.ArrayOf(parts...)
	case t.kind == resultTurn:
		return rawjson.Quote("")
	}
	return nil
}

// parts returns the parts that the dialect has.
func (w *conversationWriter) parts(t turn) []jsontext.Value {
	var parts []jsontext.Value
	for _, p := range t.parts {
		pieces, ok := p.Write(w.dialect, t.role == "assistant")
		if !ok {
			w.drop(p.at)
			continue
		}
		part := append(slices.Concat(pieces...), '}')
		if p.caching != nil {
			if w.dialect == domain.Responses {
				w.drop(p.at + ".cache_control")
			} else {
				part = rawjson.With(part, "cache_control", p.caching)
			}
		}
		parts = append(parts, part)
	}
	return parts
}
