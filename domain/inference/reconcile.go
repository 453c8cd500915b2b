package inference

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// What Anthropic's API takes: a thinking budget of at least minBudget tokens, and a top_p of at least
// minThinkingTopP beside thinking.
const (
	minBudget       = 1024
	minThinkingTopP = 0.95
)

// reconcile leaves out settings of the preset that gateways and providers refuse beside the rest of
// the merged request, and names them in Resolution.Dropped. So a preset never breaks a request that
// was right. It never removes what the request sent, nor what the policy locks. A pair that the
// preset has by itself stays, because some gateways take it.
func (m *merger) reconcile() {
	hasTools := m.hasTools()
	if !hasTools {
		for _, name := range dialects.ToolUseFields { // also locked ones, since without tools they say nothing
			if i := m.Index(name); i >= 0 && m.Parts[i].Value.Kind() != 'n' && m.Parts[i].From != draft.FromRequest {
				m.leaveOut(name)
			}
		}
	}
	switch m.rules.Dialect {
	case domain.Messages:
		m.reconcileThinking()
		m.reconcileSampling()
		m.fitBudget()
		m.fitBreakpoints()
	case domain.Chat:
		if hasTools {
			m.reconcileEffort()
		}
		m.respellLimit()
		fallthrough
	case domain.Responses: // the budget of reasoning is thinking under its other name
		if m.forcesTool() && m.sentSetting("tool_choice") != nil {
			m.leaveOutMember("reasoning", "max_tokens")
		}
	}
}

// hasTools reports whether the merged request has tools.
func (m *merger) hasTools() bool {
	tools := m.Value("tools")
	return tools != nil && !rawjson.IsEmpty(tools)
}

// yields reports whether a field of the merged request is the preset's and may be left out. null, {}
// and [] of the request count as not sent.
func (m *merger) yields(name string) bool {
	i := m.Index(name)
	if i < 0 || m.Parts[i].Value.Kind() == 'n' || m.rules.Setting(name) == nil || m.rules.Policy.IsLocked(name) {
		return false
	}
	from := m.Parts[i].From
	return from == draft.FromPreset || from == draft.FromPolicy && m.sentSetting(name) == nil
}

// leaveOut removes a field of the preset.
func (m *merger) leaveOut(name string) {
	m.Remove(name)
	m.dropped = append(m.dropped, name)
}

// leaveOutMember removes a member that only the preset's object has, unless the policy locks it.
func (m *merger) leaveOutMember(field, member string) {
	value, sent := m.Value(field), m.sentSetting(field)
	if rawjson.Get(value, member) == nil || rawjson.Get(m.rules.Setting(field), member) == nil ||
		rawjson.Get(sent, member) != nil || m.rules.Policy.IsLocked(field) || m.Reserve(len(value)) != nil {
		return
	}
	i := m.Index(field)
	if m.Parts[i].Value = rawjson.Without(value, func(name jsontext.Value) bool { return rawjson.IsText(name, member) }); m.Parts[i].Value == nil {
		m.Parts = slices.Delete(m.Parts, i, i+1)
	}
	m.dropped = append(m.dropped, field+"."+member)
}

// reconcileThinking keeps thinking and a choice that forces a tool apart. Adaptive thinking may be
// beside one.
func (m *merger) reconcileThinking() {
	if dialects.TextOf(m.Value("thinking"), "type") != "enabled" || !m.forcesTool() {
		return
	}
	switch thinking, choice := m.sentSetting("thinking"), m.sentSetting("tool_choice"); {
	case choice != nil && m.yields("thinking"):
		m.leaveOut("thinking")
	case thinking != nil && m.yields("tool_choice"):
		m.leaveOut("tool_choice")
	}
}

// forcesTool reports whether the choice of tools makes the model call one.
func (m *merger) forcesTool() bool {
	choice := m.Value("tool_choice")
	if mode, ok := rawjson.Head(choice, dialects.MaxText); ok {
		return mode == "required" || mode == "any"
	}
	if choice.Kind() != '{' {
		return false
	}
	switch kind := dialects.TextOf(choice, "type"); kind {
	case "auto", "none":
		return false
	case "allowed_tools":
		return dialects.TextOf(choice, "mode") == "required" || dialects.TextOf(rawjson.Get(choice, kind), "mode") == "required"
	}
	return true
}

