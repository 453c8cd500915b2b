package transcript

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// addBody reads a whole answer.
func (r *Reader) addBody(body jsontext.Value) {
	switch r.dialect {
	case domain.Chat:
		r.addChoices(body, "message")
	case domain.Responses:
		r.addResponse(body)
	case domain.Messages:
		c := r.choice(0)
		for i, block := range rawjson.Items(rawjson.Get(body, "content")) {
			r.addBlock(c, i, block)
		}
		c.setFinish(rawjson.Get(body, "stop_reason"))
		r.dropEmpty()
	case domain.Images:
		for _, image := range rawjson.Items(rawjson.Get(body, "data")) {
			r.addImage(image, body)
		}
	}
}

// addEvent reads an event of a stream.
func (r *Reader) addEvent(event jsontext.Value) {
	switch r.dialect {
	case domain.Chat:
		r.addChoices(event, "delta")
	case domain.Responses:
		r.addResponseEvent(event)
	case domain.Messages:
		r.addMessagesEvent(event)
	case domain.Images:
		if kind := textIn(event, "type"); strings.HasSuffix(kind, ".completed") { // not those of parts of an image
			r.addImage(event, event)
		}
	}
}

// imageType is the type of a part with an image, whose data are kept as their size.
const imageType = "image"

// addImage reads a generated image. body tells the format of all of them.
func (r *Reader) addImage(image, body jsontext.Value) {
	var members []rawjson.Member
	for _, of := range []struct {
		from jsontext.Value
		name string
	}{{image, "b64_json"}, {image, "url"}, {image, "media_type"}, {body, "output_format"}, {image, "revised_prompt"}} {
		if value := rawjson.Get(of.from, of.name); value != nil {
			members = append(members, rawjson.NewMember(of.name, value))
		}
	}
	c := r.choice(0)
	r.addPlain(c, partKey{imageType, len(c.parts), -1}, string(rawjson.ObjectOf(members...)))
}

// dropEmpty drops a message that has nothing, as that of an error.
func (r *Reader) dropEmpty() {
	if len(r.choices) == 1 && len(r.choices[0].parts) == 0 && r.choices[0].finish == "" {
		r.choices = nil
	}
}

// addChoices reads the choices of chat completions. Their messages are in a member.
func (r *Reader) addChoices(body jsontext.Value, member string) {
	for i, of := range rawjson.Items(rawjson.Get(body, "choices")) {
		index := number(of, "index")
		if index < 0 {
			index = i
		}
		c := r.choice(index)
		r.addChatMessage(c, rawjson.Get(of, member))
		c.setFinish(rawjson.Get(of, "finish_reason"))
	}
}

func (r *Reader) addChatMessage(c *choice, m jsontext.Value) {
	reasoning := partKey{reasoningType, -1, -1}
	before := r.size
	for _, name := range []string{"reasoning_content", "reasoning"} { // some gateways have both, which are the same
		if r.size == before {
			r.addText(c, reasoning, rawjson.Get(m, name))
		}
	}
	if r.size == before {
		for _, detail := range rawjson.Items(rawjson.Get(m, "reasoning_details")) {
			r.addText(c, reasoning, rawjson.Get(detail, "text"))
			r.addText(c, reasoning, rawjson.Get(detail, "summary"))
		}
	}
	content := rawjson.Get(m, "content")
	r.addText(c, partKey{textType, -1, -1}, content)
	for _, item := range rawjson.Items(content) {
		if text := rawjson.Get(item, "text"); text != nil {
			r.addText(c, partKey{textType, -1, -1}, text)
		}
	}
	r.addText(c, partKey{refusalType, -1, -1}, rawjson.Get(m, "refusal"))
	if audio := rawjson.Get(m, "audio"); audio != nil {
		r.addText(c, partKey{textType, -1, 0}, rawjson.Get(audio, "transcript"))
	}
	for i, image := range rawjson.Items(rawjson.Get(m, "images")) {
		if index := number(image, "index"); index >= 0 {
			i = index
		}
		r.addOther(c, i, image)
	}
	if call := rawjson.Get(m, "function_call"); call != nil {
		r.addCall(c, -1, nil, rawjson.Get(call, "name"), rawjson.Get(call, "arguments"))
	}
	for i, call := range rawjson.Items(rawjson.Get(m, "tool_calls")) {
		if index := number(call, "index"); index >= 0 {
			i = index
		}
		of, arguments := rawjson.Get(call, "function"), "arguments"
		if of == nil {
			of, arguments = rawjson.Get(call, "custom"), "input"
		}
		r.addCall(c, i, rawjson.Get(call, "id"), rawjson.Get(of, "name"), rawjson.Get(of, arguments))
	}
}

