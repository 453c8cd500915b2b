package inference

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxBreakpoints is how many cache breakpoints Anthropic's API takes in a request.
const maxBreakpoints = 4

// maxBlockDepth bounds how deep in a message its breakpoints are. Documents may be in the result of a
// tool, and have a list of blocks.
const maxBlockDepth = 6

// fitBreakpoints leaves out cache breakpoints of the preset's tools beyond maxBreakpoints, and then the one that
// the API places. The first go first, because a later one caches all that is before it.
func (m *merger) fitBreakpoints() {
	if m.settings.breakpoints == 0 {
		return
	}
	surplus := m.settings.templateBreakpoints - maxBreakpoints
	if m.Value("cache_control") != nil {
		surplus++ // the API places it
	}
	for _, list := range []jsontext.Value{m.Value("tools"), m.sentSetting("system"), m.sentSetting("messages")} {
		surplus += countBreakpoints(list)
	}
	if surplus = m.stripTools(surplus); surplus > 0 && m.yields("cache_control") {
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

// stripTools removes a surplus of breakpoints from tools that only the preset has, and returns what is left of it.
// Locked tools keep theirs.
func (m *merger) stripTools(surplus int) (left int) {
	tools := m.Value("tools")
	if surplus <= 0 || m.rules.Setting("tools") == nil || m.rules.Policy.IsLocked("tools") || m.Reserve(len(tools)) != nil {
		return surplus
	}
	var stripped []jsontext.Value
	left = surplus
	for _, tool := range rawjson.Items(tools) {
		if i := m.ownTool(tool); i >= 0 && left > 0 && rawjson.Get(tool, "cache_control") != nil {
			tool = rawjson.Without(tool, func(name jsontext.Value) bool { return rawjson.IsText(name, "cache_control") })
			m.dropped = append(m.dropped, "tools."+strconv.Itoa(i)+".cache_control")
			left--
		}
		stripped = append(stripped, tool)
	}
	if left < surplus {
		m.Parts[m.Index("tools")].Value = rawjson.ArrayOf(stripped...)
	}
	return left
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
