// Package prompts puts the system prompt and the template of a preset into requests.
package prompts

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// System is a preset's system prompt, ready to be placed. Its pieces are the insides of
// JSON strings, and follow each other.
type System struct {
	pieces []jsontext.Value
	Size   int // of all pieces
	From   draft.Source
	// lone and ended are what alone and paragraph return, nil if that was not prepared.
	lone, ended []jsontext.Value
}

// NewSystem returns the system prompt of a version without variables.
func NewSystem(text string, dialect domain.Dialect) System {
	p := System{From: draft.FromPreset}
	if text != "" {
		p.add(quoteInside(text))
	}
	p.lone, p.ended = slices.Clip(p.Alone(dialect)), slices.Clip(p.paragraph()) // shared, so append must copy them
	return p
}

func (p *System) add(piece jsontext.Value) {
	p.pieces = append(p.pieces, piece)
	p.Size += len(piece)
}

// IsEmpty reports whether the prompt has no text.
func (p System) IsEmpty() bool { return p.Size == 0 }

// between returns the pieces with a text before and after them. There is room for one more.
func (p System) between(before, after jsontext.Value) []jsontext.Value {
	all := make([]jsontext.Value, 0, len(p.pieces)+3)
	return append(append(append(all, before), p.pieces...), after)
}

// paragraph returns the pieces and the end of their paragraph.
func (p System) paragraph() []jsontext.Value {
	if p.ended != nil {
		return p.ended
	}
	return append(slices.Clip(p.pieces), paragraphEnd)
}

// The heads and tails are the JSON around the text of a prompt.
var (
	systemMessageHead, systemMessageTail = jsontext.Value(`{"role":"system","content":"`), jsontext.Value(`"}`)
	firstMessageHead, loneMessageTail    = jsontext.Value(`[{"role":"system","content":"`), jsontext.Value(`"}]`)
	textPartHead, textPartTail           = jsontext.Value(`{"type":"text","text":"`), jsontext.Value(`"}`)
	nextPartHead                         = jsontext.Value(`,{"type":"text","text":"`)
	quotationMark                        = jsontext.Value(`"`)
)

// paragraphEnd stands between a preset's system prompt and the request's.
var paragraphEnd = quoteInside(promptSeparator)

// Alone returns the value of a dialect's prompt field in a request that has none.
func (p System) Alone(dialect domain.Dialect) []jsontext.Value {
	switch {
	case p.lone != nil:
		return p.lone
	case dialect == domain.Chat:
		return p.between(firstMessageHead, loneMessageTail)
	}
	return p.between(quotationMark, quotationMark)
}

// Place returns the edit that puts the preset's prompt into value, a request's own prompt field.
// The prompt comes first, because providers cache by prefix, and into a prompt that is there,
// because some models take one system message only. In Messages an attribution stays before it.
// goesOn tells that the merge adds items to an empty list.
//
// It returns none for a request that already begins with the prompt, in a message that every gateway reads
// as one of the system. An example is the request that the preset was made from.
func (p System) Place(dialect domain.Dialect, value jsontext.Value, goesOn bool) ([]draft.Edit, error) {
	switch kind := value.Kind(); {
	case dialect == domain.Chat && kind != '[':
		return nil, domain.InvalidAt("/messages", "must be an array")
	case dialect == domain.Responses && kind != '"':
		return nil, domain.InvalidAt("/instructions", "must be a string")
	case kind != '"' && kind != '[':
		return nil, domain.InvalidAt("/system", "must be a string or an array")
	}
	switch {
	case dialect == domain.Chat && !isOfSystem(rawjson.FromFirst(value)):
		return []draft.Edit{p.beforeMessages(value, goesOn)}, nil
	case p.begins(dialect, value):
		return nil, nil
	case dialect == domain.Chat:
		return []draft.Edit{p.inMessages(value, goesOn)}, nil
	}
	if block, _ := firstBlock(value); isAttributed(block) {
		behind := rawjson.Offset(value, block) + len(block)
		return []draft.Edit{draft.Insert(behind, p.between(nextPartHead, textPartTail))}, nil
	}
	return []draft.Edit{p.inContent(value, 0)}, nil
}

// isOfSystem reports whether every gateway reads a message as one of the system or the developer. It does not search
// what follows another role, which may be most of the request.
func isOfSystem(message jsontext.Value) bool {
	return dialects.IsSystemMessage(domain.Chat, message) && dialects.SoleMember(message, "role") != nil
}

// inMessages returns the edit that puts the prompt into the first of some messages, which is of the system, if
// that has one content, else before it.
func (p System) inMessages(list jsontext.Value, goesOn bool) draft.Edit {
	content := dialects.SoleMember(rawjson.FromFirst(list), "content")
	switch content.Kind() {
	case '"', '[':
		return p.inContent(content, rawjson.Offset(list, content))
	case 'n':
		at := rawjson.Offset(list, content)
		return draft.Edit{Begin: at, End: at + len(content), Texts: p.between(quotationMark, quotationMark)}
	}
	return p.beforeMessages(list, goesOn)
}

// beforeMessages returns the edit that puts a message with the prompt before others.
func (p System) beforeMessages(list jsontext.Value, goesOn bool) draft.Edit {
	message := p.between(systemMessageHead, systemMessageTail)
	if goesOn || !rawjson.IsEmpty(list) {
		message = append(message, draft.Comma)
	}
	return draft.Insert(1, message)
}

