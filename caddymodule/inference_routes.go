package caddymodule

import (
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/domain"
)

// inferenceRoute is a route on which presets are resolved.
type inferenceRoute struct {
	path     string // below the base path
	name     string // in metrics and placeholders
	dialect  domain.Dialect
	envelope func(envelope.Problem) any // of errors
	// takes is inference.Request.Takes.
	takes []string
	// counts tells that the route only counts tokens, and no model generates.
	counts bool
}

// inferenceRoutes are all of them. Clients budget a prompt with the routes that count
// tokens, and shorten a conversation with responses/compact, so presets are resolved there, too.
// Those routes take fewer fields, and gateways refuse all others. takes lists the settings that
// Anthropic's and OpenAI's clients can send there, and that Codex sends to responses/compact. Of the routes for
// images, one is OpenAI's and one is OpenRouter's, and each takes what its clients have types for.
var inferenceRoutes = []inferenceRoute{
	{"chat/completions", "inference_chat", domain.Chat, envelope.NewAPI, nil, false},
	{"responses", "inference_responses", domain.Responses, envelope.NewResponses, nil, false},
	{"responses/compact", "inference_responses_compact", domain.Responses, envelope.NewResponses, []string{
		"tools", "parallel_tool_calls", "reasoning", "text", "service_tier", "prompt_cache_options",
	}, false},
	{"responses/input_tokens", "inference_responses_count", domain.Responses, envelope.NewResponses, []string{
		"tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation",
	}, true},
	{"messages", "inference_messages", domain.Messages, envelope.NewMessages, nil, false},
	{"messages/count_tokens", "inference_messages_count", domain.Messages, envelope.NewMessages, []string{
		"tools", "tool_choice", "thinking", "output_config", "context_management", "speed", "cache_control",
	}, true},
	{"images/generations", "inference_images_generations", domain.Images, envelope.NewAPI, []string{
		"background", "complexity", "frame_count", "frame_duration_ms", "moderation", "n", "output_compression", "output_format",
		"partial_images", "quality", "response_format", "size", "style",
	}, false},
	{"images", "inference_images", domain.Images, envelope.NewAPI, []string{
		"aspect_ratio", "background", "n", "output_compression", "output_format", "provider", "quality", "resolution", "seed", "size",
	}, false},
}

// otherRoute labels refusals on the routes on which no preset is resolved.
const otherRoute = "inference_other"

// inferenceRouteOf returns the route of a path below the base path, or nil.
func inferenceRouteOf(path string) *inferenceRoute {
	for i := range inferenceRoutes {
		if inferenceRoutes[i].path == path {
			return &inferenceRoutes[i]
		}
	}
	return nil
}

// routesWithPresets names the routes on which presets are resolved.
func (h *Handler) routesWithPresets() string {
	var paths []string
	for _, route := range inferenceRoutes {
		paths = append(paths, h.BasePath+"/"+route.path)
	}
	last := len(paths) - 1
	return strings.Join(paths[:last], ", ") + " and " + paths[last]
}

// envelopeOf returns the error envelope that clients of a route expect. path is below
// the base path.
func envelopeOf(path string) func(envelope.Problem) any {
	resource, _, _ := strings.Cut(path, "/")
	for _, route := range inferenceRoutes {
		if route.path == resource {
			return route.envelope
		}
	}
	return envelope.NewAPI
}
