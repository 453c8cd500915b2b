package caddymodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// openAPIDocuments are the names of the documents.
var openAPIDocuments = []string{apiDocument, adminDocument}

func TestOpenAPIFiles(t *testing.T) {
	tier.NoRace(t)
	for _, name := range openAPIDocuments {
		got, err := newOpenAPI(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("openapi", name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what the route tables and schemas give: run go generate ./caddymodule/openapi", file)
		}
	}
}

func TestOpenAPIServed(t *testing.T) {
	tier.NoRace(t)
	if *update {
		t.Skip("this binary has the documents from before the update")
	}
	s := start(t, standard)
	for _, name := range openAPIDocuments {
		want, err := newOpenAPI(name)
		if err != nil {
			t.Fatal(err)
		}
		r := send(t, "GET", "http://"+s.admin+"/presets/"+name, "")
		if r.status != 200 || r.header.Get("Content-Type") != "application/yaml" || r.body != string(want) {
			t.Errorf("%s: got %d %s and %d bytes, want the document", name, r.status, r.header.Get("Content-Type"), len(r.body))
		}
		if r := send(t, "POST", "http://"+s.admin+"/presets/"+name, ""); r.status != 405 || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: POST gives %d, Allow %q, want 405 and GET, HEAD", name, r.status, r.header.Get("Allow"))
		}
	}
}

// document is an OpenAPI document, parsed as plain YAML.
type document map[string]any

// readDocument returns a document as it is generated. Tests share it.
func readDocument(t *testing.T, name string) document {
	t.Helper()
	doc, err := parsedDocuments[name]()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

var parsedDocuments = map[string]func() (document, error){
	apiDocument:   sync.OnceValues(func() (document, error) { return parseDocument(apiDocument) }),
	adminDocument: sync.OnceValues(func() (document, error) { return parseDocument(adminDocument) }),
}

func parseDocument(name string) (document, error) {
	text, err := newOpenAPI(name)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	err = yaml.Unmarshal(text, &doc)
	return doc, err
}

// inBoth runs a test for each document.
func inBoth(t *testing.T, test func(*testing.T, document)) {
	for _, name := range openAPIDocuments {
		t.Run(name, func(t *testing.T) { test(t, readDocument(t, name)) })
	}
}

// at returns the value at a JSON Pointer into the document, nil if it is missing.
func (d document) at(pointer string) any {
	var value any = map[string]any(d)
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		object, _ := value.(map[string]any)
		value = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return value
}

// object returns the value at a JSON Pointer, with its reference resolved.
func (d document) object(pointer string) map[string]any {
	object, _ := d.at(pointer).(map[string]any)
	if ref, ok := object["$ref"].(string); ok && len(object) == 1 {
		return d.object(ref)
	}
	return object
}

// references calls visit with each reference in value.
func references(value any, visit func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if ref, ok := member.(string); ok && name == "$ref" {
				visit(ref)
			}
			references(member, visit)
		}
	case []any:
		for _, item := range value {
			references(item, visit)
		}
	}
}

// TestOpenAPIIsComplete checks that every described operation is in one of the documents, and
// that every handwritten component is used in one.
func TestOpenAPIIsComplete(t *testing.T) {
	var documented []string
	used := make(map[string]bool)
	for _, name := range openAPIDocuments {
		doc := readDocument(t, name)
		for id, operation := range doc.operations() {
			documented = append(documented, id)
			if !strings.Contains(fmt.Sprint(doc["tags"]), "name:"+operation["tags"].([]any)[0].(string)+"]") {
				t.Errorf("%s: tag %v is not described", id, operation["tags"])
			}
		}
		for path, item := range doc["paths"].(map[string]any) {
			for method, operation := range item.(map[string]any) {
				checkPath(t, doc, method+" "+path, operation.(map[string]any))
			}
		}
		for kind, all := range doc["components"].(map[string]any) {
			for component := range all.(map[string]any) {
				used[kind+"/"+component] = true
			}
		}
	}
	slices.Sort(documented)
	texts, err := readDescriptions()
	if want := slices.Sorted(maps.Keys(texts.Operations)); err != nil || !slices.Equal(documented, want) {
		t.Errorf("got operations %q, want %q", documented, want)
	}
	base, err := readBase(apiDocument)
	if err != nil {
		t.Fatal(err)
	}
	for kind, all := range members(memberNode(base, "components")) {
		for component := range members(all) {
			if !used[kind+"/"+component] {
				t.Errorf("components/%s/%s is not used", kind, component)
			}
		}
	}
}