// addBlock reads a block of the content of messages, or the beginning of one.
func (r *Reader) addBlock(c *choice, index int, block jsontext.Value) {
	switch kind, _ := rawjson.Text(rawjson.Get(block, "type")); kind {
	case "text":
		r.addText(c, partKey{textType, index, -1}, rawjson.Get(block, "text"))
	case "thinking":
		r.addText(c, partKey{reasoningType, index, -1}, rawjson.Get(block, "thinking"))
	case "tool_use", "server_tool_use", "mcp_tool_use":
		r.addCall(c, index, rawjson.Get(block, "id"), rawjson.Get(block, "name"), rawjson.Get(block, "input"))
	default:
		r.addOther(c, index, block)
	}
}

func (r *Reader) addMessagesEvent(event jsontext.Value) {
	index := number(event, "index")
	switch kind, _ := rawjson.Text(rawjson.Get(event, "type")); kind {
	case "content_block_start":
		r.addBlock(r.choice(0), index, rawjson.Get(event, "content_block"))
	case "content_block_delta":
		c, delta := r.choice(0), rawjson.Get(event, "delta")
		r.addText(c, partKey{textType, index, -1}, rawjson.Get(delta, "text"))
		r.addText(c, partKey{reasoningType, index, -1}, rawjson.Get(delta, "thinking"))
		if piece := rawjson.Get(delta, "partial_json"); piece != nil {
			r.addCall(c, index, nil, nil, piece)
		}
	case "message_delta":
		r.choice(0).setFinish(rawjson.At(event, "delta", "stop_reason"))
	}
}

// addResponse reads a whole response of the API of responses.
func (r *Reader) addResponse(response jsontext.Value) {
	c := r.choice(0)
	for i, item := range rawjson.Items(rawjson.Get(response, "output")) {
		r.addItem(c, i, item)
	}
	r.finishResponse(c, response)
	r.dropEmpty()
}

// finishResponse sets why a response ended.
func (r *Reader) finishResponse(c *choice, response jsontext.Value) {
	c.setFinish(rawjson.Get(response, "status"))
	c.setFinish(rawjson.At(response, "incomplete_details", "reason"))
}

// addItem reads an item of the output of a response.
func (r *Reader) addItem(c *choice, index int, item jsontext.Value) {
	switch kind, _ := rawjson.Text(rawjson.Get(item, "type")); kind {
	case "message":
		for i, of := range rawjson.Items(rawjson.Get(item, "content")) {
			r.addText(c, partKey{textType, index, i}, rawjson.Get(of, "text"))
			r.addText(c, partKey{refusalType, index, i}, rawjson.Get(of, "refusal"))
		}
	case "reasoning":
		for _, name := range []string{"summary", "content"} {
			for _, of := range rawjson.Items(rawjson.Get(item, name)) {
				r.addText(c, partKey{reasoningType, index, -1}, rawjson.Get(of, "text"))
			}
		}
	case "function_call", "custom_tool_call":
		arguments := rawjson.Get(item, "arguments")
		if arguments == nil {
			arguments = rawjson.Get(item, "input")
		}
		r.addCall(c, index, rawjson.Get(item, "call_id"), rawjson.Get(item, "name"), arguments)
	default:
		r.addOther(c, index, item)
	}
}

// hasItem reports whether something of an item of a response was read.
func (c *choice) hasItem(index int) bool {
	for _, p := range c.parts {
		if p.key.item == index && (len(p.text.text) > 0 || p.text.isLeft) {
			return true
		}
	}
	return false
}

func (r *Reader) addResponseEvent(event jsontext.Value) {
	kind, _ := rawjson.Text(rawjson.Get(event, "type"))
	name, ok := strings.CutPrefix(kind, "response.")
	if !ok {
		return
	}
	c, item, delta := r.choice(0), number(event, "output_index"), rawjson.Get(event, "delta")
	switch name {
	case "output_text.delta":
		r.addText(c, partKey{textType, item, number(event, "content_index")}, delta)
	case "refusal.delta":
		r.addText(c, partKey{refusalType, item, number(event, "content_index")}, delta)
	case "reasoning_text.delta", "reasoning_summary_text.delta":
		r.addText(c, partKey{reasoningType, item, -1}, delta)
	case "function_call_arguments.delta", "custom_tool_call_input.delta":
		r.addCall(c, item, nil, nil, delta)
	case "output_item.added", "output_item.done": // a call's id and name come with its item
		of := rawjson.Get(event, "item")
		switch kind, _ := rawjson.Text(rawjson.Get(of, "type")); {
		case kind == "function_call" || kind == "custom_tool_call":
			if r.addCall(c, item, rawjson.Get(of, "call_id"), rawjson.Get(of, "name"), nil); name == "output_item.added" {
				return
			}
			fallthrough
		case name == "output_item.done" && !c.hasItem(item):
			if !c.hasItem(item) {
				r.addItem(c, item, of)
			}
		}
	case "completed", "incomplete", "failed":
		response := rawjson.Get(event, "response")
		if len(c.parts) == 0 {
			r.addResponse(response)
			return
		}
		r.finishResponse(c, response)
	}
}
