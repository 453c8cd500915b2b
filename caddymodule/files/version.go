package files

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// The names under which a preset's file has its request.
var requestNames = map[domain.Dialect]string{
	domain.Responses: "responses", domain.Chat: "chat", domain.Messages: "messages",
}

// promptFields are the fields with the system prompt, in the dialects that have one.
var promptFields = map[domain.Dialect]string{domain.Responses: "instructions", domain.Messages: "system"}

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
	members, _ := rawjson.Members(config) // in their order; other text has none
	var messages []jsontext.Value
	if template != nil {
		for _, message := range rawjson.Items(jsontext.Value(template.Messages)) {
			messages = append(messages, message)
		}
	}
	if dialect == domain.Chat {
		if systemPrompt != nil {
			messages = slices.Insert(messages, 0, rawjson.ObjectOf(
				rawjson.Member{Name: "role", Value: rawjson.Quote("system")}, rawjson.Member{Name: "content", Value: rawjson.Quote(*systemPrompt)}))
		}
	} else if systemPrompt != nil {
		members = append(members, rawjson.Member{Name: promptFields[dialect], Value: rawjson.Quote(*systemPrompt)})
	}
	if len(messages) > 0 {
		members = append(members, rawjson.Member{Name: inference.ConversationField(dialect), Value: rawjson.ArrayOf(messages...)})
	}
	v.Request = json.RawMessage(rawjson.ObjectOf(members...))
	return v
}
