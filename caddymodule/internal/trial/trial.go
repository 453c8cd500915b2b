// Package trial reads requests to try a version that is not stored.
package trial

import (
	"errors"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Body is the body of such a request.
type Body struct {
	// Capture is what a preset would keep of the version.
	Capture domain.Capture
	// Version has the members of the version, which was checked by Schema.
	Version []rawjson.Member
	Schema  *schema.Schema
	// Request is the inference request.
	Request []byte
}

// Read reads a body that was checked by its schema. The version may be a template. Errors name the place in the body.
func Read(schemas *schema.Schemas, members []rawjson.Member, isTemplate bool) (b Body, err error) {
	var dialect domain.Dialect
	if err := jsonv2.Unmarshal(rawjson.Find(members, "dialect"), &dialect); err != nil {
		return b, err
	}
	b.Schema, b.Request = files.SchemaOf(schemas, dialect, isTemplate), rawjson.Find(members, "request")
	if b.Version, err = b.Schema.Check(rawjson.Find(members, "version")); err != nil {
		return b, Within("version", err)
	}
	capture := inference.Capture
	if isTemplate {
		capture = inference.CaptureTemplate
	}
	b.Capture, err = capture(dialect, b.Version)
	return b, Within("version", err)
}

// Within returns err with the places that it names as places in a member of the body. Headers keep their names, but
// for that of the key.
func Within(member string, err error) error {
	if broken, ok := errors.AsType[*schema.Error](err); ok {
		err = status.Invalid(broken)
	}
	found, ok := errors.AsType[*domain.Error](err)
	if !ok || len(found.Issues) == 0 {
		return err
	}
	issues := make([]domain.Issue, len(found.Issues))
	for i, issue := range found.Issues {
		switch {
		case issue.Path == "authorization":
			issue.Path = strings.ToLower(ownkeys.TrialHeader)
		case issue.Path == "" || issue.Path[0] == '/':
			issue.Path = "/" + member + issue.Path
		}
		issues[i] = issue
	}
	placed := *found
	placed.Issues = issues
	if found.Kind == domain.Invalid && found.Message == domain.InvalidIssues(found.Issues...).Message {
		placed.Message = domain.InvalidIssues(issues...).Message
	}
	return &placed
}
