// Package dialects has what the three APIs call the fields, settings and messages of a request, and
// translates settings and messages from one API to another.
package dialects

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Set is a set of dialects.
type Set uint8

// The sets of one dialect each, and of all.
const (
	InResponses Set = 1 << iota
	InChat
	InMessages
	InAll = InResponses | InChat | InMessages
)

// SetOf returns the set of one dialect, empty for one that there is not.
func SetOf(d domain.Dialect) Set {
	switch d {
	case domain.Responses:
		return InResponses
	case domain.Chat:
		return InChat
	case domain.Messages:
		return InMessages
	}
	return 0
}

// SettingFields are the fields of a request that a preset keeps, each with the dialects
// that have it. They select or shape the model's run. Content, identity, transport and
// per-call state are not kept.
var SettingFields = map[string]Set{
	"model": InAll, "models": InAll, "fallbacks": InMessages,
	"provider": InAll, "route": InAll, "plugins": InAll,
	"tools": InAll, "tool_choice": InAll, "parallel_tool_calls": InResponses | InChat,
	"max_tool_calls": InResponses, "stop_server_tools_when": InAll,
	"temperature": InAll, "top_p": InAll, "top_k": InAll,
	"frequency_penalty": InResponses | InChat, "presence_penalty": InResponses | InChat,
	"min_p": InChat, "top_a": InChat, "repetition_penalty": InChat, "seed": InChat,
	"logit_bias": InChat, "logprobs": InChat, "top_logprobs": InResponses | InChat,
	"max_output_tokens": InResponses, "max_tokens": InChat | InMessages, "max_completion_tokens": InChat,
	"stop": InChat, "stop_sequences": InMessages,
	"reasoning": InResponses | InChat, "reasoning_effort": InChat,
	"thinking": InMessages, "output_config": InMessages,
	"text": InResponses, "response_format": InChat, "verbosity": InChat,
	"modalities": InResponses | InChat, "image_config": InResponses | InChat,
	"include": InResponses, "truncation": InResponses,
	"context_management": InMessages, "speed": InMessages,
	"service_tier": InAll, "cache_control": InAll, "prompt_cache_options": InResponses | InChat,
	"web_search_options": InChat, "structured_outputs": InChat, "include_reasoning": InChat,
	"cache_enabled": InAll, "cache_ttl_seconds": InAll,
}

// PresetOnly are the settings that say how a preset is used. They are stored and never
// sent, since they are no fields of a request.
var PresetOnly = map[string]bool{"cache_enabled": true, "cache_ttl_seconds": true}

// ConversationField is the field of each dialect that has the conversation.
var ConversationField = map[domain.Dialect]string{domain.Responses: "input", domain.Chat: "messages", domain.Messages: "messages"}

// IsSystemMessage reports whether an item of a conversation is a message of the system or
// of the developer. In a chat every item is a message.
func IsSystemMessage(dialect domain.Dialect, message jsontext.Value) bool {
	if role := rawjson.Get(message, "role"); !rawjson.IsText(role, "system") && !rawjson.IsText(role, "developer") {
		return false
	}
	kind := rawjson.Get(message, "type")
	return dialect == domain.Chat || kind == nil || rawjson.IsText(kind, "message")
}

// UserMessageHead begins a message of the user, before its content.
const UserMessageHead = `{"role":"user","content":`

// PromptField is the field of each dialect that takes a system prompt.
var PromptField = map[domain.Dialect]string{domain.Responses: "instructions", domain.Chat: "messages", domain.Messages: "system"}

// Synonyms are pairs of fields of a dialect with the same meaning. A request with one of
// them overrides the other of the preset.
var Synonyms = map[domain.Dialect]map[string]string{
	domain.Chat: {
		"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens",
		"reasoning": "reasoning_effort", "reasoning_effort": "reasoning",
	},
	domain.Messages: {"models": "fallbacks", "fallbacks": "models"},
}

// ToolUseFields are the settings of tool use.
var ToolUseFields = []string{"tool_choice", "parallel_tool_calls"}

// HasSetting reports whether requests of a dialect have a setting of a name, which presets keep.
func HasSetting(dialect domain.Dialect, name string) bool {
	return SettingFields[name]&SetOf(dialect) != 0
}
