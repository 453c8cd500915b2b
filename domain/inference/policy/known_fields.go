package policy

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Where a policy, a key's limits or disabled tools apply, the fields of a request must be known to its
// dialect, each in its form. The lists come from the types of the official clients, and e2e compares
// them with the installed ones.

// form is a form of values. null has every form.
type form struct {
	want string // "a string"
	fits func(value jsontext.Value) bool
}

func formOf(want, kinds string) form {
	return form{want, func(value jsontext.Value) bool { return strings.IndexByte(kinds, byte(value.Kind())) >= 0 }}
}

var (
	aString    = formOf("a string", `"`)
	aNumber    = formOf("a number", "0")
	aBoolean   = formOf("a boolean", "tf")
	aScalar    = formOf("a string, a number or a boolean", `"0tf`)
	anObject   = formOf("an object", "{")
	aModel     = form{"a string of at most " + strconv.Itoa(reference.MaxReference) + " bytes", isModelName}
	aName      = form{"the name of a model", func(value jsontext.Value) bool { return isModelName(value) && !rawjson.IsText(value, "") }}
	labels     = mapOf(16, aString)
	stringList = listOf(aString)
	items      = form{"an array of objects", func(list jsontext.Value) bool {
		return list.Kind() == '[' && areAll(list, math.MaxInt, anObject)
	}}
	effort = objectOf(map[string]form{
		"enabled": aBoolean, "max_tokens": aNumber, "effort": aString, "summary": aString, "generate_summary": aString,
		"context": aString, "mode": aString, "exclude": aBoolean,
	})
)

// maxListed bounds a list of texts, such as models.
const maxListed = 1024

// isModelName reports whether a value can be the name of a model, or a list of names with commas.
func isModelName(value jsontext.Value) bool {
	name, ok := rawjson.Head(value, reference.MaxReference)
	return ok && len(name) <= reference.MaxReference
}

// isFallback reports whether a value names a model, or is an object that does and has no settings.
func isFallback(value jsontext.Value) bool {
	if value.Kind() == '{' {
		return objectOf(map[string]form{"model": aName}).fits(value) && aName.fits(rawjson.Get(value, "model"))
	}
	return aName.fits(value)
}

// hasForm reports whether a value is null or has a form.
func hasForm(value jsontext.Value, f form) bool { return value.Kind() == 'n' || f.fits(value) }

// listOf is the form of a list of at most maxListed elements of a form.
func listOf(element form) form {
	return form{"an array of at most " + strconv.Itoa(maxListed) + ", each " + element.want, func(list jsontext.Value) bool {
		return list.Kind() == '[' && areAll(list, maxListed, element)
	}}
}

// areAll reports whether the items of a list are at most so many, and all have a form.
func areAll(list jsontext.Value, most int, element form) bool {
	for i, item := range rawjson.Items(list) {
		if i == most || !element.fits(item) {
			return false
		}
	}
	return true
}

// mapOf is the form of an object with at most so many members, whatever their names.
func mapOf(most int, element form) form {
	return form{"an object of at most " + strconv.Itoa(most) + " members, each " + element.want, func(object jsontext.Value) bool {
		count := 0
		for _, value := range rawjson.Pairs(object) {
			if count++; count > most || !hasForm(value, element) {
				return false
			}
		}
		return object.Kind() == '{'
	}}
}

// objectOf is the form of an object that has no other members than these, and each at most once.
func objectOf(members map[string]form) form {
	return form{"an object of " + strings.Join(slices.Sorted(maps.Keys(members)), ", "), func(object jsontext.Value) bool {
		var seen []string
		for m, err := range dialects.UsualNames.Object(object) {
			f, known := members[m.Name]
			if err != nil || !known || slices.Contains(seen, m.Name) || !hasForm(m.Value, f) {
				return false
			}
			seen = append(seen, m.Name)
		}
		return true
	}}
}

