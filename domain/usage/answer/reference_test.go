package answer

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/sse"
)

// reference reads a whole answer slowly, with encoding/json. It knows no pieces and no
// shortcuts. content reports whether the stream has content. clear is false if it cannot tell.
func reference(d domain.Dialect, streamed bool, body []byte, complete bool) (s Seen, content, clear bool) {
	s.Streamed = streamed
	var usage map[string]any
	var final, broken bool
	if streamed {
		for _, event := range split(body) {
			s.Ended = s.Ended || strings.HasPrefix(event.data, "[DONE]")
			if !event.whole && !complete && !json.Valid([]byte(event.data)) {
				if k := kindOf([]byte(event.name)); k == errorKind || k == failedKind {
					s.Failed = true
				}
				continue
			}
			k := kindOf([]byte(event.name))
			if len(event.name) > maxEventName {
				k = otherKind
			}
			if k == errorKind || k == failedKind {
				s.Failed = true
			}
			m, ok := object(event.data)
			isLast := func() bool { // whether the dialect's stream ends with it
				return d == domain.Responses && (k == completedKind || k == failedKind || k == errorKind) || d == domain.Messages && (k == stopKind || k == errorKind)
			}
			if !ok {
				s.Ended = s.Ended || isLast()
				if bytes.Contains([]byte(event.data), []byte("usage")) || strings.Contains(event.data, `\u`) {
					return s, content, false // whether the usage is malformed depends on how far it reads
				}
				continue
			}
			if t, ok := m["type"].(string); ok && t != "" && d != domain.Chat {
				k = kindOf([]byte(t))
			}
			if k == errorKind || k == failedKind || isError(m["error"]) {
				s.Failed = true
			}
			s.Ended = s.Ended || isLast()
			content = content || hasContent(d, m)
			in := "response"
			if d == domain.Messages {
				in = "message"
			}
			within, _ := m[in].(map[string]any)
			switch d {
			case domain.Chat:
				setModel(&s, m["model"], false)
				if m["usage"] != nil {
					usage, final, broken = asUsage(m["usage"]), true, isBroken(m["usage"])
				}
			case domain.Responses:
				terminal := k == completedKind || k == failedKind
				setModel(&s, named(m, within), terminal)
				if terminal && within["usage"] != nil {
					usage, final, broken = asUsage(within["usage"]), true, isBroken(within["usage"])
				}
			case domain.Messages:
				if k == startKind {
					setModel(&s, named(m, within), false)
					if within["usage"] != nil {
						usage, final, broken = flat(nil, asUsage(within["usage"])), false, isBroken(within["usage"])
					}
				}
				if k == deltaKind && m["usage"] != nil {
					broken = broken || isBroken(m["usage"])
					usage, final = flat(usage, asUsage(m["usage"])), true
				}
			}
		}
	} else {
		m, ok := object(string(body))
		switch {
		case len(body) == 0, !ok && json.Valid(body):
		case !ok && complete:
			s.Unknown = Malformed
			return s, false, true
		case !ok:
			s.Unknown = Aborted
			return s, false, true
		}
		final = true
		s.Failed = isError(m["error"]) || d == domain.Responses && m["status"] == "failed" ||
			d != domain.Chat && m["type"] == "error"
		setModel(&s, m["model"], false)
		if m["usage"] != nil {
			usage, broken = asUsage(m["usage"]), isBroken(m["usage"])
		}
	}
	if !broken {
		s.Cost = costIn(usage)
	}
	complete = complete || s.Ended
	switch {
	case broken && (final || s.Failed):
		s.Unknown = Malformed
	case usage != nil && (final || s.Failed):
		if t, ok := tokensIn(d, usage); ok {
			s.Tokens = t
		} else {
			s.Unknown = Malformed
		}
	case s.Failed:
	case !complete:
		s.Unknown = Aborted
	default:
		s.Unknown = Absent
	}
	return s, content, true
}

type sseEvent struct {
	name, data string
	whole      bool
}

// split splits a stream into its events.
func split(body []byte) (events []sseEvent) {
	var r sse.Reader
	var event sseEvent
	hasData := false
	end := func(whole bool) {
		if event.whole = whole; hasData {
			events = append(events, event)
		}
		event, hasData = sseEvent{}, false
	}
	for r.Feed(body); r.Next(); {
		switch {
		case r.Field == sse.End:
			end(true)
		case r.Field == sse.Name:
			event.name = string(r.Value())
		case r.Field == sse.Data && hasData:
			event.data += "\n" + string(r.Value())
		case r.Field == sse.Data:
			event.data, hasData = string(r.Value()), true
		}
	}
	end(false)
	return events
}

func object(text string) (map[string]any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var m map[string]any
	err := dec.Decode(&m)
	return m, err == nil && m != nil
}

// named returns the model of an event of a stream.
func named(event, within map[string]any) any {
	if name, ok := event["model"].(string); ok && name != "" && len(name) <= maxText {
		return name
	}
	return within["model"]
}

func setModel(s *Seen, v any, again bool) {
	if m, ok := v.(string); ok && m != "" && len(m) <= maxText && (again || s.Model == "") {
		s.Model = m
	}
}

// asUsage returns the members of a usage.
func asUsage(v any) map[string]any {
	m, _ := v.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	return m
}

func isBroken(v any) bool {
	_, ok := v.(map[string]any)
	return !ok
}

