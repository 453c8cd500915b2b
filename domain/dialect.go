package domain

// Dialect is an inference API: which field names a request uses.
type Dialect string

// The three dialects are the last part of their routes' paths.
const (
	// Responses is the dialect of POST /responses.
	Responses Dialect = "responses"
	// Chat is the dialect of POST /chat/completions.
	Chat Dialect = "chat/completions"
	// Messages is the dialect of POST /messages.
	Messages Dialect = "messages"
)

// Valid reports whether d is one of the three.
func (d Dialect) Valid() bool { return d.set() != 0 }

// dialects are a set of Dialect.
type dialects uint8

const (
	inResponses dialects = 1 << iota
	inChat
	inMessages
	inAll = inResponses | inChat | inMessages
)

func (d Dialect) set() dialects {
	switch d {
	case Responses:
		return inResponses
	case Chat:
		return inChat
	case Messages:
		return inMessages
	}
	return 0
}

// settingFields are the fields of a request that a preset keeps, each with the
// dialects that have it: what selects or shapes the model's run. Content,
// identity, transport and per-call state are not kept.
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

// presetOnly are the settings that say how a preset is used and are no fields
// of a request: they are stored and never sent.
var presetOnly = map[string]bool{"cache_enabled": true, "cache_ttl_seconds": true}
