package problem

import "slices"

// Condition is a condition on the object's tag before a change (RFC 9110, 13.1.1 and
// 13.1.2). The zero value always holds.
type Condition struct {
	// Match is If-Match, and NoneMatch is If-None-Match. They are nil if not sent.
	Match, NoneMatch *Tags
}

// Tags are the entity tags of a condition.
type Tags struct {
	// Any is set for *, which every existing object matches.
	Any bool
	// List are tags without quotes.
	List []string
}

// errPrecondition is the answer when a Condition does not hold.
var errPrecondition = &Error{Kind: PreconditionFailed, Message: "Precondition failed: the object is not in the state that the request names"}

func (t *Tags) matches(current []string) bool {
	if t.Any {
		return len(current) > 0
	}
	return slices.ContainsFunc(current, func(tag string) bool { return slices.Contains(t.List, tag) })
}

// Check returns a PreconditionFailed error if the condition does not hold. current are the
// tags of the object, and a client may name any of them. An object that does not exist has
// none.
func (c Condition) Check(current ...string) error {
	if c.Match != nil && !c.Match.matches(current) || c.NoneMatch != nil && c.NoneMatch.matches(current) {
		return errPrecondition
	}
	return nil
}

// IsEmpty reports whether the condition always holds, so that no tag is needed.
func (c Condition) IsEmpty() bool { return c.Match == nil && c.NoneMatch == nil }
