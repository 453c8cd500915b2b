// Package problem has the errors that callers of the domain are told of, and the conditions of changes.
package problem

import (
	"cmp"
	"errors"
	"strings"
)

// Kind tells what a failure means to the caller. Each kind has its own HTTP status, which
// package caddymodule decides (specification, "Errors").
type Kind uint8

const (
	// Internal is the zero Kind. The caller cannot avoid such a failure.
	Internal Kind = iota
	// Invalid is a request that breaks a rule; Error.Issues names the places.
	Invalid
	// Unauthenticated is a request without a live key.
	Unauthenticated
	// Forbidden is a live key without the permission for the request.
	Forbidden
	// NotFound is an object that does not exist, or that the caller cannot see.
	NotFound
	// Conflict is a state that the server cannot resolve by a retry of its own.
	Conflict
	// PreconditionFailed is an object that does not meet the caller's condition.
	PreconditionFailed
	// Unprocessable is an Idempotency-Key that stands for another request.
	Unprocessable
	// Unavailable is a request that the store cannot serve now. It changed nothing.
	Unavailable
)

// Code names a cause for programs. Clients see it in errors of POST /responses.
type Code string

// The codes of an Error.
const (
	// PresetNotFound is a preset that does not exist or is not active.
	PresetNotFound Code = "preset_not_found"
	// VersionNotFound is a version or label that the preset does not have.
	VersionNotFound Code = "preset_version_not_found"
	// WorkspaceNotFound is a workspace that does not exist.
	WorkspaceNotFound Code = "workspace_not_found"
	// ToolDisabled is a server tool that the workspace has disabled.
	ToolDisabled Code = "server_tool_disabled"
	// ModelNotAllowed is a model that the key may not name.
	ModelNotAllowed Code = "model_not_allowed"
	// PolicyBroken is a request that the preset's policy refuses.
	PolicyBroken Code = "preset_policy_broken"
)

// Issue is one broken rule of a request.
type Issue struct {
	// Path is the JSON Pointer (RFC 6901) of the offending value, empty for the whole body.
	// For a header or query parameter it is the name.
	Path string `json:"path"`
	// Message says what is wrong, without repeating the value.
	Message string `json:"message"`
}

// Error is a failure that the caller is told of. Message and Issues are for the caller.
// They never hold a key, a prompt or a cause. Err is for the operator's log, and no caller
// sees it.
type Error struct {
	Kind Kind
	// Code tells causes of one Kind apart. It may be empty.
	Code    Code
	Message string
	Issues  []Issue
	Err     error
}

// Error returns the caller's message followed by the operator's cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the operator's cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of the first *Error in err's chain, and Internal
// when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// InvalidAt returns an Invalid error with one issue.
func InvalidAt(path, message string) *Error {
	return InvalidIssues(Issue{Path: path, Message: message})
}

// InvalidIssues returns an Invalid error with at least one issue. Its message names the
// place of each.
func InvalidIssues(issues ...Issue) *Error {
	texts := make([]string, len(issues))
	for i, issue := range issues {
		texts[i] = cmp.Or(issue.Path, "body") + ": " + issue.Message
	}
	return &Error{Kind: Invalid, Message: "Invalid request parameters: " + strings.Join(texts, "; "), Issues: issues}
}

// OnlyValue returns the only one of the given values of a parameter, "" if there is none. An
// empty value is Invalid, because it is most likely an unset variable. So are two. Errors have
// the name in lower case.
func OnlyValue(name string, given []string) (string, error) {
	switch {
	case len(given) == 0:
		return "", nil
	case len(given) > 1:
		return "", InvalidAt(strings.ToLower(name), "given more than once")
	case given[0] == "":
		return "", InvalidAt(strings.ToLower(name), "must not be empty")
	default:
		return given[0], nil
	}
}
