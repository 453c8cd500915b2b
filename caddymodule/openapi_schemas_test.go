package caddymodule

import (
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
)

// writeSchemas returns the components of schema files. a.json is the schema of a body.
func writeSchemas(t *testing.T, base string, files map[string]string) (map[string]any, error) {
	t.Helper()
	folder := make(fstest.MapFS)
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	read, err := readFiles(folder)
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(base), &document); err != nil {
		t.Fatal(err)
	}
	d := openAPI{schemas: document.Content[0], files: read}
	if err := d.addFiles([]string{"a.json"}); err != nil {
		return nil, err
	}
	var schemas map[string]any
	if err := d.schemas.Decode(&schemas); err != nil {
		t.Fatal(err)
	}
	return schemas, nil
}

// TestSchemaMistakes checks that a schema that cannot become a component is an error.
func TestSchemaMistakes(t *testing.T) {
	for _, test := range []struct {
		name, base string
		files      map[string]string
		want       string
	}{
		{"no title", "{}", map[string]string{
			"a.json": `{"title":"A","properties":{"b":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"string"}}}`,
		}, "a.json#/$defs/b: has no title"},
		{"a title that is no name", "{}", map[string]string{
			"a.json": `{"title":"A, or B","type":"object"}`,
		}, "a.json: has no title of letters and digits"},
		{"one title twice", "{}", map[string]string{
			"a.json": `{"title":"A","properties":{"b":{"$ref":"b.json"}, "c":{"$ref":"c.json"}}}`,
			"b.json": `{"title":"same word","type":"string"}`, "c.json": `{"title":"Same Word","type":"string"}`,
		}, "b.json and c.json have the same title: SameWord"},
		{"the title of a component that was there", "B: {type: string}", map[string]string{
			"a.json": `{"title":"A","properties":{"b":{"title":"B","type":"number"}}}`,
		}, "base.yaml and a.json/properties/b have the same title: B"},
		{"a reference into properties", "{}", map[string]string{
			"a.json": `{"title":"A","properties":{"b":{"$ref":"#/properties/c"},"c":{"type":"string"}}}`,
		}, "a.json#/properties/c is neither"},
		{"a reference to nothing", "{}", map[string]string{
			"a.json": `{"title":"A","properties":{"b":{"$ref":"b.json#/$defs/c"}}}`,
		}, "b.json#/$defs/c is neither"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := writeSchemas(t, test.base, test.files)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v and error %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestSchemaVariants checks where a variant's values are placed. Equal values in all uses
// are in the variant, other values where it is used.
func TestSchemaVariants(t *testing.T) {
	schemas, err := writeSchemas(t, "{}", map[string]string{"a.json": `{
		"title": "A", "type": ["object", "null"], "required": ["kind"],
		"discriminator": {
			"propertyName": "kind",
			"mapping": {"one": "#/$defs/one", "uno": "#/$defs/one", "two": "#/$defs/two", "three": "#/$defs/plain", "never": "#/$defs/never"},
			"defaultMapping": "#/$defs/other"
		},
		"$defs": {
			"one": {"title": "One", "properties": {"again": {"$ref": "#/$defs/two"}}},
			"two": {"title": "Two", "required": ["size"], "properties": {"size": {"type": "integer"}}},
			"plain": {"description": "No rules."},
			"never": {"properties": {"kind": {"$ref": "#/$defs/nothing"}}},
			"nothing": {"title": "Nothing", "not": {}},
			"other": {"title": "Other", "properties": {"kind": {"type": "string"}}}
		}
	}`})
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(`
A:
  title: A
  anyOf:
    - $ref: "#/components/schemas/One"
    - allOf: [{$ref: "#/components/schemas/Two"}]
      type: object
      required: [kind]
      properties: {kind: {type: string, enum: [two]}}
    - description: No rules.
      type: object
      required: [kind]
      properties: {kind: {type: string, enum: [three]}}
    - $ref: "#/components/schemas/Other"
    - type: "null"
One:
  title: One
  type: object
  required: [kind]
  properties: {kind: {description: A kind of one., type: string, enum: [one, uno]}, again: {$ref: "#/components/schemas/Two"}}
Two:
  title: Two
  type: object
  required: [size]
  properties: {size: {type: integer}}
Other:
  title: Other
  type: object
  additionalProperties: true
  required: [kind]
  properties: {kind: {type: string, not: {enum: [one, uno, two, three, never]}}}
`), &want); err != nil {
		t.Fatal(err)
	}
	asText := func(value any) string {
		text, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got, want := asText(schemas), asText(want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
