package inference

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// dialects are a set of domain.Dialect.
type dialects uint8

const (
	inResponses dialects = 1 << iota
	inChat
	inMessages
	inAll = inResponses | inChat | inMessages
)

// setOf returns the set of one dialect, empty for one that there is not.
func setOf(d domain.Dialect) dialects {
	switch d {
	case domain.Responses:
		return inResponses
	case domain.Chat:
		return inChat
	case domain.Messages:
		return inMessages
	}
	return 0
}

// settingFields are the fields of a request that a preset keeps, each with the dialects
// that have it. They select or shape the model's run. Content, identity, transport and
// per-call state are not kept.
var settingFields = map[string]dialects{
	"model": inAll, "models": inAll, "fallbacks": inMessages,
	"provider": inAll, "route": inAll, "plugins": inAll,
	"tools": inAll, "tool_choice": inAll, "parallel_tool_calls": inResponses | inChat,
	"max_tool_calls": inResponses, "stop_server_tools_when": inAll,
	"temperature": inAll, "top_p": inAll, "top_k": inAll,
	"frequency_penalty": inResponses | inChat, "presence_penalty": inResponses | inChat,
	"min_p": inChat, "top_a": inChat, "repetition_penalty": inChat, "seed": inChat,
	"logit_bias": inChat, "logprobs": inChat, "top_logprobs": inResponses | inChat,
	"max_output_tokens": inResponses, "max_tokens": inChat | inMessages, "max_completion_tokens": inChat,
	"stop": inChat, "stop_sequences": inMessages,
	"reasoning": inResponses | inChat, "reasoning_effort": inChat,
	"thinking": inMessages, "output_config": inMessages,
	"text": inResponses, "response_format": inChat, "verbosity": inChat,
	"modalities": inResponses | inChat, "image_config": inResponses | inChat,
	"include": inResponses, "truncation": inResponses,
	"context_management": inMessages, "speed": inMessages,
	"service_tier": inAll, "cache_control": inAll, "prompt_cache_options": inResponses | inChat,
	"web_search_options": inChat, "structured_outputs": inChat, "include_reasoning": inChat,
	"cache_enabled": inAll, "cache_ttl_seconds": inAll,
}

// presetOnly are the settings that say how a preset is used. They are stored and never
// sent, since they are no fields of a request.
var presetOnly = map[string]bool{"cache_enabled": true, "cache_ttl_seconds": true}

// IsKept reports whether a preset keeps a member of a dialect's requests. These are settings,
// and the field that has the system prompt.
func IsKept(dialect domain.Dialect, member string) bool {
	return settingFields[member]&setOf(dialect) != 0 || member == promptField[dialect]
}

// ConversationField returns the member of a dialect's requests that has the conversation.
// CaptureTemplate keeps it, and Capture does not.
func ConversationField(dialect domain.Dialect) string { return listField[dialect] }

// listField is the field of each dialect that has the conversation.
var listField = map[domain.Dialect]string{domain.Responses: "input", domain.Chat: "messages", domain.Messages: "messages"}

// isSystemMessage reports whether an item of a conversation is a message of the system or
// of the developer. In a chat every item is a message.
func isSystemMessage(dialect domain.Dialect, message jsontext.Value) bool {
	if role := rawjson.Get(message, "role"); !rawjson.IsText(role, "system") && !rawjson.IsText(role, "developer") {
		return false
	}
	kind := rawjson.Get(message, "type")
	return dialect == domain.Chat || kind == nil || rawjson.IsText(kind, "message")
}

const userMessageHead = `{"role":"user","content":`

// promptField is the field of each dialect that takes a system prompt.
var promptField = map[domain.Dialect]string{domain.Responses: "instructions", domain.Chat: "messages", domain.Messages: "system"}

// synonyms are pairs of fields of a dialect with the same meaning. A request with one of
// them overrides the other of the preset.
var synonyms = map[domain.Dialect]map[string]string{
	domain.Chat: {
		"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens",
		"reasoning": "reasoning_effort", "reasoning_effort": "reasoning",
	},
	domain.Messages: {"models": "fallbacks", "fallbacks": "models"},
}

// toolUseFields are the settings of tool use.
var toolUseFields = []string{"tool_choice", "parallel_tool_calls"}
