package inference

import (
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
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

// fallbackFields are the fields with lists of models that replace another. LiteLLM has all.
var fallbackFields = []string{"fallbacks", "context_window_fallbacks", "content_policy_fallbacks"}

// mergedFields are the objects that LiteLLM makes a part of the request.
var mergedFields = []string{"extra_body", "router_settings_override"}

// modelFields are the fields that name the model. LiteLLM prefers deployment_id. For Bedrock and
// SageMaker it prefers model_id.
var modelFields = []string{"model", "deployment_id", "model_id"}

// modelListFields are the fields with lists of models, without fallbackFields.
var modelListFields = []string{"models", "analysis_models", "allowed_models"}

// ownModelFields are fields of LiteLLM with which a request brings its own deployments, or its
// own table of models that replace another.
var ownModelFields = []string{"user_config", "model_list", "context_window_fallback_dict"}

// overridingFields are fields of LiteLLM that undo a policy. The first one drops settings.
var overridingFields = append([]string{"additional_drop_params"}, ownModelFields...)

// entryFields are other fields of requests, and of LiteLLM's entries of fallbackFields.
var entryFields = []string{
	oldFormatField, "user", "metadata", "store", "stream", "stream_options", "timeout", "session_id", "safety_identifier",
	"custom_llm_provider", "api_base", "base_url", "api_key", "api_version", "num_retries", "extra_headers",
}

// isRuled reports whether a folded name is that of a field that a limit or a policy is about,
// such as the model, a setting, the tools or the prompt.
func isRuled(name string) bool {
	return settingFields[name] != 0 || toolOfField(name) != "" || mayHavePrompt(name) ||
		slices.Contains(fallbackFields, name) || slices.Contains(modelFields, name) || slices.Contains(mergedFields, name)
}

// mayBeReplaced reports whether a member of an entry of fallbackFields may be the name of a
// model. Its value is then a list of the models that replace it. LiteLLM has such entries.
func mayBeReplaced(name string) bool {
	name = foldName(name)
	return !isRuled(name) && !slices.Contains(entryFields, name)
}

// maxModels bounds the models that a request names in all places together, where they are checked.
const maxModels = 1024

// modelsIn returns how many models a name has. LiteLLM takes a list with commas.
func modelsIn(name string) int { return 1 + strings.Count(name, ",") }

// isFieldName reports whether a model has the name of a field, also without a provider in front
// of it, or in LiteLLM's list of models. Then mayBeReplaced would be wrong.
func isFieldName(model string) bool {
	for one := range strings.SplitSeq(model, ",") {
		one = strings.TrimSpace(one)
		provider, _, _ := strings.Cut(one, "/")
		if !mayBeReplaced(one) || !mayBeReplaced(strings.ReplaceAll(one, provider+"/", "")) { // as LiteLLM does
			return true
		}
	}
	return false
}

// IsKept reports whether a preset keeps a member of a dialect's requests. These are settings,
// and the field that has the system prompt.
func IsKept(dialect domain.Dialect, member string) bool {
	return settingFields[member]&setOf(dialect) != 0 || member == promptField[dialect]
}

// ConversationField returns the member of a dialect's requests that has the conversation.
// CaptureTemplate keeps it, and Capture does not.
func ConversationField(dialect domain.Dialect) string { return listField[dialect] }
