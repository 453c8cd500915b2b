package prompts

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Claude Code begins the system prompt of Messages with a block of its own: a line in the form of a
// header, with its version and a nonce. Anthropic's API needs it in first place. At other upstreams
// the nonce spoils the cache of everything behind it.

// attributionHeader begins the text of an attribution.
const attributionHeader = "x-anthropic-billing-header:"

// pureAttribution matches an attribution that has no room for a prompt.
var pureAttribution = regexp.MustCompile(`^` + attributionHeader + `(?: cc[a-z_]{0,20}=[0-9A-Za-z._-]{1,24};){1,6}$`)

// attributionText returns the text of a block with an attribution, cut at dialects.MaxText. It returns ""
// for other blocks.
func attributionText(block jsontext.Value) string {
	text := rawjson.Get(block, "text")
	if head, _ := rawjson.Head(text, len(attributionHeader)); !strings.HasPrefix(head, attributionHeader) {
		return ""
	}
	head, _ := rawjson.Head(text, dialects.MaxText)
	return head
}

// isAttributed reports whether a block begins with an attribution. Some clients have a prompt behind
// it.
func isAttributed(block jsontext.Value) bool { return attributionText(block) != "" }

// isAttribution reports whether a block is an attribution and nothing else, which is one line.
func isAttribution(block jsontext.Value) bool {
	text := attributionText(block)
	return text != "" && len(text) <= dialects.MaxText && !strings.ContainsAny(text, "\r\n")
}

// firstBlock returns the first block of a system prompt of Messages, or nil. isSole tells that it
// has no other.
func firstBlock(system jsontext.Value) (first jsontext.Value, isSole bool) {
	for i, block := range rawjson.Items(system) {
		if i > 0 {
			return first, false
		}
		first = block
	}
	return first, first != nil
}

// LockedAttribution returns a system prompt with the attribution alone with which another one
// begins. It returns nil if that has none, or one in which a prompt could be. isSole tells that
// nothing is behind it.
func LockedAttribution(system jsontext.Value) (locked jsontext.Value, isSole bool) {
	block, isSole := firstBlock(system)
	line, _ := rawjson.Head(dialects.SoleMember(block, "text"), dialects.MaxText)
	if !pureAttribution.MatchString(line) {
		return nil, false
	}
	return rawjson.ArrayOf(rawjson.ObjectOf(rawjson.NewMember("type", rawjson.Quote("text")), rawjson.NewMember("text", rawjson.Quote(line)))), isSole
}

// WithoutAttribution returns body, which has fields, without its attribution. A system prompt without
// anything else is left out, too. It returns nil if there is nothing to leave out.
func WithoutAttribution(fields []rawjson.Member, body []byte) draft.Body {
	i := indexOfAttribution(fields)
	if i < 0 {
		return nil
	}
	system := fields[i]
	block, isSole := firstBlock(system.Value)
	begin := rawjson.Offset(body, block)
	end := begin + len(block)
	if isSole {
		begin, end = rawjson.Offset(body, system.Quoted), rawjson.Offset(body, system.Value)+len(system.Value)
	}
	before, after := cutOut(body, begin, end)
	return draft.Body{before, after}
}

// indexOfAttribution returns the index of the field with an attribution, or -1.
func indexOfAttribution(fields []rawjson.Member) int {
	return slices.IndexFunc(fields, func(f rawjson.Member) bool {
		if f.Name != dialects.PromptField[domain.Messages] {
			return false
		}
		block, _ := firstBlock(f.Value)
		return isAttribution(block)
	})
}

// cutOut returns the texts before and after a part of an object or a list from begin to end. The
// comma behind it is left out, too, or else the one before it.
func cutOut(text []byte, begin, end int) (before, after []byte) {
	const space = " \t\r\n"
	before, after = text[:begin], text[end:]
	if rest := bytes.TrimLeft(after, space); bytes.HasPrefix(rest, draft.Comma) {
		return before, rest[1:]
	}
	if rest, ok := bytes.CutSuffix(bytes.TrimRight(before, space), draft.Comma); ok {
		return rest, after
	}
	return before, after
}

// DropAttribution returns the fields of a request of Messages without the attribution. A system prompt
// without anything else is left out, too. reserve grants the memory for a copy.
func DropAttribution(fields []rawjson.Member, reserve func(size int) error) []rawjson.Member {
	i := indexOfAttribution(fields)
	if i < 0 {
		return fields
	}
	fields = slices.Clone(fields)
	system := fields[i].Value
	block, isSole := firstBlock(system)
	switch {
	case isSole:
		return slices.Delete(fields, i, i+1)
	case reserve(len(system)) != nil:
		return fields
	}
	begin := rawjson.Offset(system, block)
	before, after := cutOut(system, begin, begin+len(block))
	fields[i].Value = slices.Concat(before, after)
	return fields
}
