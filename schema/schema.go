// Package schema checks request bodies: bytes in, violations out.
//
// The rules are JSON Schemas (draft 2020-12), one file for each noun, in this folder.
// Three keywords are our own: discriminator, shallow and errorMessage. Each has a Go file
// that defines it. A title names a component of the OpenAPI document.
//
// A check has four steps:
//   - read.go reads the text strictly;
//   - view.go decodes the values that have rules;
//   - the jsonschema package validates them, and relations.go checks what a schema
//     cannot express;
//   - violation.go puts the findings into words.
//
// The constants of this package bound the memory of each step. A check takes at most ten
// times the size of its body.
package schema

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

//go:embed *.json
var files embed.FS

// baseURL begins the $id of every schema file. Nothing is ever fetched.
const baseURL = "https://github.com/caddy-presets/caddy-presets/schema/"

// Schemas holds the compiled schema of each request body, of the file that its tag names.
type Schemas struct {
	// ResponsesRequest is the body of POST /presets/{slug}/responses.
	ResponsesRequest *Schema `file:"responses-request.json"`
	// ChatRequest is the body of POST /presets/{slug}/chat/completions.
	ChatRequest *Schema `file:"chat-request.json"`
	// MessagesRequest is the body of POST /presets/{slug}/messages.
	MessagesRequest *Schema `file:"messages-request.json"`
	// ResponsesTemplate, ChatTemplate and MessagesTemplate are these bodies with ?template=true.
	// The version keeps their messages, so they are checked whole.
	ResponsesTemplate *Schema `file:"responses-template.json"`
	ChatTemplate      *Schema `file:"chat-template.json"`
	MessagesTemplate  *Schema `file:"messages-template.json"`
	// UpdatePreset is the body of PATCH /presets/{slug}.
	UpdatePreset *Schema `file:"update-preset.json"`
	// PresetFile is the file of a preset without its requests.
	PresetFile *Schema `file:"preset-file.json"`
	// Trial is the body of POST /presets/{slug}/try.
	Trial *Schema `file:"trial.json"`
	// CreateInput is the body of POST /presets/{slug}/inputs.
	CreateInput *Schema `file:"create-input.json"`
	// UpdateInput is the body of PATCH /presets/{slug}/inputs/{id}.
	UpdateInput *Schema `file:"update-input.json"`
	// Designate is the body of POST /presets/{slug}/designate.
	Designate *Schema `file:"designate.json"`
	// Label is the body of PUT /presets/{slug}/labels/{label}.
	Label *Schema `file:"label.json"`
	// Feedback is the body of POST /presets/{slug}/feedback.
	Feedback *Schema `file:"feedback.json"`
	// WorkspaceReference is the body, if there is one, of DELETE /presets/{slug}
	// and POST /presets/{slug}/restore.
	WorkspaceReference *Schema `file:"workspace-reference.json"`
	// CreateWorkspace is the body of POST /workspaces.
	CreateWorkspace *Schema `file:"create-workspace.json"`
	// UpdateWorkspace is the body of PATCH /workspaces/{id}.
	UpdateWorkspace *Schema `file:"update-workspace.json"`
	// Budget is the body of PUT /workspaces/{id}/budgets/{interval}.
	Budget *Schema `file:"budget.json"`
	// CreateKey is the body of POST /keys.
	CreateKey *Schema `file:"create-key.json"`
	// UpdateKey is the body of PATCH /keys/{hash}.
	UpdateKey *Schema `file:"update-key.json"`
	// RotateKey is the body, if there is one, of POST /keys/{hash}/rotate.
	RotateKey *Schema `file:"rotate-key.json"`
	// NewKey is the body of POST keys of the admin endpoint.
	NewKey *Schema `file:"new-key.json"`
	// KeyPruning is the body of POST keys/prune of the admin endpoint.
	KeyPruning *Schema `file:"key-pruning.json"`
	// Pruning is the body of POST prune of the admin endpoint.
	Pruning *Schema `file:"pruning.json"`
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
	for field, value := range reflect.ValueOf(s).Elem().Fields() {
		body, err := compile(compiler, field.Tag.Get("file"))
		if err != nil {
			return nil, err
		}
		value.Set(reflect.ValueOf(body))
	}
	return s, nil
})

// newCompiler returns a compiler of the embedded files with our keywords. It loads
// nothing else.
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
	// rules apply to a body as a whole.
	rules rules
	// byLocation finds the schema of a finding.
	byLocation map[string]*jsonschema.Schema
}

// File returns the name of the schema's file.
func (s *Schema) File() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.root.Location, baseURL), "#")
}

func compile(c *jsonschema.Compiler, file string) (*Schema, error) {
	root, err := c.Compile(baseURL + file)
	if err != nil {
		return nil, err
	}
	byLocation := make(map[string]*jsonschema.Schema)
	indexLocations(byLocation, root)
	return &Schema{root: root, rules: rules(nil).add(nil, root), byLocation: byLocation}, nil
}

// Check reads body strictly, checks it and returns its members.
//
// The error is an *Error when the body is at fault. The body is then not strict JSON, or
// not an object. Or it exceeds a limit of this package, or breaks a rule of the schema.
// Strict JSON is RFC 8259 with the limits of RFC 7493, "I-JSON": UTF-8, no duplicate names.
// Any other error is a fault of this package. The members are parts of body, which must not
// change while they are in use.
func (s *Schema) Check(body []byte) ([]rawjson.Member, error) {
	members, err := readObject(body)
	if err != nil {
		return nil, err
	}
	view, err := s.view(members)
	if err != nil {
		return nil, err
	}
	if err := s.collect(members, s.root.Validate(view)); err != nil {
		return nil, err
	}
	return members, nil
}

// Names reports whether the schema has a rule for a top-level member. Other members
// are allowed with any value.
func (s *Schema) Names(member string) bool {
	schemas, counted := s.rules.member(member)
	return counted || schemas != nil
}

// MemberNames returns the top-level members that the schema has a rule for, sorted. Names
// reports true for each.
func (s *Schema) MemberNames() []string {
	names := make(map[string]bool)
	for _, r := range s.rules {
		for name := range r.Properties {
			names[name] = true
		}
		for _, name := range r.Required {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// collect returns an *Error of the validator's findings and the broken relations of
// members, nil if there are none.
func (s *Schema) collect(members []rawjson.Member, err error) error {
	found, err := s.violationsOf(err)
	if err != nil {
		return err
	}
	found = append(found, s.brokenRelations(members, found)...)
	if len(found) == 0 {
		return nil
	}
	return newError(found)
}

// indexLocations adds s and every schema that it refers to, by location.
func indexLocations(byLocation map[string]*jsonschema.Schema, s *jsonschema.Schema) {
	if byLocation[s.Location] != nil {
		return
	}
	byLocation[s.Location] = s
	for _, part := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames} {
		if part != nil {
			indexLocations(byLocation, part)
		}
	}
	for _, member := range s.Properties {
		indexLocations(byLocation, member)
	}
	if a := additional(s); a != nil {
		indexLocations(byLocation, a)
	}
	if s.Items2020 != nil {
		indexLocations(byLocation, s.Items2020)
	}
	if d := discriminatorOf(s); d != nil {
		for _, v := range d.variants {
			indexLocations(byLocation, v.schema)
		}
		if d.otherwise != nil {
			indexLocations(byLocation, d.otherwise.schema)
		}
	}
	if sh := shallowOf(s); sh != nil {
		indexLocations(byLocation, sh.surface)
	}
}
