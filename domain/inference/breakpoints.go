package inference

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxBreakpoints is how many cache breakpoints Anthropic's API takes in a request.
const maxBreakpoints = 4

// maxBlockDepth bounds how deep in a message its breakpoints are. Documents may be in the result of a
// tool, and have a list of blocks.
const maxBlockDepth = 6

// fitBreakpoints leaves out cache breakpoints of the preset beyond maxBreakpoints. The first in the
// prompt go first, because a later one caches all that is before it.
func (m *merger) fitBreakpoints() {
	if m.settings.breakpoints == 0 {
		return
	}
	surplus := -maxBreakpoints
	if m.Value("cache_control") != nil {
		surplus++ // the API places it
	}
	for _, list := range []jsontext.Value{m.Value("tools"), m.sentSetting("system"), m.sentSetting("messages")} {
		surplus += countBreakpoints(list)
	}
	s := breakpointStripper{surplus: surplus + m.settings.templateBreakpoints}
	m.stripTools(&s)
	m.stripTemplate(&s)
	m.dropped = append(m.dropped, s.dropped...)
	if s.surplus > 0 && m.yields("cache_control") {
		m.leaveOut("cache_control")
	}
}

// countBreakpoints sets breakpoints and templateBreakpoints.
func (s *settings) countBreakpoints() {
	s.breakpoints = countBreakpoints(rawjson.Find(s.fields, "tools"))
	if rawjson.Find(s.fields, "cache_control") != nil {
		s.breakpoints++
	}
	if t := s.template; t != nil { // values have no breakpoints
		s.templateBreakpoints = countBreakpoints(t.Skeleton())
		s.breakpoints += s.templateBreakpoints
	}
}

// countBreakpoints returns how many cache breakpoints a list of tools, blocks or messages has.
func countBreakpoints(list jsontext.Value) (count int) {
	for _, item := range rawjson.Items(list) {
		count += breakpointsIn(item, maxBlockDepth)
	}
	return count
}

func breakpointsIn(block jsontext.Value, depth int) (count int) {
	for name, value := range rawjson.Pairs(block) {
		switch {
		case rawjson.IsText(name, "cache_control") && value.Kind() != 'n':
			count++
		case depth == 0:
		case rawjson.IsText(name, "source"):
			count += breakpointsIn(value, depth-1)
		case rawjson.IsText(name, "content"):
			for _, item := range rawjson.Items(value) {
				count += breakpointsIn(item, depth-1)
			}
		}
	}
	return count
}

// breakpointStripper removes cache breakpoints while there is a surplus of them.
type breakpointStripper struct {
	surplus int
	dropped []string
}

// stripTools removes breakpoints of tools that only the preset has. Locked tools keep theirs.
func (m *merger) stripTools(s *breakpointStripper) {
	tools := m.Value("tools")
	if s.surplus <= 0 || m.rules.Setting("tools") == nil || m.rules.Policy.IsLocked("tools") || m.Reserve(len(tools)) != nil {
		return
	}
	var stripped []jsontext.Value
	for _, tool := range rawjson.Items(tools) {
		if rawjson.Get(tool, "cache_control") != nil {
			if i := m.ownTool(tool); i >= 0 {
				tool = s.strip(tool, "tools."+strconv.Itoa(i), 0)
			}
		}
		stripped = append(stripped, tool)
	}
	if len(s.dropped) > 0 {
		m.Parts[m.Index("tools")].Value = rawjson.ArrayOf(stripped...)
	}
}

// ownTool returns the index of a merged tool among the preset's, or -1 for one that the request has.
func (m *merger) ownTool(tool jsontext.Value) int {
	for _, sent := range rawjson.Items(m.sentSetting("tools")) {
		if bytes.Equal(sent, tool) {
			return -1
		}
	}
	return slices.IndexFunc(m.settings.tools, func(t namedTool) bool { return bytes.Equal(t.tool, tool) })
}

// stripTemplate removes breakpoints of the template's messages.
func (m *merger) stripTemplate(s *breakpointStripper) {
	if s.surplus <= 0 || m.settings.templateBreakpoints == 0 {
		return
	}
	list := rawjson.ArrayOf(slices.Concat(m.messages...))
	if m.Reserve(2*len(list)) != nil {
		return
	}
	var stripped []jsontext.Value
	for i, message := range rawjson.Items(list) {
		stripped = append(stripped, s.strip(message, "messages."+strconv.Itoa(i), maxBlockDepth))
	}
	list = rawjson.ArrayOf(stripped...)
	first := &m.messages[0][0] // a template's messages begin with a brace
	edits := m.Parts[m.Index(dialects.ConversationField[m.rules.Dialect])].Edits
	for i := range edits {
		e := &edits[i]
		if at := slices.IndexFunc(e.Texts, func(text jsontext.Value) bool { return len(text) > 0 && &text[0] == first }); at >= 0 {
			e.Texts = slices.Concat(e.Texts[:at], []jsontext.Value{list[1 : len(list)-1]}, e.Texts[at+len(m.messages):])
		}
	}
}

// strip returns a tool, a block or a message without surplus breakpoints. at is its place in the
// preset. Other members keep their bytes.
func (s *breakpointStripper) strip(block jsontext.Value, at string, depth int) jsontext.Value {
	if s.surplus <= 0 || breakpointsIn(block, depth) == 0 {
		return block
	}
	stripped := append(make(jsontext.Value, 0, len(block)), '{')
	for name, value := range rawjson.Pairs(block) {
		switch {
		case s.surplus > 0 && rawjson.IsText(name, "cache_control") && value.Kind() != 'n':
			s.surplus--
			s.dropped = append(s.dropped, at+".cache_control")
			continue
		case depth == 0:
		case rawjson.IsText(name, "source"):
			value = s.strip(value, at+".source", depth-1)
		case rawjson.IsText(name, "content") && value.Kind() == '[':
			var items []jsontext.Value
			for i, item := range rawjson.Items(value) {
				items = append(items, s.strip(item, at+".content."+strconv.Itoa(i), depth-1))
			}
			value = rawjson.ArrayOf(items...)
		}
		stripped = rawjson.AppendMember(stripped, name, value)
	}
	return append(stripped, '}')
}
