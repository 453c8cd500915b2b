package inference

import (
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// promptField is the field of each dialect that takes a system prompt.
var promptField = map[domain.Dialect]string{domain.Responses: "instructions", domain.Chat: "messages", domain.Messages: "system"}

// promptSeparator stands between a preset's system prompt and the request's.
const promptSeparator = "\n\n"

// systemPrompt is a preset's system prompt, ready to be placed. Its pieces follow each
// other.
type systemPrompt struct {
	pieces []promptPiece
	size   int // of all insides
	from   Source
	lone   []jsontext.Value // as alone returns it, nil if that was not prepared
}

// promptPiece is a piece of a system prompt.
type promptPiece struct {
	inside jsontext.Value // of a JSON string
	text   string         // empty if only inside is known
}

func (p promptPiece) decoded() string {
	if p.text != "" {
		return p.text
	}
	text, _ := rawjson.Text(slices.Concat(jsontext.Value{'"'}, p.inside, jsontext.Value{'"'}))
	return text
}

// newSystemPrompt returns the system prompt of a version without variables.
func newSystemPrompt(text string, dialect domain.Dialect) systemPrompt {
	p := systemPrompt{from: FromPreset}
	if text != "" {
		p.add(promptPiece{quoteInside(text), text})
	}
	p.lone = slices.Clip(p.alone(dialect)) // shared, so append must copy it
	return p
}

func (p *systemPrompt) add(piece promptPiece) {
	p.pieces = append(p.pieces, piece)
	p.size += len(piece.inside)
}

func (p systemPrompt) isEmpty() bool { return p.size == 0 }

// between returns the pieces with a text before and after them. There is room for one more.
func (p systemPrompt) between(before, after jsontext.Value) []jsontext.Value {
	all := make([]jsontext.Value, 0, len(p.pieces)+3)
	all = append(all, before)
	for _, piece := range p.pieces {
		all = append(all, piece.inside)
	}
	return append(all, after)
}

// The heads and tails are the JSON around the text of a prompt.
var (
	systemMessageHead, systemMessageTail = jsontext.Value(`{"role":"system","content":"`), jsontext.Value(`"}`)
	firstMessageHead                     = jsontext.Value(`[{"role":"system","content":"`)
	loneMessageTail                      = jsontext.Value(`"}]`)
	firstBlockHead, systemBlockTail      = jsontext.Value(`[{"type":"text","text":"`), jsontext.Value(`"}`)
	quotationMark, paragraphEnd          = jsontext.Value(`"`), jsontext.Value(`\n\n`)
)

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
		own, _ := rawjson.Text(value)
		switch {
		case p.begins(own):
			return nil, nil
		case own == "":
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

// cutFrom returns what stands behind the prompt in text. It is not ok if text does not
// begin with the prompt. The prompt may be too large to be put together.
func (p systemPrompt) cutFrom(text string) (rest string, ok bool) {
	for _, piece := range p.pieces {
		if text, ok = strings.CutPrefix(text, piece.decoded()); !ok {
			return "", false
		}
	}
	return text, true
}

// is reports whether text is the prompt.
func (p systemPrompt) is(text string) bool {
	rest, ok := p.cutFrom(text)
	return ok && rest == ""
}

// begins reports whether text begins with the whole prompt.
func (p systemPrompt) begins(text string) bool {
	rest, ok := p.cutFrom(text)
	return ok && (rest == "" || strings.HasPrefix(rest, promptSeparator))
}

// beginsList reports whether a list of messages or blocks begins with the prompt.
func (p systemPrompt) beginsList(dialect domain.Dialect, list jsontext.Value) bool {
	own, _ := promptText(dialect, list, p.size+len(promptSeparator))
	return p.begins(own)
}

// beforeFirst returns the text that replaces the opening bracket of list and puts an
// element with the prompt first. head, which has the bracket, and tail are around it. It
// returns nil for a list that begins with the prompt.
func (p systemPrompt) beforeFirst(dialect domain.Dialect, list, head, tail jsontext.Value) []jsontext.Value {
	if p.beginsList(dialect, list) {
		return nil
	}
	lead := p.between(head, tail)
	if !isEmptyContainer(list) {
		lead = append(lead, comma)
	}
	return lead
}

// promptText returns the joined texts of a request's prompt field. It stops beyond enough
// bytes. It is not ok if there is no text, not even an empty one.
func promptText(dialect domain.Dialect, value jsontext.Value, enough int) (text string, ok bool) {
	var joined strings.Builder
	for part := range promptTexts(dialect, value) {
		if ok {
			joined.WriteString(promptSeparator)
		}
		joined.WriteString(part)
		if ok = true; joined.Len() > enough {
			break
		}
	}
	return joined.String(), ok
}

// promptTexts yields the texts of a request's system prompt. In a chat they are those of
// the system and developer messages at its beginning.
func promptTexts(dialect domain.Dialect, value jsontext.Value) iter.Seq[string] {
	return func(yield func(string) bool) {
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
func yieldTexts(content jsontext.Value, yield func(string) bool) bool {
	if text, ok := rawjson.Text(content); ok {
		return yield(text)
	}
	for _, part := range rawjson.Items(content) {
		if text, ok := rawjson.Text(rawjson.Get(part, "text")); ok && !yield(text) {
			return false
		}
	}
	return true
}
