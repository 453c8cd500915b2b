package answer

import (
	"maps"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// eventKind is the meaning of an event's type.
type eventKind uint8

const (
	noKind eventKind = iota
	otherKind
	completedKind // response.completed, response.incomplete and image_generation.completed
	failedKind    // response.failed
	errorKind
	startKind // message_start
	deltaKind // message_delta
	stopKind  // message_stop
)

func kindOf(name []byte) eventKind {
	switch string(name) {
	case "":
		return noKind
	case "response.completed", "response.incomplete", "image_generation.completed":
		return completedKind
	case "response.failed":
		return failedKind
	case "error":
		return errorKind
	case "message_start":
		return startKind
	case "message_delta":
		return deltaKind
	case "message_stop":
		return stopKind
	}
	return otherKind
}

// kindNamed returns the kind of a type within an event or a body, noKind for nil.
func kindNamed(name jsontext.Value) eventKind {
	inside, _ := rawjson.Inside(name)
	return kindOf(inside)
}

// endsStream reports whether an event of this kind is the last of a dialect's stream.
func endsStream(d domain.Dialect, k eventKind) bool {
	switch d {
	case domain.Responses:
		return k == completedKind || k == failedKind || k == errorKind
	case domain.Messages:
		return k == stopKind || k == errorKind
	case domain.Images:
		return k == completedKind || k == errorKind
	}
	return false
}

// isError reports whether the error of an event or a body is neither missing, false nor empty.
func isError(value jsontext.Value) bool {
	switch value.Kind() {
	case 't', '{', '[':
		return true
	case '"':
		return len(value) > len(`""`)
	}
	return false
}

// contentNames are the members with content in any dialect's events, and those that lead to them.
var contentNames = rawjson.NewNames(
	"choices", "delta", "content", "content_block", "text", "thinking", "partial_json", "refusal", "reasoning", "reasoning_content",
	"reasoning_details", "summary", "tool_calls", "function_call", "function", "custom", "arguments", "input", "audio", "transcript",
)

// bodyNames are contentNames, and those of a body that is no stream.
var bodyNames = func() rawjson.Names {
	names := rawjson.NewNames("message", "output")
	maps.Copy(names, contentNames)
	return names
}()

// maxContentDepth is more than the depth of any content.
const maxContentDepth = 12

// contentSize returns how many bytes of text, reasoning, refusals and tool arguments are in the members of some names, as written.
func contentSize(part jsontext.Value, names rawjson.Names, depth int) (size int) {
	if depth == 0 {
		return 0
	}
	for _, item := range rawjson.Items(part) {
		size += contentSize(item, names, depth-1)
	}
	for name, value := range rawjson.Pairs(part) {
		if len(name) > len(`""`) && names[string(name[1:len(name)-1])] != "" { // a body may be cut
			size += contentSize(value, names, depth-1)
		}
	}
	return size + rawjson.SizeOf(part)
}
