package iolog

import (
	"cmp"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/domain/usage/transcript"
)

// detailsEvent is the name of an event that has what the attributes of its span have. Langfuse reads it, and would
// take gen_ai.prompt.name of the span for the input otherwise.
const detailsEvent = "gen_ai.client.inference.operation.details"

// broadcast puts a request that has ended into its span, by OpenTelemetry's conventions for generative AI: as
// attributes, and as an event with the same. Values are JSON in text, since the readers of spans expect that.
func (e *Entry) broadcast(span trace.Span) {
	defer e.survive()
	used := e.used
	operation, provider := "chat", "openai" // whose form the request has
	reason := "error"                       // of a message that should say why it ended
	switch used.Dialect {
	case domain.Images: // which never say it
		operation, reason = "generate_content", "stop"
	case domain.Messages:
		provider = "anthropic"
	}
	list := []attribute.KeyValue{attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.provider.name", provider)}
	for name, text := range map[string]string{"gen_ai.request.model": secrets.MaskText(used.Asked), "gen_ai.conversation.id": secrets.MaskText(e.session)} {
		if text != "" {
			list = append(list, attribute.String(name, text))
		}
	}
	add := func(name string, value any) {
		if text, err := jsonv2.Marshal(value); err == nil {
			list = append(list, attribute.String(name, string(text)))
		}
	}
	if e.request != nil {
		if body := e.sideOf(e.request).JSON(); body != nil {
			in := transcript.InputOf(used.Dialect, body)
			if len(in.System) > 0 {
				add("gen_ai.system_instructions", in.System)
			}
			add("gen_ai.input.messages", in.Messages)
			if in.Tools != nil {
				list = append(list, attribute.String("gen_ai.tool.definitions", string(in.Tools)))
			}
		}
	}
	if answer := e.closeAnswer(); len(answer.Messages) > 0 {
		messages := slices.Clone(answer.Messages)
		var reasons []string
		for i, m := range messages {
			messages[i].FinishReason = cmp.Or(m.FinishReason, reason)
			reasons = append(reasons, messages[i].FinishReason)
		}
		add("gen_ai.output.messages", messages)
		list = append(list, attribute.StringSlice("gen_ai.response.finish_reasons", reasons))
	}
	span.SetAttributes(list...)
	span.AddEvent(detailsEvent, trace.WithAttributes(list...))
}
