package files

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// The names under which a preset's file has its request.
var requestNames = map[domain.Dialect]string{
	domain.Responses: "responses", domain.Chat: "chat", domain.Messages: "messages",
}

// promptSeparator joins the texts of a system prompt, as inference.Capture does.
const promptSeparator = "\n\n"

// NewVersion returns the version with what a server stores. Its Request has the members of
// config in their order, then the system prompt, then the messages of the template. A
// capture of the Request is equal to the Capture, see SameCapture. An empty config stands
// for {}. config and the messages are JSON. The arguments are kept and must not change.
func NewVersion(dialect domain.Dialect, config json.RawMessage, systemPrompt *string, template *domain.Template) Version {
	config = bytes.Trim(config, " \t\r\n")
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	v := Version{Capture: domain.Capture{Dialect: dialect, Config: config, SystemPrompt: systemPrompt, Template: template}}
	request := jsontext.Value("{")
	add := func(name, value jsontext.Value) {
		if len(request) > 1 {
			request = append(request, ',')
		}
		request = append(append(append(request, name...), ':'), value...)
	}
	for name, value := range rawjson.Pairs(jsontext.Value(config)) {
		add(name, value)
	}
	prompt := systemPrompt
	var messages jsontext.Value // the elements of a list
	if template != nil {
		if list := bytes.Trim(template.Messages, " \t\r\n"); len(list) > 1 {
			messages = bytes.Trim(list[1:len(list)-1], " \t\r\n")
		}
	}
	switch dialect {
	case domain.Responses:
		if prompt != nil {
			add(rawjson.Quote("instructions"), rawjson.Quote(*prompt))
		}
		if len(messages) > 0 {
			add(rawjson.Quote("input"), list(messages))
		}
	case domain.Messages:
		if prompt != nil {
			add(rawjson.Quote("system"), rawjson.Quote(*prompt))
		}
		if len(messages) > 0 {
			add(rawjson.Quote("messages"), list(messages))
		}
	case domain.Chat:
		if prompt = withoutRepeated(prompt, messages); prompt != nil {
			system := append(append(jsontext.Value(`{"role":"system","content":`), rawjson.Quote(*prompt)...), '}')
			if len(messages) > 0 {
				system = append(append(system, ','), messages...)
			}
			messages = system
		}
		if len(messages) > 0 {
			add(rawjson.Quote("messages"), list(messages))
		}
	}
	v.Request = json.RawMessage(append(request, '}'))
	return v
}

// withoutRepeated returns the part of a chat's system prompt that the messages of its
// template do not have. A capture takes the prompt from the first messages of some unknown
// types, and keeps them in the template, too.
func withoutRepeated(prompt *string, messages jsontext.Value) *string {
	if prompt == nil || len(messages) == 0 {
		return prompt
	}
	again, err := inference.Capture(domain.Chat, []rawjson.Member{{Name: "messages", Value: list(messages)}})
	switch {
	case err != nil || again.SystemPrompt == nil:
		return prompt
	case *again.SystemPrompt == *prompt:
		return nil
	}
	if rest, ok := strings.CutSuffix(*prompt, promptSeparator+*again.SystemPrompt); ok {
		return &rest
	}
	return prompt
}

func list(elements jsontext.Value) jsontext.Value {
	return append(append(jsontext.Value{'['}, elements...), ']')
}