// reconcileSampling keeps thinking and the settings of sampling apart, and temperature and top_p.
func (m *merger) reconcileSampling() {
	for _, name := range []string{"temperature", "top_k", "top_p"} {
		kind := dialects.TextOf(m.Value("thinking"), "type")
		if kind != "enabled" && kind != "adaptive" || !m.hindersThinking(name) {
			continue
		}
		switch {
		case m.sentSetting("thinking") != nil && m.yields(name):
			m.leaveOut(name)
		case m.sentSetting(name) != nil && m.yields("thinking"):
			m.leaveOut("thinking")
		}
	}
	if m.Value("temperature").Kind() != '0' || m.Value("top_p").Kind() != '0' {
		return
	}
	switch {
	case m.sentSetting("top_p") != nil && m.yields("temperature"):
		m.leaveOut("temperature")
	case m.sentSetting("temperature") != nil && m.yields("top_p"):
		m.leaveOut("top_p")
	}
}

// hindersThinking reports whether a setting of sampling has a number that must not be beside thinking.
func (m *merger) hindersThinking(name string) bool {
	n, ok := dialects.NumberOf(m.Value(name))
	switch name {
	case "temperature":
		return ok && n != 1
	case "top_p":
		return ok && n < minThinkingTopP
	}
	return ok
}

// fitBudget lowers the preset's thinking budget below max_tokens. Where that would be too little, it
// leaves thinking out.
func (m *merger) fitBudget() {
	thinking := m.Value("thinking")
	budget, hasBudget := dialects.NumberOf(rawjson.Get(thinking, "budget_tokens"))
	most, isBounded := dialects.NumberOf(m.Value("max_tokens"))
	if !hasBudget || !isBounded || budget < most || dialects.TextOf(thinking, "type") != "enabled" || !m.yields("thinking") {
		return
	}
	fitting := math.Ceil(most) - 1
	lowered := jsontext.Value(strconv.FormatFloat(fitting, 'f', -1, 64))
	if fitting < minBudget || math.IsInf(fitting, 0) || m.rules.Policy.Disallows(dialects.PlaceOf("thinking.budget_tokens"), lowered) {
		m.leaveOut("thinking")
		return
	}
	m.Parts[m.Index("thinking")].Value = rawjson.With(thinking, "budget_tokens", lowered)
	m.dropped = append(m.dropped, "thinking.budget_tokens")
}

// toolsNeedResponses are the models of OpenAI, as JSON, that take an effort beside tools only in
// Responses: GPT 5.4 and later.
var toolsNeedResponses = regexp.MustCompile(`["/]gpt-(?:5\.(?:[4-9]|[1-9][0-9])|[6-9]|[1-9][0-9])[^0-9]`)

// reconcileEffort leaves out the preset's effort where the model does not take it beside tools.
func (m *merger) reconcileEffort() {
	yields := func(effort jsontext.Value) bool { return effort != nil && !rawjson.IsText(effort, "none") }
	short, long := m.Value("reasoning_effort"), rawjson.Get(m.Value("reasoning"), "effort")
	if !yields(short) && !yields(long) {
		return
	}
	if !toolsNeedResponses.Match(m.Value("model")) {
		return
	}
	if yields(short) && m.yields("reasoning_effort") {
		m.leaveOut("reasoning_effort")
	}
	if yields(long) {
		m.leaveOutMember("reasoning", "effort")
	}
}

// takesCompletionTokens are the models of OpenAI, as JSON, that refuse max_tokens in Chat: those that
// reason.
var takesCompletionTokens = regexp.MustCompile(`["/](?:gpt-(?:[5-9]|[1-9][0-9])|o[1-9])[^a-z0-9]`)

// respellLimit gives the request's limit of tokens the name that the preset's has. Clients guess it
// from the name of the model, which a preset hides. They know that of a model they name themselves.
// Where either the model or the limit is the preset's alone, the limit has the name that the model
// needs.
func (m *merger) respellLimit() {
	const older, newer = "max_tokens", "max_completion_tokens"
	if m.Value(older) == nil && m.Value(newer) == nil {
		return
	}
	model := m.Value("model")
	namesModel := m.Index("model") >= 0 && m.Parts[m.Index("model")].From == draft.FromRequest && !bytes.Equal(model, m.rules.Setting("model"))
	switch hasOlder, hasNewer := m.rules.Setting(older) != nil, m.rules.Setting(newer) != nil; {
	case hasOlder && hasNewer:
	case hasNewer && !namesModel:
		m.rename(older, newer)
	case hasOlder && !namesModel:
		m.rename(newer, older)
	case namesModel == (m.sentSetting(older) == nil) && !m.unknown[newer] && takesCompletionTokens.Match(model):
		m.rename(older, newer)
	}
}

// rename gives a field another name, unless the merged request has a field of that name.
func (m *merger) rename(from, to string) {
	if m.Value(from) == nil || m.Value(to) != nil {
		return
	}
	m.Parts = slices.DeleteFunc(m.Parts, func(p draft.Part) bool { return p.Name == to }) // null
	field := &m.Parts[m.Index(from)]
	field.Member = rawjson.NewMember(to, field.Value)
}