// flat returns a usage of messages, with what later says instead of what usage said.
func flat(usage, later map[string]any) map[string]any {
	m := maps.Clone(usage)
	if m == nil {
		m = map[string]any{}
	}
	for _, k := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		if later[k] != nil {
			m[k] = later[k]
		}
	}
	if details, _ := later["output_tokens_details"].(map[string]any); details["thinking_tokens"] != nil {
		m["output_tokens_details"] = details
	}
	if n, ok := later["cost"].(json.Number); ok && len(n) <= maxDigits {
		m["cost"], m["cost_details"], m["is_byok"] = n, later["cost_details"], later["is_byok"]
	}
	return m
}

func isError(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case map[string]any, []any:
		return true
	}
	return false
}

func hasContent(d domain.Dialect, m map[string]any) bool {
	text := func(m map[string]any, keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { s, _ := m[k].(string); return s != "" })
	}
	var parts func(v any) bool
	parts = func(v any) bool {
		switch v := v.(type) {
		case string:
			return v != ""
		case []any:
			return slices.ContainsFunc(v, func(e any) bool {
				p, _ := e.(map[string]any)
				return text(p, "text") || parts(p["thinking"])
			})
		}
		return false
	}
	switch d {
	case domain.Responses:
		return text(m, "delta")
	case domain.Messages:
		for _, k := range []string{"delta", "content_block"} {
			if p, ok := m[k].(map[string]any); ok && text(p, "text", "thinking", "partial_json") {
				return true
			}
		}
		return false
	}
	list, _ := m["choices"].([]any)
	for _, e := range list {
		c, _ := e.(map[string]any)
		delta, _ := c["delta"].(map[string]any)
		if text(delta, "reasoning", "reasoning_content", "refusal") || parts(delta["content"]) {
			return true
		}
		function := func(v any) bool {
			f, _ := v.(map[string]any)
			return text(f, "arguments", "input", "transcript")
		}
		if function(delta["function_call"]) || function(delta["audio"]) {
			return true
		}
		details, _ := delta["reasoning_details"].([]any)
		for _, e := range details {
			if r, _ := e.(map[string]any); text(r, "text", "summary") {
				return true
			}
		}
		calls, _ := delta["tool_calls"].([]any)
		for _, e := range calls {
			if t, _ := e.(map[string]any); function(t["function"]) || function(t["custom"]) {
				return true
			}
		}
	}
	return false
}

func tokensIn(d domain.Dialect, usage map[string]any) (t Tokens, ok bool) {
	ok = true
	read := func(needed bool, path ...string) int64 {
		var v any = usage
		for _, k := range path {
			m, _ := v.(map[string]any)
			v = m[k]
		}
		if v == nil {
			ok = ok && !needed
			return 0
		}
		n, is := v.(json.Number)
		if !is || strings.ContainsAny(string(n), "eE-") {
			ok = false
			return 0
		}
		r, is := new(big.Rat).SetString(string(n))
		if !is || !r.IsInt() || len(n) > maxText || r.Cmp(big.NewRat(maxCount, 1)) > 0 {
			ok = false
			return 0
		}
		return r.Num().Int64()
	}
	switch d {
	case domain.Chat:
		t = Tokens{
			read(true, "prompt_tokens"), read(true, "completion_tokens"),
			read(false, "prompt_tokens_details", "cached_tokens"), read(false, "prompt_tokens_details", "cache_write_tokens"),
			read(false, "completion_tokens_details", "reasoning_tokens"),
		}
	case domain.Responses:
		t = Tokens{
			read(true, "input_tokens"), read(true, "output_tokens"),
			read(false, "input_tokens_details", "cached_tokens"), read(false, "input_tokens_details", "cache_write_tokens"),
			read(false, "output_tokens_details", "reasoning_tokens"),
		}
	case domain.Messages:
		t = Tokens{
			read(true, "input_tokens"), read(true, "output_tokens"),
			read(false, "cache_read_input_tokens"), read(false, "cache_creation_input_tokens"),
			read(false, "output_tokens_details", "thinking_tokens"),
		}
		t.Input += t.CacheRead + t.CacheWrite
	}
	if !ok {
		t = Tokens{}
	}
	return t, ok
}

func costIn(usage map[string]any) string {
	read := func(v any) (decimal.Decimal, bool) {
		n, is := v.(json.Number)
		if !is || len(n) > maxDigits {
			return decimal.Decimal{}, false
		}
		c, err := decimal.NewFromString(string(n))
		return c, err == nil && !c.IsNegative() && c.Exponent() <= maxExponent && c.Exponent() >= -maxExponent
	}
	cost, ok := read(usage["cost"])
	if !ok {
		return ""
	}
	if byok, _ := usage["is_byok"].(bool); byok {
		details, _ := usage["cost_details"].(map[string]any)
		if n, is := details["upstream_inference_cost"].(json.Number); is && len(n) <= maxDigits {
			upstream, ok := read(n)
			if !ok {
				return ""
			}
			cost = cost.Add(upstream)
		}
	}
	return cost.String()
}

// hasDuplicates reports whether an object of a JSON text has two members of one name. A text that is too
// deep for the decoder counts as one that has them.
func hasDuplicates(text string) bool {
	return json.Valid([]byte(text)) && !jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true))
}
