package answer

import "github.com/caddy-presets/caddy-presets/domain"

// node is a place in an answer's JSON. A value at skip is not read.
type node uint8

const (
	skip node = iota
	top
	inner // response or message, which hold a usage and a model of their own
	usage
	inputDetails
	outputDetails
	costDetails
	choices
	choice
	delta
	contentParts
	contentPart
	reasoningDetails
	reasoningDetail
	toolCalls
	toolCall
	toolFunction
	// The nodes below are scalars that are read.
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

	// within marks a node inside of inner.
	within node = 0x80
)

// child returns the member named key of the object n.
func (n node) child(d domain.Dialect, key []byte) node {
	switch n &^ within {
	case top:
		return topMember(d, key)
	case inner:
		switch string(key) {
		case "usage":
			return usage | within
		case "model":
			return model | within
		}
	case usage:
		if m := usageMember(d, key); m != skip {
			return m | n&within
		}
	case inputDetails:
		switch string(key) {
		case "cached_tokens":
			return cacheRead | n&within
		case "cache_write_tokens":
			return cacheWrite | n&within
		}
	case outputDetails:
		if d == domain.Messages && string(key) == "thinking_tokens" || d != domain.Messages && string(key) == "reasoning_tokens" {
			return reasoning | n&within
		}
	case costDetails:
		if string(key) == "upstream_inference_cost" {
			return upstreamCost | n&within
		}
	default:
		return n.contentMember(d, key)
	}
	return skip
}

func topMember(d domain.Dialect, key []byte) node {
	switch string(key) {
	case "model":
		return model
	case "usage":
		return usage
	case "error":
		return failure
	}
	switch d {
	case domain.Chat:
		if string(key) == "choices" {
			return choices
		}
	case domain.Responses:
		switch string(key) {
		case "type":
			return kind
		case "delta":
			return content
		case "response":
			return inner
		case "status":
			return status
		}
	case domain.Messages:
		switch string(key) {
		case "type":
			return kind
		case "delta", "content_block":
			return delta
		case "message":
			return inner
		}
	}
	return skip
}

func usageMember(d domain.Dialect, key []byte) node {
	switch string(key) {
	case "cost":
		return cost
	case "cost_details":
		return costDetails
	case "is_byok":
		return ownKey
	}
	if d == domain.Chat {
		switch string(key) {
		case "prompt_tokens":
			return input
		case "completion_tokens":
			return output
		case "prompt_tokens_details":
			return inputDetails
		case "completion_tokens_details":
			return outputDetails
		}
		return skip
	}
	switch string(key) {
	case "input_tokens":
		return input
	case "output_tokens":
		return output
	case "output_tokens_details":
		return outputDetails
	}
	switch {
	case d == domain.Responses && string(key) == "input_tokens_details":
		return inputDetails
	case d == domain.Messages && string(key) == "cache_read_input_tokens":
		return cacheRead
	case d == domain.Messages && string(key) == "cache_creation_input_tokens":
		return cacheWrite
	}
	return skip
}

// contentMember knows the places of text, reasoning, refusals and tool arguments.
func (n node) contentMember(d domain.Dialect, key []byte) node {
	switch n {
	case choice:
		if string(key) == "delta" {
			return delta
		}
	case delta:
		if d == domain.Messages {
			switch string(key) {
			case "text", "thinking", "partial_json":
				return content
			}
			return skip
		}
		switch string(key) {
		case "content":
			return contentParts
		case "reasoning", "reasoning_content", "refusal":
			return content
		case "tool_calls":
			return toolCalls
		case "function_call", "audio":
			return toolFunction
		case "reasoning_details":
			return reasoningDetails
		}
	case contentPart:
		switch string(key) {
		case "text":
			return content
		case "thinking":
			return contentParts
		}
	case reasoningDetail:
		switch string(key) {
		case "text", "summary":
			return content
		}
	case toolCall:
		switch string(key) {
		case "function", "custom":
			return toolFunction
		}
	case toolFunction:
		switch string(key) {
		case "arguments", "input", "transcript":
			return content
		}
	}
	return skip
}

// element returns the node of each element of the array n.
func (n node) element() node {
	switch n {
	case choices:
		return choice
	case contentParts:
		return contentPart
	case reasoningDetails:
		return reasoningDetail
	case toolCalls:
		return toolCall
	}
	return skip
}

// isText reports whether the text at n matters, not only whether there is one.
func (n node) isText() bool {
	switch n &^ within {
	case kind, status, model:
		return true
	}
	return false
}
