package answer

import (
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// place is a place in an answer's JSON. A value without a place is not read.
type place struct {
	what     what
	isInner  bool     // it is in a response or message within the text
	members  []member // of an object
	elements *place   // of an array
}

// member is a member of an object. There are few, so a list is faster than a map.
type member struct {
	name string
	*place
}

// member returns the place of the member whose name is the token of a text, nil for none.
func (p *place) member(text *rawjson.Stream) *place {
	if p == nil || len(p.members) == 0 {
		return nil
	}
	name := textOf(text)
	for i := range p.members {
		if p.members[i].name == string(name) {
			return p.members[i].place
		}
	}
	return nil
}

// what says what is read at a place.
type what uint8

const (
	nothing what = iota
	inner        // response or message, which hold a usage and a model of their own
	usage
	inputDetails
	outputDetails
	costDetails
	// Those below are scalars.
	content
	kind
	status
	model
	failure
	input
	output
	cacheRead
	cacheWrite
	reasoning
	cost
	upstreamCost
	ownKey
)

type members []member

func read(w what) *place { return &place{what: w} }

func objectOf(m members) *place { return &place{members: m} }

// list returns the place of an array of objects.
func list(m members) *place { return &place{elements: objectOf(m)} }

// places are the places of each dialect's events and bodies.
var places = map[domain.Dialect]*place{
	domain.Chat:      chatPlaces(),
	domain.Responses: responsesPlaces(),
	domain.Messages:  messagesPlaces(),
}

// topPlaces are the places that every dialect has, and more.
func topPlaces(d domain.Dialect, more members) *place {
	return objectOf(append(more, members{{"model", read(model)}, {"usage", usagePlaces(d, false)}, {"error", read(failure)}}...))
}

func chatPlaces() *place {
	text := read(content)
	parts := read(content) // or an array of parts
	parts.elements = objectOf(members{{"text", text}, {"thinking", parts}})
	function := objectOf(members{{"arguments", text}, {"input", text}, {"transcript", text}})
	return topPlaces(domain.Chat, members{
		{"choices", list(members{{"delta", objectOf(members{
			{"content", parts},
			{"reasoning", text},
			{"reasoning_content", text},
			{"refusal", text},
			{"tool_calls", list(members{{"function", function}, {"custom", function}})},
			{"function_call", function},
			{"audio", function},
			{"reasoning_details", list(members{{"text", text}, {"summary", text}})},
		})}})},
	})
}

func responsesPlaces() *place {
	return topPlaces(domain.Responses, members{
		{"type", read(kind)},
		{"status", read(status)},
		{"delta", read(content)},
		{"response", innerPlaces(domain.Responses)},
	})
}

func messagesPlaces() *place {
	text := read(content)
	delta := objectOf(members{{"text", text}, {"thinking", text}, {"partial_json", text}})
	return topPlaces(domain.Messages, members{
		{"type", read(kind)},
		{"delta", delta},
		{"content_block", delta},
		{"message", innerPlaces(domain.Messages)},
	})
}

// innerPlaces are the places in a response or message of a stream's event.
func innerPlaces(d domain.Dialect) *place {
	return &place{what: inner, members: members{{"model", &place{what: model, isInner: true}}, {"usage", usagePlaces(d, true)}}}
}

func usagePlaces(d domain.Dialect, isInner bool) *place {
	at := func(w what) *place { return &place{what: w, isInner: isInner} }
	details := func(w what, m members) *place { return &place{what: w, isInner: isInner, members: m} }
	cached := details(inputDetails, members{{"cached_tokens", at(cacheRead)}, {"cache_write_tokens", at(cacheWrite)}})
	thought := details(outputDetails, members{{"reasoning_tokens", at(reasoning)}})
	m := members{{"cost", at(cost)}, {"cost_details", details(costDetails, members{{"upstream_inference_cost", at(upstreamCost)}})}, {"is_byok", at(ownKey)}}
	switch d {
	case domain.Chat:
		m = append(m, members{
			{"prompt_tokens", at(input)},
			{"prompt_tokens_details", cached},
			{"completion_tokens", at(output)},
			{"completion_tokens_details", thought},
		}...)
	case domain.Responses:
		m = append(m, members{
			{"input_tokens", at(input)}, {"input_tokens_details", cached}, {"output_tokens", at(output)}, {"output_tokens_details", thought},
		}...)
	case domain.Messages:
		m = append(m, members{
			{"input_tokens", at(input)},
			{"cache_read_input_tokens", at(cacheRead)},
			{"cache_creation_input_tokens", at(cacheWrite)},
			{"output_tokens", at(output)},
			{"output_tokens_details", details(outputDetails, members{{"thinking_tokens", at(reasoning)}})},
		}...)
	}
	return details(usage, m)
}