// checkPath checks that the parameters of an operation's path are described, in their order.
func checkPath(t *testing.T, doc document, place string, operation map[string]any) {
	t.Helper()
	var want, got []string
	for _, found := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(place, -1) {
		want = append(want, found[1])
	}
	parameters, _ := operation["parameters"].([]any)
	for _, reference := range parameters {
		if parameter := doc.object(reference.(map[string]any)["$ref"].(string)); parameter["in"] == "path" {
			got = append(got, parameter["name"].(string))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: the parameters %q of the path are described", place, got)
	}
}

// validator returns a function that makes validators with plain JSON Schema, as other
// programs use.
func (d document) validator(t *testing.T) func(pointer string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.AssertFormat = true
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("openapi.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return func(pointer string) *jsonschema.Schema {
		t.Helper()
		s, err := compiler.Compile("openapi.json" + pointer)
		if err != nil {
			t.Fatalf("%s: %v", pointer, err)
		}
		return s
	}
}

// mutations yields JSON values similar to value: each part is removed, changed, or of
// another type.
func mutations(value any, yield func(any)) {
	with := func(replace func(any), part any) {
		if part != nil {
			replace(nil)
			yield(value)
		}
		for _, other := range []any{true, 0, -1, 1.5, 1e6, "", "other", "openrouter:other", strings.Repeat("x", 700), []any{}, []any{nil}, []any{"a", 5}, map[string]any{}, map[string]any{"type": "other", "id": "x"}} {
			replace(other)
			yield(value)
		}
		replace(part)
		mutations(part, func(changed any) {
			replace(changed)
			yield(value)
		})
		replace(part)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			part := value[name]
			delete(value, name)
			yield(value)
			with(func(v any) { value[name] = v }, part)
		}
		value["unknown member"] = 1
		yield(value)
		delete(value, "unknown member")
	case []any:
		for i, part := range value {
			with(func(v any) { value[i] = v }, part)
		}
	}
}

// beyond are the messages of rules between list items, which JSON Schema cannot express.
var beyond = []string{"characters in all"}

// TestOpenAPIBodiesAreAsChecked compares the document's request bodies with our checks. For
// mutated bodies each run tests another part, because all would take minutes.
func TestOpenAPIBodiesAreAsChecked(t *testing.T) {
	tier.Slow(t)
	doc := readDocument(t, apiDocument)
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "testdata", "requests", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no requests: %v", err)
	}
	type example struct {
		name string // begins with the name of its example; empty for all
		body any
	}
	var examples []example
	add := func(name string, text []byte) {
		var body any
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		examples = append(examples, example{name, body})
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(filepath.Base(file), text)
	}
	for _, small := range []string{
		`{"version":1}`, `{"label":"a"}`, `{"version":1,"label":"a"}`, `{"split":[{"version":1,"weight":1}]}`,
		`{"version":1,"split":[{"version":1,"weight":1}]}`, `{"workspace_id":"team"}`,
		`{"request_id":"r","score":-0.5,"name":"a-b_c.D9"}`, `{"session_id":"s","score":true}`, `{"session_id":"s","request_id":"r","score":2,"name":"a b"}`,
		`{"dialect":"chat","version":{"model":"m"},"request":{"messages":[]}}`, `{"name":"n","dialect":"chat","messages":[]}`, `{"name":"n","slug":"s"}`, `{"name":"n","description":null,"status":"disabled"}`, `{"limit_usd":100}`,
	} {
		add("", []byte(small))
	}
	validator := doc.validator(t)
	const stride = 61
	turn := rand.IntN(stride)
	for _, op := range new(Handler).routes(schemas) {
		if op.body.Schema == nil {
			continue
		}
		pointer := "#/paths/" + strings.ReplaceAll("/"+documentedPath(t, op.path), "/", "~1") + "/" + strings.ToLower(op.method) + "/requestBody/content/application~1json/schema/$ref"
		plain := validator(doc.at(pointer).(string))
		accepted, refused, differences := 0, 0, 0
		for _, example := range examples {
			compare := func(body any) {
				text, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				var same any // with the numbers as they are
				decoder := json.NewDecoder(bytes.NewReader(text))
				decoder.UseNumber()
				if err := decoder.Decode(&same); err != nil {
					t.Fatal(err)
				}
				_, ours := op.body.Check(text)
				theirs := plain.Validate(same)
				if ours == nil {
					accepted++
				} else {
					refused++
				}
				if (ours == nil) != (theirs == nil) && !onlyBeyond(ours) && !onlyConversation(theirs) {
					if differences++; differences <= 3 {
						t.Errorf("%s, %s: we say %v, the document says %v, of %.2000s", op.name, example.name, ours, theirs, text)
					}
				}
			}
			compare(example.body)
			if kind, _, _ := strings.Cut(strings.TrimSuffix(example.name, ".json"), "-"); strings.Contains(op.body.File(), kind) {
				mutations(example.body, func(body any) {
					if turn++; turn%stride == 0 || example.name == "" {
						compare(body)
					}
				})
			}
		}
		if accepted == 0 || refused == 0 {
			t.Errorf("%s: %d bodies were accepted and %d refused, want some of each", op.name, accepted, refused)
		}
		t.Logf("%s: %d bodies accepted, %d refused", op.name, accepted, refused)
	}
}

