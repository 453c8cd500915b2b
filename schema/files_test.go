package schema

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// schemaFiles returns the embedded files by name, as the validator sees them.
func schemaFiles(t *testing.T) map[string]any {
	t.Helper()
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	docs := make(map[string]any)
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// Schemas are held to the strict reading too.
		if _, err := readObject(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		var doc any
		if err := decoder.Decode(&doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		docs[name] = doc
	}
	return docs
}

// keywords are the keywords that the decoder knows. Before a file uses another, the decoder
// must learn which values its rule looks at.
var keywords = []string{
	"$schema", "$id", "$defs", "$ref", "title", "description", "deprecated",
	"type", "enum", "const", "not", "if", "then", "else",
	"properties", "additionalProperties", "propertyNames", "required", "maxProperties",
	"items", "minItems", "maxItems",
	"minLength", "maxLength", "pattern", "minimum", "maximum",
	discriminatorKeyword, shallowKeyword, errorMessageKeyword,
}

// walk calls visit with each schema below value.
func walk(value any, visit func(map[string]any)) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	visit(schema)
	for keyword, value := range schema {
		switch keyword {
		case "properties", "$defs":
			for _, sub := range value.(map[string]any) {
				walk(sub, visit)
			}
		case "additionalProperties", "propertyNames", "items", "not", "if", "then", "else", shallowKeyword:
			walk(value, visit)
		}
	}
}

func TestSchemaFiles(t *testing.T) {
	const draft = "https://json-schema.org/draft/2020-12/schema"
	meta, err := jsonschema.Compile(draft)
	if err != nil {
		t.Fatal(err)
	}
	docs := schemaFiles(t)
	compiler, err := newCompiler()
	if err != nil {
		t.Fatal(err)
	}
	referenced := make(map[string]bool)
	bodies, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range reflect.ValueOf(*bodies).Fields() {
		file, _, _ := strings.Cut(body.Interface().(*Schema).root.Location, "#")
		referenced[strings.TrimPrefix(file, baseURL)] = true
	}
	definitions := make(map[string]bool) // by reference: whether it is used
	for name, doc := range docs {
		defs, _ := doc.(map[string]any)["$defs"].(map[string]any)
		for def := range defs {
			definitions[name+"#/$defs/"+def] = false
		}
	}
	for name, doc := range docs {
		top := doc.(map[string]any)
		if top["$schema"] != draft || top["$id"] != baseURL+name {
			t.Errorf("%s: got $schema %v and $id %v, want %s and %s", name, top["$schema"], top["$id"], draft, baseURL+name)
		}
		base, err := url.Parse(baseURL + name)
		if err != nil {
			t.Fatal(err)
		}
		follow := func(ref any) {
			target, err := base.Parse(ref.(string))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if _, err := compiler.Compile(target.String()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			file := strings.TrimPrefix(target.String(), baseURL)
			definitions[file] = true
			file, _, _ = strings.Cut(file, "#")
			referenced[file] = true
		}
		negated := make(map[string]bool) // patterns inside not that have a message there
		walk(doc, func(schema map[string]any) {
			messages, _ := schema[errorMessageKeyword].(map[string]any)
			for rule := range messages {
				if schema[rule] == nil {
					t.Errorf("%s: a message for %s, which is not there", name, rule)
				}
			}
			if schema[shallowKeyword] != nil && schema["type"] != nil {
				t.Errorf("%s: %s beside a type", name, shallowKeyword)
			}
			if err := meta.Validate(schema); err != nil {
				t.Errorf("%s: %#v", name, err)
			}
			for keyword, value := range schema {
				if !slices.Contains(keywords, keyword) {
					t.Errorf("%s: got keyword %q, want one of %q", name, keyword, keywords)
				}
				switch keyword {
				case "$ref":
					follow(value)
				case discriminatorKeyword:
					d := value.(map[string]any)
					if required, _ := schema["required"].([]any); !slices.Contains(required, d["propertyName"]) {
						t.Errorf("%s: the selector %v is not required", name, d["propertyName"])
					}
					for _, ref := range d["mapping"].(map[string]any) {
						follow(ref)
					}
					if ref, ok := d["defaultMapping"]; ok {
						follow(ref)
					}
				case "not":
					if pattern, ok := value.(map[string]any)["pattern"].(string); ok {
						negated[pattern] = messages[keyword] != nil
					}
				case "pattern":
					// Each regular expression has words of its own.
					if messages[keyword] == nil && !negated[value.(string)] {
						t.Errorf("%s: pattern %s has no message", name, value)
					}
				}
			}
		})
	}
	for name := range docs {
		if !referenced[name] {
			t.Errorf("%s: no schema refers to it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if used := definitions[name]; !used && strings.Contains(name, "#") {
			t.Errorf("%s: no schema refers to it", name)
		}
	}
}

// TestServerToolsEverywhere checks that the tools of each API know the same server
// tools, and that these are all there are.
func TestServerToolsEverywhere(t *testing.T) {
	docs := schemaFiles(t)
	var want []string
	for name, def := range docs["server-tools.json"].(map[string]any)["$defs"].(map[string]any) {
		properties, _ := def.(map[string]any)["properties"].(map[string]any)
		if properties["parameters"] != nil && properties["type"] == nil && !strings.HasSuffix(name, "-elsewhere") {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	for _, file := range []string{"tools.json", "chat-tools.json", "messages-tools.json"} {
		var got []string
		walk(docs[file], func(schema map[string]any) {
			d, _ := schema[discriminatorKeyword].(map[string]any)
			mapping, _ := d["mapping"].(map[string]any)
			for _, ref := range mapping {
				if def, ok := strings.CutPrefix(ref.(string), "server-tools.json#/$defs/"); ok {
					got = append(got, strings.TrimSuffix(def, "-elsewhere"))
				}
			}
		})
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
}
