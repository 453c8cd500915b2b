// Package answer reads what an answer of a model says of its usage.
package answer

// Tokens are the tokens of one answer. Input includes what was read from and written to a
// cache, in every dialect. Reasoning is part of Output.
type Tokens struct{ Input, Output, CacheRead, CacheWrite, Reasoning int64 }

// Reason says why the tokens of an answer are unknown. It is empty if they are known.
type Reason string
