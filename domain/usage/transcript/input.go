package transcript

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Input is a request as OpenTelemetry's conventions for generative AI have it.
type Input struct {
	// System has the instructions that are apart from the conversation. Those in it are Messages.
	System   []Part
	Messages []Message
	// Tools is an array of tools, each with its type and name, nil for none.
	Tools jsontext.Value
}

// toolResponseType is the type of a part with a tool's result.
const toolResponseType = "tool_call_response"

// InputOf reads a request in dialect d. body is JSON, as a Side has it, and its texts are not copied before.
func InputOf(d domain.Dialect, body jsontext.Value) (in Input) {
	in.Tools = toolsOf(rawjson.Get(body, "tools"))
	conversation := rawjson.Get(body, "messages")
	switch d {
	case domain.Responses:
		in.System = partsOf(rawjson.Get(body, "instructions"))
		conversation = rawjson.Get(body, "input")
		if conversation.Kind() == '"' {
			in.Messages = []Message{{Role: "user", Parts: partsOf(conversation)}}
		}
	case domain.Messages:
		in.System = partsOf(rawjson.Get(body, "system"))
	case domain.Images:
		in.Messages = []Message{{Role: "user", Parts: append(partsOf(rawjson.Get(body, "prompt")), partsOf(rawjson.Get(body, "input_references"))...)}}
	}
	for _, item := range rawjson.Items(conversation) {
		in.Messages = append(in.Messages, messageOf(item))
	}
	return in
}

// toolsOf returns the tools of a request. The APIs have the name of a tool in it, or in a member that is called as
// its type. A tool of a server may have no other name than its type.
func toolsOf(tools jsontext.Value) jsontext.Value {
	var list []jsontext.Value
	for _, tool := range rawjson.Items(tools) {
		kind := textIn(tool, "type")
		if inner := rawjson.Get(tool, kind); kind != "" && inner.Kind() == '{' {
			tool = inner
		}
		if kind == "" {
			kind = "function"
		}
		name := textIn(tool, "name")
		if name == "" {
			name = kind
		}
		members := []rawjson.Member{rawjson.NewMember("type", rawjson.Quote(kind)), rawjson.NewMember("name", rawjson.Quote(name))}
		for quoted, value := range rawjson.Pairs(tool) {
			switch name, _ := rawjson.Text(quoted); name {
			case "type", "name":
			case "input_schema":
				members = append(members, rawjson.NewMember("parameters", value))
			default:
				members = append(members, rawjson.NewMember(name, value))
			}
		}
		list = append(list, rawjson.ObjectOf(members...))
	}
	if list == nil {
		return nil
	}
	return rawjson.ArrayOf(list...)
}

// textIn returns a member that is a text, "" for none.
func textIn(object jsontext.Value, name string) string {
	text, _ := rawjson.Text(rawjson.Get(object, name))
	return text
}

// messageOf reads a message, or an item of the input of responses.
func messageOf(item jsontext.Value) Message {
	m := Message{Role: textIn(item, "role"), Parts: []Part{}}
	switch kind := textIn(item, "type"); {
	case kind == "function_call" || kind == "custom_tool_call":
		m.Role, m.Parts = "assistant", append(m.Parts, callOf(textIn(item, "call_id"), item))
		return m
	case kind == "function_call_output" || kind == "custom_tool_call_output":
		m.Role, m.Parts = "tool", append(m.Parts, responseOf(textIn(item, "call_id"), rawjson.Get(item, "output")))
		return m
	case kind != "" && kind != "message":
		m.Role, m.Parts = "assistant", append(m.Parts, otherPart(kind, item))
		return m
	}
	content := rawjson.Get(item, "content")
	if m.Role == "tool" || m.Role == "function" {
		m.Role, m.Parts = "tool", append(m.Parts, responseOf(textIn(item, "tool_call_id"), content))
		return m
	}
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if text := textIn(item, name); text != "" && len(m.Parts) == 0 {
			m.Parts = append(m.Parts, Part{Type: reasoningType, Content: text})
		}
	}
	m.Parts = append(m.Parts, partsOf(content)...)
	for _, call := range rawjson.Items(rawjson.Get(item, "tool_calls")) {
		of := rawjson.Get(call, "function")
		if of == nil {
			of = rawjson.Get(call, "custom")
		}
		m.Parts = append(m.Parts, callOf(textIn(call, "id"), of))
	}
	return m
}

// callOf reads a call of a tool from the object that has its name.
func callOf(id string, of jsontext.Value) Part {
	p := Part{Type: toolType, ID: id, Name: textIn(of, "name")}
	for _, name := range []string{"arguments", "input"} {
		value := rawjson.Get(of, name)
		if p.Arguments != nil || value == nil {
			continue
		}
		p.Arguments = value
		if text, ok := rawjson.Text(value); ok && rawjson.Check([]byte(text)) == nil {
			p.Arguments = jsontext.Value(text)
		}
	}
	return p
}

// responseOf returns what a tool returned, null for nothing.
func responseOf(id string, result jsontext.Value) Part {
	if result == nil {
		result = jsontext.Value("null")
	}
	return Part{Type: toolResponseType, ID: id, Response: result}
}

// partsOf reads the content of a message: a text, or an array of parts.
func partsOf(content jsontext.Value) []Part {
	parts := []Part{}
	add := func(kind, text string) {
		if text != "" { // a part without a text would lack its content
			parts = append(parts, Part{Type: kind, Content: text})
		}
	}
	text, _ := rawjson.Text(content)
	add(textType, text)
	for _, item := range rawjson.Items(content) {
		switch kind := textIn(item, "type"); kind {
		case "text", "input_text", "output_text":
			add(textType, textIn(item, "text"))
		case "thinking":
			add(reasoningType, textIn(item, "thinking"))
		case "refusal":
			add(refusalType, textIn(item, "refusal"))
		case "tool_use":
			parts = append(parts, callOf(textIn(item, "id"), item))
		case "tool_result":
			parts = append(parts, responseOf(textIn(item, "tool_use_id"), rawjson.Get(item, "content")))
		default:
			parts = append(parts, otherPart(kind, item))
		}
	}
	return parts
}

// otherPart keeps something that only the request's API has, such as an image.
func otherPart(kind string, item jsontext.Value) Part {
	if kind == "" {
		kind = "unknown"
	}
	return Part{Type: kind, Content: string(item)}
}
