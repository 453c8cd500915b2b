package domain

import (
	"errors"
	"strings"
)

// Kind tells what a failure means to the caller. The HTTP status of each kind
// is decided in one place, where answers are rendered (specification,
// "Errors").
type Kind uint8

const (
	// Internal is the zero Kind: a failure the caller can do nothing about.
	Internal Kind = iota
	// Invalid is a request that breaks a rule; Error.Issues names the places.
	Invalid
	// Unauthenticated is a request without a live key.
	Unauthenticated
	// Forbidden is a live key that does not carry the permission asked for.
	Forbidden
	// NotFound is an object that does not exist in the caller's reach.
	NotFound
	// Conflict is a state that trying again inside the server cannot resolve.
	Conflict
	// PreconditionFailed is an object in another state than the caller's
	// condition asks for.
	PreconditionFailed
	// Unprocessable is an Idempotency-Key that stands for another request.
	Unprocessable
	// Unavailable is a request that changed nothing because the store cannot do
	// what it asks for at the moment.
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
)

// Issue is one broken rule of a request.
type Issue struct {
	// Path is the JSON Pointer (RFC 6901) of the offending value, empty for
	// the body as a whole, or the name of a header or query parameter.
	Path string `json:"path"`
	// Message says what is wrong, without repeating the value.
	Message string `json:"message"`
}

// Error is a failure with a meaning. Message and Issues are for the caller and
// never hold a key, a prompt or a cause; Err is for the operator's log and
// never reaches a caller.
type Error struct {
	Kind Kind
	// Code tells causes of one Kind apart for programs: one of the constants below,
	// empty where the Kind says it all.
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

// InvalidIssues returns an Invalid error whose message names the place of each
// of issues, of which there is at least one.
func InvalidIssues(issues ...Issue) *Error {
	var message strings.Builder
	message.WriteString("Invalid request parameters")
	separator := ": "
	for _, issue := range issues {
		place := issue.Path
		if place == "" {
			place = "body"
		}
		message.WriteString(separator + place + ": " + issue.Message)
		separator = "; "
	}
	return &Error{Kind: Invalid, Message: message.String(), Issues: issues}
}