// inContent returns the edit that puts the prompt before a content at a place of a value. The
// content is a text or a list of parts.
func (p System) inContent(content jsontext.Value, at int) draft.Edit {
	at++ // behind the quotation mark or the bracket
	switch {
	case rawjson.IsText(content, ""):
		return draft.Insert(at, p.pieces)
	case content.Kind() == '"':
		return draft.Insert(at, p.paragraph())
	}
	part := p.between(textPartHead, textPartTail)
	if !rawjson.IsEmpty(content) {
		part = append(part, draft.Comma)
	}
	return draft.Insert(at, part)
}

// begins reports whether a prompt field begins with the whole prompt.
func (p System) begins(dialect domain.Dialect, field jsontext.Value) bool {
	match := p.Match()
	match.AddField(dialect, 0, field)
	if dialect != domain.Messages || match.isBegun() {
		return match.isBegun()
	}
	if block, _ := firstBlock(field); isAttributed(block) {
		match = p.Match()
		match.AddField(dialect, 1, field)
	}
	return match.isBegun()
}

// Match compares texts with a prompt and the end of its paragraph. It copies nothing,
// since both can be very large.
type Match struct {
	// piece and pieces are what the texts must go on with, and left is their length.
	piece   jsontext.Value
	pieces  []jsontext.Value
	left    int
	differs bool
	IsEmpty bool // there was no text, or only empty ones
}

// Match begins a comparison of texts with the prompt.
func (p System) Match() Match {
	return Match{pieces: p.paragraph(), left: p.Size + len(paragraphEnd), IsEmpty: true}
}

// add compares the next text, which is the inside of a string. It returns false if more
// texts change nothing.
func (m *Match) add(text jsontext.Value) bool {
	m.IsEmpty = m.IsEmpty && len(text) == 0
	for len(text) > 0 && !m.differs && m.left > 0 {
		if len(m.piece) == 0 {
			m.piece, m.pieces = m.pieces[0], m.pieces[1:]
			continue
		}
		before := len(m.piece)
		text, m.piece = rawjson.CutCommon(text, m.piece)
		m.left -= before - len(m.piece)
		m.differs = len(text) > 0 && len(m.piece) > 0
	}
	return !m.differs && m.left > 0
}

// AddField compares promptTexts, joined. It reports whether there is one.
func (m *Match) AddField(dialect domain.Dialect, begin int, field jsontext.Value) (ok bool) {
	for text := range promptTexts(dialects.SoleMember, dialect, begin, field) {
		if ok && !m.add(paragraphEnd) || !m.add(text[1:len(text)-1]) {
			return true
		}
		ok = true
	}
	return ok
}

// Is reports whether the texts are the prompt.
func (m *Match) Is() bool { return !m.differs && m.left == len(paragraphEnd) }

// isBegun reports whether the texts begin with the whole prompt.
func (m *Match) isBegun() bool { return m.Is() || m.left == 0 }

// getter finds a member of an object, nil for none.
type getter func(object jsontext.Value, name string) jsontext.Value

// promptTexts yields the texts of a request's system prompt, which are strings. In a chat
// they are those of the system and developer messages at its beginning. In another dialect they
// are those of the parts from begin on. get finds the members: rawjson.Get, or dialects.SoleMember where every gateway
// must read the same.
func promptTexts(get getter, dialect domain.Dialect, begin int, value jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		if dialect != domain.Chat {
			yieldTexts(get, begin, value, yield)
			return
		}
		for _, message := range rawjson.Items(value) {
			if !dialects.IsSystemMessage(dialect, message) || !yieldTexts(get, 0, get(message, "content"), yield) {
				return
			}
		}
	}
}

// yieldTexts yields the texts of content, a string or an array of parts, of which it leaves out
// those before begin. It reports whether to go on.
func yieldTexts(get getter, begin int, content jsontext.Value, yield func(jsontext.Value) bool) bool {
	if content.Kind() == '"' {
		return yield(content)
	}
	for i, part := range rawjson.Items(content) {
		if i < begin {
			continue
		}
		if text := get(part, "text"); text.Kind() == '"' && !yield(text) {
			return false
		}
	}
	return true
}

// quoteInside returns what is between the quotes of text as a JSON string.
func quoteInside(text string) jsontext.Value {
	quoted := rawjson.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// promptSeparator stands between the texts of a system prompt.
const promptSeparator = "\n\n"

// SystemText returns the joined texts of a request's prompt field. It is not ok if there is
// no text, not even an empty one.
func SystemText(dialect domain.Dialect, field jsontext.Value) (text string, ok bool) {
	var joined strings.Builder
	begin := 0
	if block, _ := firstBlock(field); dialect == domain.Messages && isAttribution(block) {
		begin = 1
	}
	for part := range promptTexts(rawjson.Get, dialect, begin, field) {
		if ok {
			joined.WriteString(promptSeparator)
		}
		text, _ := rawjson.Text(part)
		joined.WriteString(text)
		ok = true
	}
	return joined.String(), ok
}

// AddMessage compares the content of the next system message, which is a paragraph of its own.
func (m *Match) AddMessage(message jsontext.Value) {
	if content := rawjson.Get(message, "content"); hasText(content) && (m.IsEmpty || m.add(paragraphEnd)) {
		m.AddField("", 0, content)
	}
}

// hasText reports whether the joined texts of a content are not empty.
func hasText(content jsontext.Value) bool {
	isFirst := true
	for text := range promptTexts(rawjson.Get, "", 0, content) {
		if !isFirst || !rawjson.IsText(text, "") {
			return true
		}
		isFirst = false
	}
	return false
}
