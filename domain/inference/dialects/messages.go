package dialects

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// TranslateMessages returns the messages of a dialect as another one writes them: their texts, images and
// files. dropped names the items, parts and members that it leaves out, such as "input.2" and
// "messages.0.content.1". Tool calls and their results are among them. Texts keep their bytes.
func TranslateMessages(list jsontext.Value, from, to domain.Dialect) (translated jsontext.Value, dropped []string) {
	drop := func(name string) {
		if name = HeaderName(name); !slices.Contains(dropped, name) {
			dropped = append(dropped, name)
		}
	}
	known := []string{"role", "content"}
	if from == domain.Responses {
		known = append(known, "type", "id", "status")
	}
	var messages []jsontext.Value
	for i, message := range rawjson.Items(list) {
		at, role := ConversationField[from]+"."+strconv.Itoa(i), TextOf(message, "role")
		isMessage := from != domain.Responses || slices.Contains([]string{"", "message"}, TextOf(message, "type"))
		if !isMessage || !slices.Contains([]string{"system", "developer", "user", "assistant"}, role) {
			drop(at)
			continue
		}
		for quoted, value := range rawjson.Pairs(message) {
			if name, _ := rawjson.Text(quoted); value.Kind() != 'n' && !slices.Contains(known, name) {
				drop(at + "." + name)
			}
		}
		if role == "developer" && to == domain.Messages {
			role = "system"
		}
		content := rawjson.Get(message, "content")
		if content.Kind() != '"' {
			content = translateParts(content, from, to, role == "assistant", at+".content.", drop)
		}
		if content != nil {
			messages = append(messages, rawjson.ObjectOf(rawjson.NewMember("role", rawjson.Quote(role)), rawjson.NewMember("content", content)))
		}
	}
	return rawjson.ArrayOf(messages...), dropped
}

// translateParts translates a list of parts. It returns nil if none is left. at begins their names.
func translateParts(content jsontext.Value, from, to domain.Dialect, byAssistant bool, at string, drop func(name string)) jsontext.Value {
	var parts []jsontext.Value
	for i, part := range rawjson.Items(content) {
		at := at + strconv.Itoa(i)
		read, ok := ReadPart(from, part)
		var pieces []jsontext.Value
		if ok {
			pieces, ok = read.Write(to, byAssistant)
		}
		if !ok {
			drop(at)
			continue
		}
		written := append(slices.Concat(pieces...), '}')
		switch caching := rawjson.Get(part, "cache_control"); {
		case caching == nil:
		case to == domain.Responses:
			drop(at + ".cache_control")
		default:
			written = rawjson.With(written, "cache_control", caching)
		}
		parts = append(parts, written)
	}
	if parts == nil {
		return nil
	}
	return rawjson.ArrayOf(parts...)
}
