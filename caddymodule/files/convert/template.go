package convert

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// segment is a part of a text: a variable's name, or text.
type segment struct {
	variable string // empty for text
	text     string
}

// finding is what a syntax found beside variables. It has no part of the text.
type finding struct {
	message string
	// refuses is set if the text has another meaning here.
	refuses bool
}

// syntax reads a text in the template language of a source.
type syntax func(text string) ([]segment, []finding)

// messageEscape is the finding for a text that no template can express.
const messageEscape = `has a backslash before a variable, which a template cannot express`

// encode writes segments as the text of a template. It is not ok for a text that ends in a
// backslash before a variable: that escapes the variable.
//
// In a template {{name}} is a variable, and \{{ is the text {{. Other braces are text.
func encode(segments []segment) (text string, ok bool) {
	var out strings.Builder
	ok = true
	for i, s := range segments {
		if s.variable != "" {
			out.WriteString("{{" + s.variable + "}}")
			continue
		}
		literal := s.text
		if i+1 < len(segments) && (strings.HasSuffix(literal, `\`) || strings.HasSuffix(literal, `\{`)) {
			ok = false
		}
		for {
			at := strings.Index(literal, "{{")
			if at < 0 {
				out.WriteString(literal)
				break
			}
			out.WriteString(literal[:at])
			_, _, isVariable := cutVariable(literal[at:])
			if isVariable || at > 0 && literal[at-1] == '\\' {
				out.WriteString(`\{{`)
				literal = literal[at+2:]
			} else {
				out.WriteByte('{') // the next brace may begin a variable
				literal = literal[at+1:]
			}
		}
	}
	return out.String(), ok
}

// cutVariable returns the name of the variable that begins text, and the text behind it.
// text begins with {{. White space beside the name does not count.
func cutVariable(text string) (name, rest string, ok bool) {
	name, rest = domain.CutVariableName(strings.TrimLeft(text[2:], space))
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, space), "}}")
	return name, rest, ok && name != ""
}

const space = " \t\r\n"

// plainBraces is the syntax of {{name}} without anything else.
func plainBraces(text string) ([]segment, []finding) {
	var b builder
	for {
		at := strings.Index(text, "{{")
		if at < 0 {
			b.literal(text)
			break
		}
		b.literal(text[:at])
		name, rest, ok := cutVariable(text[at:])
		if ok {
			b.variable(name)
			text = rest
			continue
		}
		b.literal("{")
		text = text[at+1:]
	}
	return b.result()
}

// maxTagShown bounds a tag in a report, in characters.
const maxTagShown = 40

// tagShown returns a tag for a report, {{…}} if it is too long to be a name.
func tagShown(tag string) string {
	if tag = strings.Trim(tag, space); utf8.RuneCountInString(tag) > maxTagShown {
		tag = "…"
	}
	return "{{" + tag + "}}"
}

// builder collects the segments of a text.
type builder struct {
	segments []segment
	text     strings.Builder // the text behind the segments
	found    []finding
}

func (b *builder) literal(text string) { b.text.WriteString(text) }

func (b *builder) variable(name string) {
	b.endText()
	b.segments = append(b.segments, segment{variable: name})
}

// endText makes a segment of the text behind the segments.
func (b *builder) endText() {
	if b.text.Len() > 0 {
		b.segments = append(b.segments, segment{text: b.text.String()})
		b.text.Reset()
	}
}

// result returns all segments and findings.
func (b *builder) result() ([]segment, []finding) {
	b.endText()
	return b.segments, b.found
}

// maxFindings bounds the findings in one text.
const maxFindings = 50

// find adds a finding, once.
func (b *builder) find(f finding) {
	if !slices.Contains(b.found, f) && (f.refuses || len(b.found) < maxFindings) {
		b.found = append(b.found, f)
	}
}

// textual are the types of content parts with a text that may have variables.
var textual = map[string]bool{"text": true, "input_text": true, "output_text": true}

// otherVariable matches a variable or another tag in JSON, where letters may be escaped.
var otherVariable = regexp.MustCompile(`\{\{\s*[#^/>&]?\s*(?:[\p{L}\p{M}\p{Nd}_]|\\u[0-9A-Fa-f]{4})(?:[\p{L}\p{M}\p{Nd}_.-]|\\u[0-9A-Fa-f]{4})*\s*\}\}`)

// eachText calls change for every text of a message that may have variables. It returns the
// message with the texts that change returns.
func eachText(m node, change func(at node, text string) string) node {
	content := m.get("content")
	if m.isMade {
		content.path = m.path
	}
	if text, ok := content.text(); ok {
		return m.with("content", rawjson.Quote(change(content, text)))
	}
	var parts []jsontext.Value
	for part := range content.items() {
		kind := part.textOf("type")
		if text, ok := part.get("text").text(); ok && textual[kind] {
			part = part.with("text", rawjson.Quote(change(part.get("text"), text)))
		}
		parts = append(parts, part.value)
	}
	if parts == nil {
		return m
	}
	return m.with("content", rawjson.ArrayOf(parts...))
}

// variablesElsewhere reports whether a message has variables where no values are put in.
func variablesElsewhere(m node) bool {
	rest := eachText(m, func(node, string) string { return "" })
	return otherVariable.Match(rest.value)
}

// texts reads all texts of a version, and reports what they have. It returns the names of
// all variables.
func (v *version) texts() (variables map[string]bool) {
	variables = make(map[string]bool)
	if v.syntax == nil {
		return variables
	}
	for _, m := range v.messages {
		eachText(m, func(at node, text string) string {
			if err := (domain.Capture{SystemPrompt: &text}).CheckSize(); err != nil {
				v.refuse(at, withoutPlace(err))
				return text
			}
			segments, found := v.syntax(text)
			for _, f := range found {
				if f.refuses {
					v.refuse(at, f.message)
				} else {
					v.change(at, f.message)
				}
			}
			for _, s := range segments {
				if s.variable != "" {
					variables[s.variable] = true
				}
			}
			return text
		})
		if variablesElsewhere(m) {
			v.refuse(m, "has a variable outside of its texts, where no value is put in")
		}
	}
	return variables
}

// rewrite returns the messages of the version with the texts that a template has. A
// version that is no template gets them as they are for a model.
func (v *version) rewrite(isTemplate bool) []node {
	if v.syntax == nil && !isTemplate {
		return v.messages
	}
	messages := make([]node, len(v.messages))
	for i, m := range v.messages {
		messages[i] = eachText(m, func(at node, text string) string {
			segments := []segment{{text: text}}
			if v.syntax != nil {
				segments, _ = v.syntax(text)
			}
			if !isTemplate {
				return literalOf(segments)
			}
			encoded, ok := encode(segments)
			if !ok {
				v.refuse(at, messageEscape)
			}
			return encoded
		})
	}
	return messages
}

func literalOf(segments []segment) string {
	var text strings.Builder
	for _, s := range segments {
		text.WriteString(s.text)
	}
	return text.String()
}

// isSystem reports whether a message is one of the system or the developer, with nothing
// but texts.
func isSystem(m node) bool {
	role := m.textOf("role")
	return (role == "system" || role == "developer") && onlyTexts(m.get("content"))
}

func onlyTexts(content node) bool {
	if _, ok := content.text(); ok {
		return true
	}
	if content.kind() != '[' {
		return false
	}
	for part := range content.items() {
		if _, ok := part.get("text").text(); !ok || !textual[part.textOf("type")] {
			return false
		}
	}
	return true
}

// promptOf returns the texts of messages, joined as a server joins them.
func promptOf(messages []node) string {
	var texts []string
	for _, m := range messages {
		eachText(m, func(_ node, text string) string {
			texts = append(texts, text)
			return text
		})
	}
	return strings.Join(texts, "\n\n")
}

// leading returns how many messages begin the system prompt.
func leading(messages []node) int {
	for i, m := range messages {
		if !isSystem(m) {
			return i
		}
	}
	return len(messages)
}

// place returns the members of a request that have the messages, where the dialect has them.
func place(dialect domain.Dialect, messages []node) (members []rawjson.Member) {
	if first := leading(messages); first > 0 && dialect != domain.Chat {
		name := map[domain.Dialect]string{domain.Responses: "instructions", domain.Messages: "system"}[dialect]
		members = append(members, rawjson.Member{Name: name, Value: rawjson.Quote(promptOf(messages[:first]))})
		messages = messages[first:]
	}
	var all []jsontext.Value
	for _, m := range messages {
		all = append(all, m.value)
	}
	if len(all) > 0 {
		members = append(members, rawjson.Member{Name: inference.ConversationField(dialect), Value: rawjson.ArrayOf(all...)})
	}
	return members
}
