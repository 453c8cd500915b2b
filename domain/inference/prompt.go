package inference

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// promptField is the field of each dialect that takes a system prompt.
var promptField = map[domain.Dialect]string{domain.Responses: "instructions", domain.Chat: "messages", domain.Messages: "system"}

// systemPrompt is a preset's system prompt, ready to be placed. Its pieces are the insides of
// JSON strings, and follow each other.
type systemPrompt struct {
	pieces []jsontext.Value
	size   int // of all pieces
	from   Source
	lone   []jsontext.Value // as alone returns it, nil if that was not prepared
}

// newSystemPrompt returns the system prompt of a version without variables.
func newSystemPrompt(text string, dialect domain.Dialect) systemPrompt {
	p := systemPrompt{from: FromPreset}
	if text != "" {
		p.add(quoteInside(text))
	}
	p.lone = slices.Clip(p.alone(dialect)) // shared, so append must copy it
	return p
}

func (p *systemPrompt) add(piece jsontext.Value) {
	p.pieces = append(p.pieces, piece)
	p.size += len(piece)
}

func (p systemPrompt) isEmpty() bool { return p.size == 0 }

// between returns the pieces with a text before and after them. There is room for one more.
func (p systemPrompt) between(before, after jsontext.Value) []jsontext.Value {
	all := make([]jsontext.Value, 0, len(p.pieces)+3)
	return append(append(append(all, before), p.pieces...), after)
}

// The heads and tails are the JSON around the text of a prompt.
var (
	systemMessageHead, systemMessageTail = jsontext.Value(`{"role":"system","content":"`), jsontext.Value(`"}`)
	firstMessageHead                     = jsontext.Value(`[{"role":"system","content":"`)
	loneMessageTail                      = jsontext.Value(`"}]`)
	firstBlockHead, systemBlockTail      = jsontext.Value(`[{"type":"text","text":"`), jsontext.Value(`"}`)
	quotationMark                        = jsontext.Value(`"`)
)

// paragraphEnd stands between a preset's system prompt and the request's.
var paragraphEnd = quoteInside(promptSeparator)

// alone returns the value of a dialect's prompt field in a request that has none.
func (p systemPrompt) alone(dialect domain.Dialect) []jsontext.Value {
	switch {
	case p.lone != nil:
		return p.lone
	case dialect == domain.Chat:
		return p.between(firstMessageHead, loneMessageTail)
	}
	return p.between(quotationMark, quotationMark)
}

// placeBefore returns the text that replaces the first byte of value, a request's own
// prompt field. It puts the preset's prompt first, because providers cache by prefix.
//
// It returns nil for a request that already begins with the prompt. An example is the
// request that the preset was made from.
func (p systemPrompt) placeBefore(dialect domain.Dialect, value jsontext.Value) ([]jsontext.Value, error) {
	field := promptField[dialect]
	switch {
	case dialect == domain.Chat && value.Kind() != '[':
		return nil, domain.InvalidAt("/"+field, "must be an array")
	case dialect == domain.Chat:
		return p.beforeFirst(dialect, value, firstMessageHead, systemMessageTail), nil
	case value.Kind() == '"':
		switch {
		case p.begins(dialect, value):
			return nil, nil
		case isEmptyText(value):
			return p.between(quotationMark, nil), nil
		}
		return p.between(quotationMark, paragraphEnd), nil
	case dialect == domain.Messages && value.Kind() == '[':
		return p.beforeFirst(dialect, value, firstBlockHead, systemBlockTail), nil
	case dialect == domain.Messages:
		return nil, domain.InvalidAt("/"+field, "must be a string or an array")
	default:
		return nil, domain.InvalidAt("/"+field, "must be a string")
	}
}

// begins reports whether a prompt field begins with the whole prompt.
func (p systemPrompt) begins(dialect domain.Dialect, field jsontext.Value) bool {
	match := p.match()
	match.addField(dialect, field)
	return match.isBegun()
}

// beforeFirst returns the text that replaces the opening bracket of list and puts an
// element with the prompt first. head, which has the bracket, and tail are around it. It
// returns nil for a list that begins with the prompt.
func (p systemPrompt) beforeFirst(dialect domain.Dialect, list, head, tail jsontext.Value) []jsontext.Value {
	if p.begins(dialect, list) {
		return nil
	}
	lead := p.between(head, tail)
	if !isEmptyContainer(list) {
		lead = append(lead, comma)
	}
	return lead
}

// promptMatch compares texts with a prompt and the end of its paragraph. It copies nothing,
// since both can be very large.
type promptMatch struct {
	// piece and pieces are what the texts must go on with, and left is their length.
	piece   jsontext.Value
	pieces  []jsontext.Value
	left    int
	differs bool
	isEmpty bool // there was no text, or only empty ones
}

func (p systemPrompt) match() promptMatch {
	return promptMatch{pieces: append(slices.Clip(p.pieces), paragraphEnd), left: p.size + len(paragraphEnd), isEmpty: true}
}

// add compares the next text, which is the inside of a string. It returns false if more
// texts change nothing.
func (m *promptMatch) add(text jsontext.Value) bool {
	m.isEmpty = m.isEmpty && len(text) == 0
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

// addField compares the texts of a prompt field, joined. It reports whether there is one.
func (m *promptMatch) addField(dialect domain.Dialect, field jsontext.Value) (ok bool) {
	for text := range promptTexts(dialect, field) {
		if ok && !m.add(paragraphEnd) || !m.add(text[1:len(text)-1]) {
			return true
		}
		ok = true
	}
	return ok
}

// is reports whether the texts are the prompt.
func (m *promptMatch) is() bool { return !m.differs && m.left == len(paragraphEnd) }

// isBegun reports whether the texts begin with the whole prompt.
func (m *promptMatch) isBegun() bool { return m.is() || m.left == 0 }

// promptTexts yields the texts of a request's system prompt, which are strings. In a chat
// they are those of the system and developer messages at its beginning.
func promptTexts(dialect domain.Dialect, value jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(jsontext.Value) bool) {
		if dialect != domain.Chat {
			yieldTexts(value, yield)
			return
		}
		for _, message := range rawjson.Items(value) {
			if !isSystemMessage(dialect, message) || !yieldTexts(rawjson.Get(message, "content"), yield) {
				return
			}
		}
	}
}

// yieldTexts yields the texts of content, a string or an array of parts. It reports
// whether to go on.
func yieldTexts(content jsontext.Value, yield func(jsontext.Value) bool) bool {
	if content.Kind() == '"' {
		return yield(content)
	}
	for _, part := range rawjson.Items(content) {
		if text := rawjson.Get(part, "text"); text.Kind() == '"' && !yield(text) {
			return false
		}
	}
	return true
}