// either is the form of a value with one of two forms.
func either(one, other form) form {
	return form{one.want + " or " + other.want, func(value jsontext.Value) bool { return one.fits(value) || other.fits(value) }}
}

// field is the form of a field, in the dialects that have it. Those of a setting are in
// dialects.SettingFields, and in has further ones.
type field struct {
	form
	in dialects.Set
}

// knownFields are the fields of requests. Settings are those that presets keep. The others are the
// conversation, and what belongs to one call.
var knownFields = map[string]field{
	"model": {aModel, 0}, "models": {listOf(aName), 0}, "fallbacks": {listOf(form{"the name of a model, or an object with it alone", isFallback}), dialects.InAll},
	"provider":            {anObject, 0},
	"route":               {aString, 0},
	"plugins":             {items, 0},
	"tools":               {items, 0},
	"parallel_tool_calls": {aBoolean, 0},
	"tool_choice": {either(aString, objectOf(map[string]form{
		"type": aString, "name": aString, "function": anObject, "custom": anObject, "mode": aString, "tools": items,
		"allowed_tools": objectOf(map[string]form{"mode": aString, "tools": items}), "server_label": aString, dialects.SerialMember: aBoolean,
	})), 0},
	"max_tool_calls": {aNumber, 0}, "stop_server_tools_when": {items, 0},
	"temperature": {aNumber, 0}, "top_p": {aNumber, 0}, "top_k": {aNumber, 0},
	"frequency_penalty": {aNumber, 0}, "presence_penalty": {aNumber, 0}, "repetition_penalty": {aNumber, 0},
	"min_p": {aNumber, 0}, "top_a": {aNumber, 0}, "seed": {aNumber, 0},
	"logit_bias": {mapOf(1<<18, aNumber), 0}, "logprobs": {aBoolean, 0}, "top_logprobs": {aNumber, 0},
	"max_output_tokens": {aNumber, 0}, "max_tokens": {aNumber, 0}, "max_completion_tokens": {aNumber, 0},
	"stop": {either(aString, stringList), 0}, "stop_sequences": {stringList, 0},
	"reasoning": {effort, 0}, "reasoning_effort": {aString, 0}, "include_reasoning": {aBoolean, 0},
	"thinking": {objectOf(map[string]form{"type": aString, "budget_tokens": aNumber, "display": aString, "block_binding": anObject}), 0},
	"output_config": {objectOf(map[string]form{
		"effort": aString, "format": anObject, "task_budget": objectOf(map[string]form{"type": aString, "total": aNumber, "remaining": aNumber}),
	}), 0},
	"text":            {objectOf(map[string]form{"format": anObject, "verbosity": aString}), 0},
	"response_format": {anObject, 0}, "structured_outputs": {aBoolean, 0}, "verbosity": {aString, 0},
	"modalities": {stringList, 0}, "image_config": {mapOf(64, formOf("a string, a number or an array", `"0[`)), 0},
	"include": {stringList, 0}, "truncation": {aString, 0}, "speed": {aString, 0}, "service_tier": {aString, 0},
	"context_management": {either(objectOf(map[string]form{"edits": items}), items), dialects.InResponses},
	"cache_control":      {objectOf(map[string]form{"type": aString, "ttl": aString}), 0},
	"prompt_cache_options": {objectOf(map[string]form{
		"mode": aString, "ttl": aString, "comparison_response_id": aString, "prewarm": aBoolean,
	}), 0},
	"web_search_options": {objectOf(map[string]form{"search_context_size": aString, "user_location": anObject}), 0},

	"messages": {items, dialects.InChat | dialects.InMessages}, "input": {either(aString, items), dialects.InResponses},
	"instructions": {aString, dialects.InResponses}, "system": {either(aString, items), dialects.InMessages},

	"preset": {aString, dialects.InAll}, "prompt": {anObject, dialects.InAll},
	"prompt_id": {aString, dialects.InAll}, "prompt_version": {aScalar, dialects.InAll}, "prompt_variables": {anObject, dialects.InAll},

	"stream": {aBoolean, dialects.InAll}, "metadata": {labels, dialects.InAll}, "user": {aString, dialects.InAll}, "session_id": {aString, dialects.InAll},
	"trace":          {mapOf(64, aScalar), dialects.InAll},
	"stream_options": {objectOf(map[string]form{"include_usage": aBoolean, "include_obfuscation": aBoolean}), dialects.InResponses | dialects.InChat},
	"store":          {aBoolean, dialects.InResponses | dialects.InChat}, "safety_identifier": {aString, dialects.InResponses | dialects.InChat},
	"prompt_cache_key": {aString, dialects.InResponses | dialects.InChat}, "prompt_cache_retention": {aString, dialects.InResponses | dialects.InChat},
	"moderation": {objectOf(map[string]form{"model": aModel, "policy": anObject}), dialects.InResponses | dialects.InChat},
	"debug":      {objectOf(map[string]form{"echo_upstream_body": aBoolean}), dialects.InResponses | dialects.InChat},

	"usage": {objectOf(map[string]form{"include": aBoolean}), dialects.InChat}, "transforms": {stringList, dialects.InChat}, // older ones of OpenRouter
	"n": {aNumber, dialects.InChat}, "audio": {objectOf(map[string]form{"format": aString, "voice": either(aString, objectOf(map[string]form{"id": aString}))}), dialects.InChat},
	"prediction": {objectOf(map[string]form{"type": aString, "content": either(aString, items)}), dialects.InChat},
	"functions":  {items, dialects.InChat}, "function_call": {either(aString, objectOf(map[string]form{"name": aString})), dialects.InChat},

	"access_programs": {objectOf(map[string]form{"cyber": aString}), dialects.InResponses}, "background": {aBoolean, dialects.InResponses},
	"client_metadata":      {mapOf(64, aString), dialects.InResponses}, // of Codex
	"conversation":         {either(aString, objectOf(map[string]form{"id": aString})), dialects.InResponses},
	"image":                {objectOf(map[string]form{"context_compression": aString}), dialects.InResponses},
	"multi_agent":          {objectOf(map[string]form{"enabled": aBoolean, "max_concurrent_subagents": aNumber}), dialects.InResponses},
	"personality":          {aString, dialects.InResponses},
	"previous_response_id": {aString, dialects.InResponses},

	"billing_policy": {objectOf(map[string]form{"type": aString, "bill_to": aString}), dialects.InMessages},
	"compaction":     {objectOf(map[string]form{"type": aString, "instructions": aString}), dialects.InMessages},
	"container": {either(aString, objectOf(map[string]form{
		"id": aString, "skills": listOf(objectOf(map[string]form{"type": aString, "skill_id": aString, "version": aString})),
	})), dialects.InMessages},
	"diagnostics":           {objectOf(map[string]form{"previous_message_id": aString}), dialects.InMessages},
	"fallback_credit_token": {either(aString, objectOf(map[string]form{"token": aString, "mode": aString})), dialects.InMessages},
	"inference_geo":         {aString, dialects.InMessages},
	"mcp_servers":           {items, dialects.InMessages}, oldFormatField: {anObject, dialects.InMessages},
	"safeguards": {items, dialects.InMessages},
	"thread":     {objectOf(map[string]form{"type": aString, "previous_message_id": aString}), dialects.InMessages},
}

// isKnown reports whether requests of a dialect have a field of a name.
func isKnown(dialect domain.Dialect, name string) bool {
	return (dialects.SettingFields[name]|knownFields[name].in)&dialects.SetOf(dialect) != 0 && !dialects.PresetOnly[name]
}

// KnownFields returns the names of the fields that requests of a dialect may have where a policy, a
// key's limits or disabled tools apply, sorted.
func KnownFields(dialect domain.Dialect) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(knownFields)), func(name string) bool { return !isKnown(dialect, name) })
}
