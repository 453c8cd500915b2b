package domain

import (
	"strconv"

	"github.com/caddy-presets/caddy-presets/domain/problem"
)

// The parts of an error: see package problem.
type (
	// Kind is problem.Kind.
	Kind = problem.Kind
	// Code is problem.Code.
	Code = problem.Code
	// Issue is problem.Issue.
	Issue = problem.Issue
	// Error is problem.Error.
	Error = problem.Error
	// Condition is problem.Condition.
	Condition = problem.Condition
	// Tags are problem.Tags.
	Tags = problem.Tags
)

// The kinds of an Error.
const (
	Internal           = problem.Internal
	Invalid            = problem.Invalid
	Unauthenticated    = problem.Unauthenticated
	Forbidden          = problem.Forbidden
	NotFound           = problem.NotFound
	Conflict           = problem.Conflict
	PreconditionFailed = problem.PreconditionFailed
	Unprocessable      = problem.Unprocessable
	Unavailable        = problem.Unavailable
)

// The codes of an Error.
const (
	PresetNotFound    = problem.PresetNotFound
	VersionNotFound   = problem.VersionNotFound
	WorkspaceNotFound = problem.WorkspaceNotFound
	ToolDisabled      = problem.ToolDisabled
	ModelNotAllowed   = problem.ModelNotAllowed
	PolicyBroken      = problem.PolicyBroken
)

// KindOf is problem.KindOf.
func KindOf(err error) Kind { return problem.KindOf(err) }

// InvalidAt is problem.InvalidAt.
func InvalidAt(path, message string) *Error { return problem.InvalidAt(path, message) }

// InvalidIssues is problem.InvalidIssues.
func InvalidIssues(issues ...Issue) *Error { return problem.InvalidIssues(issues...) }

// OnlyValue is problem.OnlyValue.
func OnlyValue(name string, given []string) (string, error) { return problem.OnlyValue(name, given) }

// ParseNumber returns a number that is written in decimal digits, without a sign and without
// leading zeros. It is not ok for any other text, and for a number that no int holds.
func ParseNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}
