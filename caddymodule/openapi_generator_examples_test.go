package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
)

// openAPIExamples is the file of the examples that are written by hand.
var openAPIExamples = filepath.Join("openapi", "examples.yaml")

// readExamples returns the examples of requests, by operation, and of responses, by component.
func readExamples() (requests, responses *yaml.Node, err error) {
	root, err := readNode(openAPIExamples)
	if err != nil {
		return nil, nil, err
	}
	root = withoutAliases(root)
	return memberNode(root, "requests"), memberNode(root, "responses"), nil
}

// withoutAliases returns a copy of n that has what its aliases stand for.
func withoutAliases(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return withoutAliases(n.Alias)
	}
	c := *n
	c.Anchor, c.Content = "", make([]*yaml.Node, len(n.Content))
	for i, part := range n.Content {
		c.Content[i] = withoutAliases(part)
	}
	return &c
}

// addExample adds an example to the content of a body, which is of JSON if it may be of several
// media types.
func addExample(content, example *yaml.Node) {
	media := memberNode(content, "application/json")
	if media == nil {
		media = content.Content[1]
	}
	restyle(example)
	putNode(media, "example", example)
}

// refused are errors as the examples have them, by their status.
var refused = map[int]error{
	http.StatusBadRequest:            domain.InvalidAt("/temperature", "must be a number"),
	http.StatusUnauthorized:          &status.Error{Message: "Missing Authentication header"},
	http.StatusForbidden:             &status.Error{Message: "Only management keys can perform this operation"},
	http.StatusNotFound:              &domain.Error{Message: "Preset not found", Code: domain.PresetNotFound},
	http.StatusMethodNotAllowed:      errMethodNotAllowed,
	http.StatusRequestTimeout:        &status.Error{Message: "The request body took too long to arrive"},
	http.StatusConflict:              &status.Error{Message: "Preset is archived: restore it first"},
	http.StatusPreconditionFailed:    &status.Error{Message: "Precondition failed: the object is not in the state that the request names"},
	http.StatusRequestEntityTooLarge: heldbody.ErrTooLarge,
	http.StatusUnsupportedMediaType:  &status.Error{Message: "Unsupported media type: send application/json without a content encoding"},
	http.StatusUnprocessableEntity:   &status.Error{Message: "Idempotency-Key was already used for another request"},
	http.StatusTooManyRequests:       limiter.Refusal(time.Minute),
	http.StatusInternalServerError:   &status.Error{Message: "Internal Server Error"},
	http.StatusServiceUnavailable:    &status.Error{Message: "Service temporarily unavailable"},
	http.StatusBadGateway:            status.OfGateway(http.StatusBadGateway),
	http.StatusGatewayTimeout:        status.OfGateway(http.StatusGatewayTimeout),
}

// refusedByAdmin are those of the admin endpoint.
var refusedByAdmin = map[int]string{
	http.StatusBadRequest:            "/kind: must be one of management or inference",
	http.StatusForbidden:             "client is not allowed to access from origin 'https://example.com'",
	http.StatusNotFound:              "Key not found",
	http.StatusMethodNotAllowed:      "method not allowed",
	http.StatusConflict:              "The key is live: revoke it first",
	http.StatusRequestEntityTooLarge: "the body must be at most 65536 bytes",
	http.StatusInternalServerError:   "Internal Server Error",
	http.StatusServiceUnavailable:    "a reload has just closed the store: try again",
}

// exampleOfError returns an error of a schema with a status, as the server would send it.
func exampleOfError(schema string, status int) (*yaml.Node, error) {
	if refused[status] == nil || schema == "AdminError" && refusedByAdmin[status] == "" {
		return nil, fmt.Errorf("the status %d has no error as an example", status)
	}
	var body any = map[string]string{"error": refusedByAdmin[status]}
	if envelopeOf := map[string]func(envelope.Problem) any{"Error": envelope.NewAPI, "ResponsesError": envelope.NewResponses, "MessagesError": envelope.NewMessages}[schema]; envelopeOf != nil {
		p := envelope.Problem{Status: status, Message: refused[status].Error()}
		if shown, ok := errors.AsType[*domain.Error](refused[status]); ok {
			p.Code, p.Issues = shown.Code, shown.Issues
		}
		body = envelopeOf(p)
	}
	text, err := jsonv2.Marshal(body)
	if err != nil {
		return nil, err
	}
	return parseNode(text)
}