// onlyBeyond reports whether JSON Schema can express none of the errors in err.
func onlyBeyond(err error) bool {
	if err == nil {
		return false
	}
	for finding := range strings.SplitSeq(err.Error(), "; ") {
		if !slices.ContainsFunc(beyond, func(words string) bool { return strings.Contains(finding, words) }) {
			return false
		}
	}
	return true
}

// inConversation matches the places of members that presets do not keep, which we therefore
// do not check.
var inConversation = regexp.MustCompile(`^/(messages|input)/\d+(/|$)`)

// onlyConversation reports whether a validator's errors concern only messages or input
// items.
func onlyConversation(err error) bool {
	found, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return false
	}
	var within func(e *jsonschema.ValidationError) bool
	within = func(e *jsonschema.ValidationError) bool {
		if inConversation.MatchString(e.InstanceLocation) {
			return true
		}
		return len(e.Causes) > 0 && !slices.ContainsFunc(e.Causes, func(cause *jsonschema.ValidationError) bool { return !within(cause) })
	}
	return within(found)
}

// documentedPath returns a route's path in the document's form.
func documentedPath(t *testing.T, route string) string {
	t.Helper()
	var path []string
	for parent, segment := range segmentsOf(route) {
		if segment == "{}" {
			segment = "{" + pathParameters[parent] + "}"
		}
		path = append(path, segment)
	}
	return strings.Join(path, "/")
}

// TestOpenAPIParameters checks that the document has the query parameters that each route takes.
func TestOpenAPIParameters(t *testing.T) {
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	check := func(document, name string, takes []string) {
		t.Helper()
		doc := readDocument(t, document)
		var got []string
		parameters, _ := doc.operations()[name]["parameters"].([]any)
		for _, reference := range parameters {
			if parameter := doc.object(reference.(map[string]any)["$ref"].(string)); parameter["in"] == "query" {
				got = append(got, parameter["name"].(string))
			}
		}
		slices.Sort(got)
		slices.Sort(takes)
		if !slices.Equal(got, takes) {
			t.Errorf("%s: the document has the parameters %q, and the route takes %q", name, got, takes)
		}
	}
	for _, op := range new(Handler).routes(schemas) {
		check(apiDocument, op.name, op.parameters())
	}
	for _, rt := range admin.Routes(schemas) {
		check(adminDocument, rt.Name, strings.Fields(rt.Query))
	}
}

// TestOpenAPIKeptConversations checks that the document permits every conversation that a template may
// have, and refuses those of wrong types.
func TestOpenAPIKeptConversations(t *testing.T) {
	tier.Slow(t)
	doc := readDocument(t, apiDocument)
	validator := doc.validator(t)
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	for component, api := range map[string]struct {
		template *schema.Schema
		body     string
	}{
		"ChatRequest": {schemas.ChatTemplate, `{"messages":[
			{"role":"system","content":[{"type":"text","text":"{{x}}"}]},
			{"role":"user","name":"n","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"u","detail":"low"}},{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"file","file":{"file_data":"d","file_id":"i","filename":"f"}}]},
			{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"1","content":"r"},{"role":"user","content":"t"}]}`},
		"MessagesRequest": {schemas.MessagesTemplate, `{"messages":[
			{"role":"user","content":[{"type":"text","text":"t","cache_control":{"type":"ephemeral","ttl":"5m"}},{"type":"image","source":{"type":"url","url":"u"}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{"a":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":false,"content":[{"type":"text","text":"t"}]}]},{"role":"assistant","content":"t"}]}`},
		"ResponsesRequest": {schemas.ResponsesTemplate, `{"input":[
			{"role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":"u","file_id":null,"detail":"auto"},{"type":"input_file","file_data":"d","file_id":"i","file_url":"u","filename":"f"}]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"t"}]},
			{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"o"},{"role":"user","content":"t"}]}`},
	} {
		plain := validator("#/components/schemas/" + component)
		var body any
		if err := json.Unmarshal([]byte(api.body), &body); err != nil {
			t.Fatal(err)
		}
		if err := validator("#/components/schemas/Gateway" + component).Validate(body); err != nil {
			t.Errorf("%s: a gateway's request may not have the example: %v", component, err)
		}
		accepted, both := 0, 0
		compare := func(body any) {
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			_, ours := api.template.Check(text)
			theirs := plain.Validate(body)
			switch {
			case ours == nil && theirs == nil:
				accepted++
			case ours == nil:
				t.Errorf("%s: a template may have what the document refuses: %s: %v", component, text, theirs)
			case theirs != nil: // otherwise it is for example a part of a type that only the document knows
				both++
			}
		}
		compare(body)
		mutations(body, compare)
		if accepted < 20 || both < 100 {
			t.Errorf("%s: of the mutated bodies %d are accepted, and %d refused by both", component, accepted, both)
		}
	}
}
