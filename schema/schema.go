// Package schema checks request bodies: bytes in, violations out.
//
// The rules are JSON Schemas (draft 2020-12), one file for each noun beside
// this one, so that they can be read, diffed and used elsewhere. Three
// keywords are ours: discriminator, shallow and errorMessage; each has a file
// that tells what it means. A title names a component of the OpenAPI document.
//
// A body meets three stages. Its text is read strictly (read.go), the parts
// that some rule looks at are turned into Go values (view.go), and those are
// checked (the jsonschema package; relations.go has what a schema cannot say),
// with findings put in words of ours (violation.go). What a body costs in
// memory is bounded at each stage by the constants of this package, and stays
// below ten times its size.
package schema

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

//go:embed *.json
var files embed.FS

// baseURL begins the $id of every schema file. Nothing is ever fetched.
const baseURL = "https://github.com/caddy-presets/caddy-presets/schema/"

// Schemas holds the compiled schema of each request body.
type Schemas struct {
	// ResponsesRequest is the body of POST /presets/{slug}/responses.
	ResponsesRequest *Schema
	// ChatRequest is the body of POST /presets/{slug}/chat/completions.
	ChatRequest *Schema
	// MessagesRequest is the body of POST /presets/{slug}/messages.
	MessagesRequest *Schema
	// UpdatePreset is the body of PATCH /presets/{slug}.
	UpdatePreset *Schema
	// Designate is the body of POST /presets/{slug}/designate.
	Designate *Schema
	// Label is the body of PUT /presets/{slug}/labels/{label}.
	Label *Schema
	// WorkspaceReference is the body, if there is one, of DELETE /presets/{slug}
	// and POST /presets/{slug}/restore.
	WorkspaceReference *Schema
	// CreateWorkspace is the body of POST /workspaces.
	CreateWorkspace *Schema
	// UpdateWorkspace is the body of PATCH /workspaces/{id}.
	UpdateWorkspace *Schema
}

// Load returns the schemas, compiled by the first call of the process. It
// fails only if the embedded files are wrong.
func Load() (*Schemas, error) { return load() }

var load = sync.OnceValues(func() (*Schemas, error) {
	compiler, err := newCompiler()
	if err != nil {
		return nil, err
	}
	s := new(Schemas)
	for _, body := range []struct {
		schema    **Schema
		file      string
		relations []relation
	}{
		{&s.ResponsesRequest, "responses-request.json", responsesRelations},
		{&s.ChatRequest, "chat-request.json", chatRelations},
		{&s.MessagesRequest, "messages-request.json", messagesRelations},
		{&s.UpdatePreset, "update-preset.json", nil},
		{&s.Designate, "designate.json", nil},
		{&s.Label, "label.json", nil},
		{&s.WorkspaceReference, "workspace-reference.json", nil},
		{&s.CreateWorkspace, "create-workspace.json", nil},
		{&s.UpdateWorkspace, "update-workspace.json", nil},
	} {
		if *body.schema, err = compile(compiler, body.file); err != nil {
			return nil, err
		}
		(*body.schema).relations = body.relations
	}
	return s, nil
})

// newCompiler returns a compiler that knows the embedded files and our
// keywords, and no way to load anything else.
func newCompiler() (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("schema: %s is not embedded", url)
	}
	c.RegisterExtension(discriminatorKeyword, nil, discriminatorCompiler{})
	c.RegisterExtension(shallowKeyword, nil, shallowCompiler{})
	c.RegisterExtension(errorMessageKeyword, nil, errorMessageCompiler{})
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		err = errors.Join(c.AddResource(baseURL+name, f), f.Close())
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Schema is the compiled schema of one body. It never changes and is safe for
// concurrent use.
type Schema struct {
	root *jsonschema.Schema
	plan *plan
	// byLocation finds the schema that a finding comes from.
	byLocation map[string]*jsonschema.Schema
	// relations check what the schema cannot say.
	relations []relation
}

func compile(c *jsonschema.Compiler, file string) (*Schema, error) {
	root, err := c.Compile(baseURL + file)
	if err != nil {
		return nil, err
	}
	byLocation := make(map[string]*jsonschema.Schema)
	index(byLocation, root)
	plan, err := planFor(root)
	if err != nil {
		return nil, fmt.Errorf("schema: %s: %w", file, err)
	}
	return &Schema{root: root, plan: plan, byLocation: byLocation}, nil
}

// Check reads body strictly, checks it and returns its members.
//
// The error is an *Error when the body is at fault: it is not strict JSON
// (RFC 8259 with the limits of RFC 7493, "I-JSON": UTF-8, no duplicate names),
// not an object, beyond a limit of this package, or against a rule of the
// schema. Any other error is a fault of this package. Check keeps no reference
// to body, but the returned Object does.
func (s *Schema) Check(body []byte) (Object, error) {
	object, err := read(body)
	if err != nil {
		return Object{}, err
	}
	view, err := s.plan.view(object)
	if err != nil {
		return Object{}, err
	}
	if err := s.judge(object, s.root.Validate(view)); err != nil {
		return Object{}, err
	}
	return object, nil
}

// Names reports whether the schema has a rule for a top-level member of this name.
// All others are allowed, whatever their values.
func (s *Schema) Names(member string) bool {
	_, named := s.plan.members[member]
	return named
}

// judge puts together what the validator found in a view of object and what no
// schema can say.
func (s *Schema) judge(object Object, err error) error {
	found, err := s.explain(err)
	if err != nil {
		return err
	}
	found = append(found, related(s.relations, object, found)...)
	if len(found) == 0 {
		return nil
	}
	return sorted(found)
}

// index adds s and every schema that it leads to, and takes plain references
// out of the way.
func index(byLocation map[string]*jsonschema.Schema, s *jsonschema.Schema) {
	if byLocation[s.Location] != nil {
		return
	}
	byLocation[s.Location] = s
	for _, part := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames} {
		if part != nil {
			index(byLocation, part)
		}
	}
	for name, member := range s.Properties {
		s.Properties[name] = target(member)
		index(byLocation, s.Properties[name])
	}
	if a := additional(s); a != nil {
		index(byLocation, a)
	}
	if s.Items2020 != nil {
		s.Items2020 = target(s.Items2020)
		index(byLocation, s.Items2020)
	}
	if d := discriminatorOf(s); d != nil {
		for _, v := range d.variants {
			index(byLocation, v.schema)
		}
		if d.otherwise != nil {
			index(byLocation, d.otherwise.schema)
		}
	}
	if sh := shallowOf(s); sh != nil {
		index(byLocation, sh.surface)
	}
}

// target returns what s refers to if s does nothing else, because each schema
// that the validator goes through costs it several allocations.
func target(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Ref != nil && asksNothing(s) {
		return target(s.Ref)
	}
	return s
}

// asksNothing tells whether s has no rule, apart from what it refers to.
func asksNothing(s *jsonschema.Schema) bool {
	return len(s.Types) == 0 && allowed(s) == nil && bare(s) && !descends(s)
}
