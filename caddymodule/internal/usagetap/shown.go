package usagetap

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/caddy-presets/caddy-presets/domain/usage"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// Text returns the text of a placeholder for a request, empty if it is unknown.
func Text(used *usage.Request, name string) string {
	switch name {
	case "model":
		return used.Model
	case "unknown":
		return string(used.Unknown)
	case "duration_ms":
		return milliseconds(used.Duration)
	case "first_byte_ms":
		return milliseconds(used.FirstByte)
	case "first_content_ms":
		return milliseconds(used.FirstContent)
	}
	switch {
	case name == "cost" && used.HasCost:
		return used.Cost.String()
	case name == "cost_estimated" && used.HasCost:
		return strconv.FormatBool(used.Estimated)
	case used.Unknown != "":
		return ""
	}
	for _, count := range CountsOf(used.Tokens) {
		if count.Name == name {
			return strconv.FormatInt(count.Tokens, 10)
		}
	}
	return ""
}

// milliseconds returns a time as text, empty for a negative one.
func milliseconds(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// Count is one kind of tokens of an answer.
type Count struct {
	Name      string // in placeholders and metrics
	attribute string // of a span, by OpenTelemetry's conventions for generative AI
	Tokens    int64
}

// CountsOf returns all kinds of tokens of an answer, always in the same order.
func CountsOf(t gatewayanswer.Tokens) [5]Count {
	return [5]Count{
		{"input_tokens", "gen_ai.usage.input_tokens", t.Input},
		{"output_tokens", "gen_ai.usage.output_tokens", t.Output},
		{"cache_read_input_tokens", "gen_ai.usage.cache_read.input_tokens", t.CacheRead},
		{"cache_write_input_tokens", "gen_ai.usage.cache_write.input_tokens", t.CacheWrite},
		{"reasoning_output_tokens", "gen_ai.usage.reasoning.output_tokens", t.Reasoning},
	}
}

// AttributesOf returns the attributes of a span for a request.
func AttributesOf(used *usage.Request) []attribute.KeyValue {
	var list []attribute.KeyValue
	if used.Preset != "" {
		list = append(list,
			attribute.String("gen_ai.prompt.name", used.Preset),
			attribute.String("gen_ai.prompt.version", strconv.Itoa(used.Version)))
	}
	if used.Model != "" {
		list = append(list, attribute.String("gen_ai.response.model", used.Model))
	}
	if used.Unknown == "" {
		for _, count := range CountsOf(used.Tokens) {
			list = append(list, attribute.Int64(count.attribute, count.Tokens))
		}
	}
	if used.Streamed && used.FirstByte >= 0 {
		list = append(list, attribute.Float64("gen_ai.response.time_to_first_chunk", used.FirstByte.Seconds()))
	}
	return list
}
