package usagetap

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/caddy-presets/caddy-presets/domain/usage"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// TestUsageAttributes checks the attributes of spans.
func TestUsageAttributes(t *testing.T) {
	used := &usage.Request{
		Preset: "writer", Version: 3, Model: "m", Streamed: true, FirstByte: 250 * time.Millisecond,
		Tokens: gatewayanswer.Tokens{Input: 5, Output: 4, CacheRead: 3, CacheWrite: 2, Reasoning: 1},
	}
	want := attribute.NewSet(
		attribute.String("gen_ai.prompt.name", "writer"), attribute.String("gen_ai.prompt.version", "3"),
		attribute.String("gen_ai.response.model", "m"), attribute.Float64("gen_ai.response.time_to_first_chunk", 0.25),
		attribute.Int64("gen_ai.usage.input_tokens", 5), attribute.Int64("gen_ai.usage.output_tokens", 4),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", 3), attribute.Int64("gen_ai.usage.cache_write.input_tokens", 2),
		attribute.Int64("gen_ai.usage.reasoning.output_tokens", 1),
	)
	if got := attribute.NewSet(AttributesOf(used)...); !got.Equals(&want) {
		t.Errorf("got %v, want %v", got.ToSlice(), want.ToSlice())
	}
	if got := AttributesOf(&usage.Request{Unknown: gatewayanswer.Absent, FirstByte: -1}); len(got) > 0 {
		t.Errorf("got %v for an answer that says nothing", got)
	}
}
