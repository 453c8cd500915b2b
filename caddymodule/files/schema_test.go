package files_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/openapi"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

var update = flag.Bool("update", false, "rewrite the golden files and the published schemas")

const (
	schemaBase = "https://raw.githubusercontent.com/caddy-presets/caddy-presets/main/schema/files/"
	components = "#/components/schemas/"
)

type object = map[string]any

// publishedSchemas makes the schemas for editors. Their definitions are components of the
// OpenAPI document, which has only standard keywords. The files say less in the messages
// of a conversation than the document does.
func publishedSchemas(t *testing.T) map[string][]byte {
	t.Helper()
	var document struct {
		Components struct {
			Schemas map[string]any `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(openapi.Document, &document); err != nil {
		t.Fatal(err)
	}
	all := document.Components.Schemas
	for _, name := range []string{"ChatUserMessage", "ChatAssistantMessage", "ChatToolMessage", "MessagesMessage"} {
		role := all[name].(object)["properties"].(object)["role"]
		all[name] = object{"description": "Only a template keeps it.", "type": "object", "required": []string{"role"}, "properties": object{"role": role}}
	}
	all["ResponsesItem"] = object{"description": "Only a template keeps it.", "type": "object"}
	component := func(name string) object { return object{"$ref": components + name} }
	request := func(dialect domain.Dialect, about, name string) object {
		return object{
			"description":   about + " Other members than those that a preset keeps are not allowed.",
			"type":          "object",
			"allOf":         []any{component(name)},
			"propertyNames": object{"enum": keptMembers(all, dialect, name)},
		}
	}
	update := all["PresetUpdate"].(object)["properties"].(object)
	version := func(extra object) object {
		properties := object{
			"template":  object{"description": "Whether the texts have variables, as {{name}}. A template keeps the messages of the request, too.", "type": "boolean", "default": false},
			"responses": request(domain.Responses, "The request, in the terms of the responses API.", "ResponsesRequest"),
			"chat":      request(domain.Chat, "The request, in the terms of the chat completions API. It may leave out the messages.", "ChatRequest"),
			"messages":  request(domain.Messages, "The request, in the terms of the messages API. It may leave out the messages.", "MessagesRequest"),
		}
		maps.Copy(properties, extra)
		return object{
			"type": "object", "properties": properties, "additionalProperties": false,
			"oneOf": []any{object{"required": []string{"responses"}}, object{"required": []string{"chat"}}, object{"required": []string{"messages"}}},
		}
	}
	weight := all["LabelShare"].(object)["properties"].(object)["weight"]
	number := object{"description": "The number of a version, or latest: the version that the file describes.", "anyOf": []any{component("VersionNumber"), object{"const": "latest"}}}
	only := func(properties object, required ...string) object {
		return object{"type": "object", "required": required, "additionalProperties": false, "properties": properties}
	}
	split := object{"type": "array", "minItems": 1, "maxItems": domain.MaxShares, "items": only(object{"version": number, "weight": weight}, "version", "weight")}
	preset := version(object{
		"name": update["name"], "description": update["description"], "status": object{"description": "Whether requests can name the preset.", "type": "string", "enum": []string{"active", "disabled"}, "default": "active"},
		"labels": object{
			"description": "All labels of the preset, by name.", "type": "object", "maxProperties": domain.MaxLabels,
			"propertyNames":        object{"pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$", "not": object{"pattern": "^([0-9]+|[Ll][Aa][Tt][Ee][Ss][Tt])$"}},
			"additionalProperties": object{"anyOf": []any{number, only(object{"split": split}, "split")}},
		},
		"policy": update["policy"], "limits": update["limits"], "tags": update["tags"],
		"inputs": object{
			"description": "Inputs that the preset's versions are tried with. A file without the list leaves them as they are.", "type": "array", "maxItems": 100,
			"items": object{"allOf": []any{component("InputCreation")}, "propertyNames": object{"enum": []string{"name", "dialect", "messages", "input", "variables", "notes"}}},
		},
		"earlier": object{
			"description": "Versions that a new preset gets first, oldest first.", "type": "array",
			"items": version(object{"message": object{"description": "The reason for the version.", "type": "string", "minLength": 1, "maxLength": domain.MaxMessage}}),
		},
	})
	preset["title"], preset["description"] = "Preset file", "A preset, in the file <workspace>/<slug>.yaml."
	settings := all["WorkspaceSettings"].(object)["properties"].(object)
	delete(settings, "slug")
	budget := all["WorkspaceBudgetSetting"].(object)
	budget["properties"] = object{"limit_usd": budget["properties"].(object)["limit_usd"]}
	budget["description"] = "What requests may cost in each window of the interval."
	workspace := object{
		"title": "Workspace file", "description": "The defaults of a workspace, in the file <workspace>/.workspace.yaml.",
		"type": "object", "properties": settings, "additionalProperties": false,
	}
	return map[string][]byte{
		"preset.schema.json":    selfContained(t, "preset.schema.json", preset, all),
		"workspace.schema.json": selfContained(t, "workspace.schema.json", workspace, all),
	}
}

// keptMembers are the members of a request that a file may have.
func keptMembers(all object, dialect domain.Dialect, name string) (names []string) {
	named := maps.Clone(all["InferenceRequest"].(object)["properties"].(object))
	for _, part := range all[name].(object)["allOf"].([]any) {
		if own, ok := part.(object)["properties"]; ok {
			maps.Copy(named, own.(object))
		}
	}
	for member := range named {
		if inference.IsKept(dialect, member) || member == inference.ConversationField(dialect) {
			names = append(names, member)
		}
	}
	slices.Sort(names)
	return names
}

// selfContained returns the text of a schema with all definitions that it needs.
func selfContained(t *testing.T, file string, root, all object) []byte {
	t.Helper()
	needed := object{}
	var visit func(value any) any
	visit = func(value any) any {
		switch value := value.(type) {
		case object:
			out := make(object, len(value))
			for keyword, part := range value {
				if target, ok := part.(string); ok && keyword == "$ref" {
					name := strings.TrimPrefix(target, components)
					if _, known := needed[name]; !known {
						needed[name] = nil
						needed[name] = visit(all[name])
					}
					part = "#/$defs/" + name
				}
				out[keyword] = visit(part)
			}
			return out
		case []any:
			out := make([]any, len(value))
			for i, part := range value {
				out[i] = visit(part)
			}
			return out
		}
		return value
	}
	root = visit(root).(object)
	root["$schema"], root["$id"] = "https://json-schema.org/draft/2020-12/schema", schemaBase+file
	if len(needed) > 0 {
		root["$defs"] = needed
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func TestPublishedSchemas(t *testing.T) {
	for file, want := range publishedSchemas(t) {
		path := filepath.Join("..", "..", "schema", "files", file)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the OpenAPI document gives: run go generate ./caddymodule/openapi", path)
		}
		compilePublished(t, file)
	}
}

// compilePublished compiles a schema without fetching anything.
func compilePublished(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "schema", "files", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"discriminator", "shallow", "errorMessage"} { // of package schema
		if bytes.Contains(text, []byte(strconv.Quote(own)+":")) {
			t.Errorf("%s has the keyword %s, which editors do not know", file, own)
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	if err := compiler.AddResource(schemaBase+file, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(schemaBase + file)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// plainValue returns the value of a YAML node for a validator. A text of !file is a string,
// as it is for editors.
func plainValue(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.MappingNode:
		all := object{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			all[n.Content[i].Value] = plainValue(t, n.Content[i+1])
		}
		return all
	case yaml.SequenceNode:
		all := []any{}
		for _, item := range n.Content {
			all = append(all, plainValue(t, item))
		}
		return all
	}
	switch n.Tag {
	case "!!int", "!!float":
		return json.Number(n.Value)
	case "!!bool", "!!null":
		var value any
		if err := n.Decode(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	return n.Value
}

// checkAgreement checks that editors and Read find the same of a file.
func checkAgreement(t *testing.T, compiled *jsonschema.Schema, name, text string, good bool) {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(plainValue(t, document.Content[0])); (err == nil) != good {
		t.Errorf("for an editor: %v, want good %v, of\n%s", err, good, text)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default", name), []byte(text))
	put(t, filepath.Join(dir, "default", "p.md"), []byte("a"))
	if _, err := files.Read(dir); (err == nil) != good {
		t.Errorf("for Read: %v, want good %v, of\n%s", err, good, text)
	}
}

// TestSchemaAgrees checks that editors and Read find the same files good, and the same bad.
func TestSchemaAgrees(t *testing.T) {
	compiled := compilePublished(t, "preset.schema.json")
	check := func(t *testing.T, text string, good bool) { checkAgreement(t, compiled, "p.yaml", text, good) }
	samples, err := filepath.Glob(filepath.Join("testdata", "good", "*.yaml"))
	if err != nil || len(samples) < 3 {
		t.Fatalf("found %d samples, %v", len(samples), err)
	}
	for _, sample := range samples {
		text, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		check(t, string(text), true)
	}
	for seed := range uint64(40) {
		dir := t.TempDir()
		write(t, dir, setOf(newGenerator(seed).preset(t, "p")))
		check(t, tree(t, dir)["default/p.yaml"], true)
	}
	for _, good := range []string{
		"labels: {a: 1.0, b: {split: [{version: 1e0, weight: 10.0}]}}\nresponses: {}",
		"template: true\nchat: {messages: [{role: user, content: '{{x}}'}, {role: tool, tool_call_id: a, content: b}]}", "chat: {messages: [{role: tool, tool_call_id: a, content: b}]}",
	} {
		check(t, good+"\n", true)
	}
	for _, bad := range []string{
		"{}", "a: 1\nresponses: {}", "responses: {}\nchat: {}", "responses: {temperature: hot}", "responses: {stream: true}", "responses: {foo: 1}",
		"chat: {instructions: a}", "messages: {temperature: 1, max_tokens: 1.5}", "name: ''\nresponses: {}", "status: archived\nresponses: {}", "labels: {latest: 1}\nresponses: {}",
		"labels: {'12': 1}\nresponses: {}", "labels: {a: 0}\nresponses: {}", "labels: {a: newest}\nresponses: {}", "labels: {a: {split: []}}\nresponses: {}", "labels: {a: {version: 1}}\nresponses: {}",
		"labels: {a: {split: [{version: 1}]}}\nresponses: {}", "labels: {a: {split: [{version: 1, weight: 10001}]}}\nresponses: {}", "policy: {locks: []}\nresponses: {}", "policy: {lock: [nothing]}\nresponses: {}",
		"template: 'yes'\nresponses: {}", "earlier: [{}]\nresponses: {}", "earlier: [{message: '', chat: {}}]\nresponses: {}", "responses: {tools: [{type: function}]}", "messages: {fallbacks: [{model: m}], models: []}",
		"chat: {messages: [{role: nobody}]}", "chat: {messages: [{role: system, content: 1}]}", "responses: [a]", "description: [a]\nresponses: {}", "responses: {model: '@preset/a'}",
		`name: "a\nb"` + "\nresponses: {}", `description: "a\eb"` + "\nresponses: {}",
	} {
		check(t, bad+"\n", false)
	}
}

// TestWorkspaceSchemaAgrees is TestSchemaAgrees for the file of a workspace.
func TestWorkspaceSchemaAgrees(t *testing.T) {
	compiled := compilePublished(t, "workspace.schema.json")
	for text, good := range map[string]bool{
		"name: Team A\ndescription: null\ndefault_text_model: m\ndefault_provider_sort: price\ndisabled_server_tools: ['openrouter:web_search']\nio_logging_sampling_rate: 0.50\n": true,
		`description: "a\nb"`: true, `name: "a\nb"`: false, `description: "a\x7f"`: false,
		"{}": true, "slug: a": false, "unknown: 1": false, "name: 1": false, "default_provider_sort: best": false, "disabled_server_tools: [web_search]": false,
	} {
		checkAgreement(t, compiled, ".workspace.yaml", text, good)
	}
}
