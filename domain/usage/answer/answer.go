// Package answer reads what an inference answer says of its usage while the answer passes.
//
// A Reader gets the answer's bytes as the upstream sends them, in any pieces. It reads JSON
// and SSE in the dialects chat, responses, messages and images. It keeps an event, or a body, without its
// long strings until that is whole, so its memory does not grow with the texts of the answer. The
// first of several members of one name counts. Text that is not JSON says nothing.
package answer

import "time"

// Tokens are the tokens of one answer. Input includes what was read from and written to a
// cache, in every dialect. Reasoning is part of Output.
type Tokens struct{ Input, Output, CacheRead, CacheWrite, Reasoning int64 }

// Reason says why the tokens of an answer are unknown. It is empty if they are known.
type Reason string

// The reasons are a fixed set, fit for the label of a metric.
const (
	// Absent means that the answer is whole and says nothing of its usage.
	Absent Reason = "absent"
	// Aborted means that the answer ended before it said its usage.
	Aborted Reason = "aborted"
	// Malformed means that the answer or its usage breaks the format. A count is malformed
	// if it is negative, fractional, above 10^12 or not a number. So is an answer without a
	// needed count.
	Malformed Reason = "malformed"
	// TooLarge means that the decoded answer or a window of its encoding exceeds a limit.
	TooLarge Reason = "too_large"
	// Encoding means that Content-Encoding is not supported, or that the bytes break it or end
	// early. Seen then has nothing else, unless they end early.
	Encoding Reason = "encoding"
	// MediaType means that Content-Type is neither JSON nor SSE.
	MediaType Reason = "media_type"
)

// Seen has the usage of an answer.
type Seen struct {
	// Model is the model that answered, "" if the answer does not say. Of a stream whose events
	// have two names, it is the outermost: LiteLLM has its own beside the provider's.
	Model string
	// Tokens are meaningful if Unknown is empty.
	Tokens Tokens
	// Cost is the gateway's cost as decimal text without an exponent, "" if it does not say.
	// With the caller's own provider key, it includes the provider's cost.
	Cost string
	// Failed reports whether the answer has an error event, or its body is an error.
	Failed bool
	// FirstContent is when the first event with non-empty text, reasoning, refusal or tool
	// argument had passed. It is zero without one, and for answers that are not streams.
	FirstContent time.Time
	// Streamed reports whether the answer is text/event-stream.
	Streamed bool
	// Ended reports whether the last event of a stream has passed: [DONE] of a chat, the
	// completed, incomplete or failed response, message_stop, a completed image, or an error in place of these.
	Ended bool
	// Content is how many bytes of content have passed, if Reader.CountContent was called: of texts, reasoning, refusals and
	// tool arguments in the events of a stream, or in the answer's body. What cannot be read counts whole.
	Content int64
	// Told are the figures that the answer has told, the largest of each, also if Unknown is not empty, if Reader.CountContent
	// was called.
	Told Tokens
	// Cut reports whether the answer broke off before its end.
	Cut bool
	// Bare reports whether the answer's body is an error, and has no choices, output, content or data.
	Bare bool
	// Unknown is why the tokens are unknown, "" if they are known. A failed answer that
	// says no usage has known tokens: none.
	Unknown Reason
}
