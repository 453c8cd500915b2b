// Package strictgateway has the rules of the strictest gateways and providers, for tests of
// requests that go upstream.
package strictgateway

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Anthropic's API takes at most maxBreakpoints cache breakpoints, and at least minTopP as top_p
// beside thinking.
const (
	maxBreakpoints = 4
	minTopP        = 0.95
)

// Refusals returns why a strict gateway or provider refuses a request of a dialect: one reason for
// each rule that the request breaks. It returns none for a request that all of them accept. null
// counts as not sent. The rules are about pairs of fields, not about the form of a field alone.
func Refusals(dialect domain.Dialect, body []byte) []string {
	var r request
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&r); err != nil || r == nil {
		return []string{"must be a JSON object"}
	}
	var reasons []string
	for _, rule := range rules {
		if (rule.dialect == "" || rule.dialect == dialect) && rule.isBroken(r, dialect) {
			reasons = append(reasons, rule.reason)
		}
	}
	return reasons
}

// rules are what some gateway or provider refuses. A rule without a dialect holds in all of them.
var rules = []struct {
	dialect  domain.Dialect
	reason   string
	isBroken func(r request, dialect domain.Dialect) bool
}{
	{domain.Chat, "messages: a system message must be the first message", func(r request, _ domain.Dialect) bool { return r.hasLateSystemMessage() }},
	{"", "tool_choice: needs tools", func(r request, _ domain.Dialect) bool { return r["tool_choice"] != nil && len(r.list("tools")) == 0 }},
	{"", "parallel_tool_calls: needs tools", func(r request, _ domain.Dialect) bool {
		return r["parallel_tool_calls"] != nil && len(r.list("tools")) == 0
	}},
	{"", "tools: names must be unique", func(r request, dialect domain.Dialect) bool { return r.repeatsTool(dialect) }},
	{domain.Messages, "temperature: must be 1 beside thinking", func(r request, _ domain.Dialect) bool {
		t, ok := number(r["temperature"])
		return r.thinks() && r["temperature"] != nil && (!ok || t != 1)
	}},
	{domain.Messages, "top_k: must not be beside thinking", func(r request, _ domain.Dialect) bool { return r.thinks() && r["top_k"] != nil }},
	{domain.Messages, "top_p: must be at least 0.95 beside thinking", func(r request, _ domain.Dialect) bool {
		p, ok := number(r["top_p"])
		return r.thinks() && r["top_p"] != nil && (!ok || p < minTopP)
	}},
	{domain.Messages, "temperature: must not be beside top_p", func(r request, _ domain.Dialect) bool { return r["temperature"] != nil && r["top_p"] != nil }},
	{domain.Messages, "thinking.budget_tokens: must be less than max_tokens", func(r request, _ domain.Dialect) bool {
		budget, hasBudget := number(member(r["thinking"], "budget_tokens"))
		most, isBounded := number(r["max_tokens"])
		return r.thinking() == "enabled" && hasBudget && isBounded && budget >= most
	}},
	{domain.Messages, "cache_control: must be in at most 4 places", func(r request, _ domain.Dialect) bool { return r.breakpoints() > maxBreakpoints }},
	{domain.Messages, "thinking: must not be enabled beside a tool_choice that forces a tool", func(r request, _ domain.Dialect) bool {
		choice := text(member(r["tool_choice"], "type"))
		return r.thinking() == "enabled" && (choice == "any" || choice == "tool")
	}},
	{domain.Chat, "reasoning_effort: must be none beside tools for this model", func(r request, _ domain.Dialect) bool {
		return isAtLeast(r["model"], 5, 4) && len(r.list("tools")) > 0 && (isEffort(r["reasoning_effort"]) || isEffort(member(r["reasoning"], "effort")))
	}},
	{domain.Chat, "max_tokens: this model takes max_completion_tokens", func(r request, _ domain.Dialect) bool {
		return r["max_tokens"] != nil && (isAtLeast(r["model"], 5, 0) || seriesO.MatchString(baseName(r["model"])))
	}},
}

// request is the object of a request.
type request map[string]any

func (r request) list(name string) []any {
	list, _ := r[name].([]any)
	return list
}

// hasLateSystemMessage reports whether a message behind the first is one of the system or of the
// developer, as chat templates of open models refuse it.
func (r request) hasLateSystemMessage() bool {
	for i, message := range r.list("messages") {
		if role := text(member(message, "role")); i > 0 && (role == "system" || role == "developer") {
			return true
		}
	}
	return false
}

// repeatsTool reports whether two tools have one name. The web search of Responses has one name in
// all its versions.
func (r request) repeatsTool(dialect domain.Dialect) bool {
	seen := map[string]bool{}
	for _, tool := range r.list("tools") {
		name, kind := text(member(tool, "name")), text(member(tool, "type"))
		switch {
		case kind == "namespace", kind == "mcp":
			continue
		case dialect == domain.Chat && (kind == "function" || kind == "custom"):
			name = text(member(member(tool, kind), "name"))
		case name == "" && strings.HasPrefix(kind, "web_search"):
			name = "\x00web_search"
		}
		if name != "" && seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

// thinking returns the type of thinking, or "".
func (r request) thinking() string { return text(member(r["thinking"], "type")) }

func (r request) thinks() bool { return r.thinking() == "enabled" || r.thinking() == "adaptive" }

// breakpoints returns how many cache breakpoints a request of messages has. The one of the request
// itself counts, too.
func (r request) breakpoints() int {
	count := 0
	if r["cache_control"] != nil {
		count++
	}
	for _, name := range []string{"tools", "system"} {
		count += breakpointsIn(r[name])
	}
	for _, message := range r.list("messages") {
		count += breakpointsIn(member(message, "content"))
	}
	return count
}

// breakpointsIn returns how many cache breakpoints a list of blocks has, also within the results of
// tools and in documents that are lists.
func breakpointsIn(blocks any) int {
	list, _ := blocks.([]any)
	count := 0
	for _, block := range list {
		if member(block, "cache_control") != nil {
			count++
		}
		count += breakpointsIn(member(block, "content")) + breakpointsIn(member(member(block, "source"), "content"))
	}
	return count
}

// seriesO are the names of OpenAI's models o1, o3 and so on.
var seriesO = regexp.MustCompile(`^o[0-9]`)

// generation is the version of OpenAI's models of the series GPT.
var generation = regexp.MustCompile(`^gpt-([0-9]+)(?:\.([0-9]+))?`)

// baseName returns the name of a model without its provider.
func baseName(model any) string {
	name := text(model)
	return name[strings.LastIndexByte(name, '/')+1:]
}

// isAtLeast reports whether a model is one of OpenAI's series GPT, of a version or a later one.
func isAtLeast(model any, major, minor int) bool {
	found := generation.FindStringSubmatch(baseName(model))
	if found == nil {
		return false
	}
	is, _ := strconv.Atoi(found[1])
	point, _ := strconv.Atoi(found[2]) // 0 for none
	return is > major || is == major && point >= minor
}

// isEffort reports whether a value asks for reasoning.
func isEffort(value any) bool { return value != nil && value != "none" }

func member(object any, name string) any {
	members, _ := object.(map[string]any)
	return members[name]
}

func text(value any) string {
	text, _ := value.(string)
	return text
}

func number(value any) (n float64, ok bool) {
	digits, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	n, _ = strconv.ParseFloat(digits.String(), 64) // infinite where that is not enough
	return n, true
}
