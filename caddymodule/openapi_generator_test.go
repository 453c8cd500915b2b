package caddymodule

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// openAPIBase is the handwritten part of the OpenAPI document.
var openAPIBase = filepath.Join("openapi", "base.yaml")

// description is the document's text on an operation, in addition to its row in a route
// table.
type description struct {
	tag, summary string
	success      string // the answer, of components/responses; its status is 200 unless it begins with one
	parameters   string // of components/parameters, besides those of all such operations
}

// descriptions are by the name of the operation.
var descriptions = map[string]description{
	"preset_list":             {"presets", "List presets", "Presets", "q status sort order offset limit"},
	"preset_get":              {"presets", "Get a preset", "Preset", ""},
	"preset_update":           {"presets", "Change the name, the description or the status of a preset", "Preset", ""},
	"preset_archive":          {"presets", "Archive a preset; its slug stays taken", "Deleted", ""},
	"preset_restore":          {"presets", "Restore an archived preset", "Preset", ""},
	"preset_create_responses": {"presets", "Create a preset, or its next version, from a responses request", "Preset", "designate template label_to_set message"},
	"preset_create_chat":      {"presets", "Create a preset, or its next version, from a chat completions request", "Preset", "designate template label_to_set message"},
	"preset_create_messages":  {"presets", "Create a preset, or its next version, from a messages request", "Preset", "designate template label_to_set message"},
	"preset_designate":        {"versions", "Make another version the one that serves requests", "Preset", ""},
	"preset_diff":             {"versions", "Compare two versions of a preset", "Diff", "from to"},
	"preset_history":          {"presets", "List the changes of a preset, also of an archived one", "History", "offset limit"},
	"preset_usage":            {"usage", "Report what requests with a preset used", "Usage", "usage_from usage_to usage_step preset_usage_by usage_label usage_since"},
	"preset_feedback":         {"usage", "Say how well a request with a preset did", "202 Feedback", ""},
	"version_list":            {"versions", "List the versions of a preset", "Versions", "fields offset limit"},
	"version_get":             {"versions", "Get a version of a preset", "Version", ""},
	"label_get":               {"labels", "Get a label with its history", "Label", "offset limit"},
	"label_put":               {"labels", "Make a label stand for a version or a split", "Label", ""},
	"label_delete":            {"labels", "Remove a label; its history stays", "Deleted", ""},
	"workspace_list":          {"workspaces", "List workspaces", "Workspaces", "offset limit"},
	"workspace_create":        {"workspaces", "Create a workspace", "201 Workspace", ""},
	"workspace_get":           {"workspaces", "Get a workspace", "Workspace", ""},
	"workspace_update":        {"workspaces", "Change a workspace", "Workspace", ""},
	"workspace_usage":         {"usage", "Report what requests used in a workspace", "Usage", "usage_from usage_to usage_step workspace_usage_by"},
	"workspace_history":       {"workspaces", "List the changes of a workspace, its presets and the keys that act only in it", "History", "offset limit"},
	"workspace_delete":        {"workspaces", "Delete a workspace in which no live key acts, with its presets", "Deleted", "confirm_default_workspace_deletion"},

	"inference_chat":      {"inference", "Run a chat completions request", "Inference", "X-Session-Id X-Preset-Dry-Run"},
	"inference_responses": {"inference", "Run a responses request", "Inference", "X-Session-Id X-Preset-Dry-Run"},
	"inference_messages":  {"inference", "Run a messages request", "Inference", "X-Session-Id X-Preset-Dry-Run"},
	"models_list":         {"inference", "List the models of the gateway and the presets", "Models", ""},
	"model_get":           {"inference", "Get a model of the gateway, or a preset as one", "Model", ""},

	"inference_responses_count":   {"inference", "Count the tokens of a responses request", "Inference", "X-Session-Id X-Preset-Dry-Run"},
	"inference_responses_compact": {"inference", "Compact the conversation of a responses request", "Inference", "X-Session-Id X-Preset-Dry-Run"},
	"inference_messages_count":    {"inference", "Count the tokens of a messages request", "Inference", "X-Session-Id X-Preset-Dry-Run"},

	"key_create":           {"admin", "Issue a key", "201 NewIssuedKey", "store"},
	"key_list":             {"admin", "List the issued keys", "IssuedKeys", "store"},
	"key_get":              {"admin", "Get an issued key", "IssuedKey", "store"},
	"key_revoke":           {"admin", "Revoke a key", "IssuedKey", "store"},
	"key_remove":           {"admin", "Remove a revoked or expired key", "IssuedKey", "store"},
	"key_prune":            {"admin", "Remove all revoked and expired keys", "PrunedKeys", "store"},
	"audit_list":           {"admin", "Read the audit trail", "Audit", "store after audit_limit"},
	"version_prune":        {"admin", "Remove old versions of presets, for good", "Pruned", "store"},
	"backup_get":           {"admin", "Back up the store", "Backup", "store"},
	"store_export":         {"admin", "Export the store, for whichever engine", "Export", "store"},
	"store_import":         {"admin", "Import an export into a store that is empty", "Imported", "store"},
	"store_abandon_import": {"admin", "Give an unfinished import up for good", "AbandonedImport", "store"},
	"store_verify":         {"admin", "Look for damage in the store", "Verdict", "store"},
	"health_get":           {"admin", "Get the state of all stores", "Health", "store"},
	"openapi_get":          {"admin", "Get this document", "OpenAPI", ""},
}

// refusals are the error answers by status.
var refusals = map[int]string{
	http.StatusBadRequest:            "The body or a parameter breaks a rule.",
	http.StatusUnauthorized:          "There is no key, or not a live one.",
	http.StatusForbidden:             "The key does not permit this, or the workspace does not.",
	http.StatusNotFound:              "There is no such object.",
	http.StatusRequestTimeout:        "The body took too long to arrive.",
	http.StatusConflict:              "The preset is not active, or has no version that a draft could follow. Or too many others changed it at the same time. Or feedback is not taken, because usage is not measured.",
	http.StatusPreconditionFailed:    "The object is not in the state that the request names.",
	http.StatusRequestEntityTooLarge: "The body is too large.",
	http.StatusUnsupportedMediaType:  "The body is not JSON, or has a content encoding.",
	http.StatusUnprocessableEntity:   "The Idempotency-Key was used for another request.",
	http.StatusTooManyRequests:       "The client's address has failed to authenticate too often, and the key was not looked at.",
	http.StatusInternalServerError:   "It is the server's fault.",
	http.StatusServiceUnavailable:    "Nothing was changed: the disk is full, or the store cannot be used.",
}

// pathParameters name the segments {} of paths by the segment before them.
var pathParameters = map[string]string{"keys": "key", "models": "model"}

// errorSchemas are the schemas of the errors of each inference API.
var errorSchemas = map[domain.Dialect]string{
	domain.Chat: "Error", domain.Responses: "ResponsesError", domain.Messages: "MessagesError",
}

// gatewayRequests are the schemas of each inference API's requests. Mostly the gateway
// checks their members, not we.
var gatewayRequests = map[domain.Dialect]string{
	domain.Chat: "GatewayChatRequest", domain.Responses: "GatewayResponsesRequest", domain.Messages: "GatewayMessagesRequest",
}

// newOpenAPI generates the OpenAPI document of all operations, in YAML, from the route
// tables, the schema files, openAPIBase and descriptions.
func newOpenAPI() ([]byte, error) {
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	base, err := os.ReadFile(openAPIBase)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(base, &document); err != nil {
		return nil, err
	}
	root := document.Content[0]
	components := memberNode(root, "components")
	d := openAPI{
		schemas:   memberNode(components, "schemas"),
		responses: memberNode(components, "responses"),
		paths:     make(map[string]map[string]any),
	}
	if d.files, err = readFiles(schema.Files()); err != nil {
		return nil, err
	}
	var bodies []string
	for _, op := range new(Handler).routes(schemas) {
		if op.body.Schema != nil {
			bodies = append(bodies, op.body.File())
		}
	}
	for _, op := range admin.Routes(schemas) {
		if op.Body != nil {
			bodies = append(bodies, op.Body.File())
		}
	}
	if err := d.addFiles(bodies); err != nil {
		return nil, err
	}
	for _, e := range d.endpoints(schemas) {
		if err := d.add(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	*memberNode(root, "paths") = *newNode(d.paths)
	root.Content[0].HeadComment = "# Generated by a test of caddymodule. Do not edit: go test ./caddymodule -run OpenAPI -update"
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// openAPI is the document during its generation.
type openAPI struct {
	schemas, responses *yaml.Node
	files              schemaFiles
	paths              map[string]map[string]any
}

// endpoint is an operation of any route table.
type endpoint struct {
	name, method, path string
	needs              string // the key that it requires, empty if described elsewhere
	body               any    // nil for none
	parameters         []string
	refusals           []int
	errors             string // the schema of refusals
	security           any    // nil for the usual ones
	servers            any    // of the path, nil for the usual ones
	unhealthy          bool   // a 503 is the success with other values
}

// bodyObject returns a Request Body Object.
func bodyObject(schema string, required bool) any {
	return map[string]any{"required": required, "content": jsonContent(schema)}
}

// jsonContent is the content of a body in JSON.
func jsonContent(schema string) any {
	return map[string]any{"application/json": map[string]any{"schema": referenceTo("schemas", schema)}}
}

func referenceTo(kind, name string) map[string]string {
	return map[string]string{"$ref": "#/components/" + kind + "/" + name}
}

// endpoints returns all operations that we serve.
func (d *openAPI) endpoints(schemas *schema.Schemas) (all []endpoint) {
	inference := domain.Principal{Kind: domain.InferenceKey}
	open := (&Handler{PresetCreators: creatorsAny}).routes(schemas)
	for i, op := range new(Handler).routes(schemas) {
		e := endpoint{
			name: op.name, method: op.method, path: op.path, errors: "Error",
			refusals: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable},
		}
		switch {
		case op.authorize(inference) == nil:
			e.needs = "Any key may do it."
		case open[i].authorize(inference) == nil:
			e.needs = "It takes a management key, or any where the directive says preset_creators any."
		default:
			e.needs = "It takes a management key."
		}
		if op.body.Schema != nil {
			e.body = bodyObject(d.files.nameOf(op.body.File()), !op.body.isOptional)
			e.refusals = append(e.refusals, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
		}
		if op.is(inWorkspace) {
			e.parameters = append(e.parameters, "workspace_id")
		}
		if op.is(inWorkspace) || strings.Contains(op.path, "{") {
			e.refusals = append(e.refusals, http.StatusNotFound)
		}
		if op.method != http.MethodGet && !op.is(changes) { // it changes no object
			e.refusals = append(e.refusals, http.StatusConflict)
			all = append(all, e)
			continue
		}
		e.parameters = append(e.parameters, "If-Match", "If-None-Match")
		e.refusals = append(e.refusals, http.StatusPreconditionFailed)
		if op.method != http.MethodGet {
			e.parameters = append(e.parameters, "Idempotency-Key")
			e.refusals = append(e.refusals, http.StatusConflict, http.StatusUnprocessableEntity)
			if strings.HasPrefix(op.path, "presets/") || op.name == "workspace_delete" {
				e.parameters = append(e.parameters, "X-Preset-Owner", "X-Preset-Override")
			}
		}
		all = append(all, e)
	}
	keys := []map[string][]string{{"bearer": {}}, {"apiKey": {}}, {}} // as the inference block configures
	for _, route := range inferenceRoutes {
		all = append(all, endpoint{
			name: route.name, method: http.MethodPost, path: route.path, security: keys,
			body: bodyObject(gatewayRequests[route.dialect], true), errors: errorSchemas[route.dialect],
			refusals: []int{
				http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
				http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
			},
		})
	}
	all = append(all, endpoint{
		name: "models_list", method: http.MethodGet, path: "models", security: keys, errors: "Error",
		refusals: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable},
	}, endpoint{
		name: "model_get", method: http.MethodGet, path: "models/{}", security: keys, errors: "Error",
		refusals: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable},
	})
	for _, op := range admin.Routes(schemas) {
		e := endpoint{
			name: op.Name, method: op.Method, path: op.Path, errors: "AdminError",
			needs: "A request by fetch needs an Origin header that Caddy allows.", parameters: []string{"Origin"},
			refusals: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError, http.StatusServiceUnavailable},
			security: []any{}, servers: adminServers,
		}
		switch {
		case op.Lines:
			e.body = map[string]any{"required": true, "content": map[string]any{admin.LinesType: map[string]any{}}}
		case op.Body != nil:
			e.body = bodyObject(d.files.nameOf(op.Body.File()), true)
			e.refusals = append(e.refusals, http.StatusRequestEntityTooLarge)
		}
		if op.Method != http.MethodGet {
			e.refusals = append(e.refusals, http.StatusConflict)
		}
		e.unhealthy = op.Name == "health_get"
		all = append(all, e)
	}
	return all
}

// adminServers are the servers of the admin endpoint's paths. The prefix presets is part of
// them, to tell these paths from those of presets.
var adminServers = []any{map[string]any{
	"url":         "{admin}" + strings.TrimSuffix(admin.Path, "/"),
	"description": "Caddy's admin endpoint",
	"variables":   map[string]any{"admin": map[string]string{"default": "http://127.0.0.1:2019", "description": "Where the admin endpoint is."}},
}}

// add adds the endpoint's operation to the paths.
func (d *openAPI) add(e endpoint) error {
	about, ok := descriptions[e.name]
	if !ok {
		return errors.New("has no description")
	}
	path := []string{""}
	var parameters []any
	for parent, segment := range segmentsOf(e.path) {
		if strings.HasPrefix(segment, "{") {
			name := cmp.Or(strings.Trim(segment, "{}"), pathParameters[parent])
			if name == "" {
				return fmt.Errorf("no name is known for what follows %q", parent)
			}
			parameters = append(parameters, referenceTo("parameters", name))
			segment = "{" + name + "}"
		}
		path = append(path, segment)
	}
	for _, name := range slices.Concat(strings.Fields(about.parameters), e.parameters) {
		parameters = append(parameters, referenceTo("parameters", name))
	}
	status, success, ok := strings.Cut(about.success, " ")
	if !ok {
		status, success = "200", about.success
	}
	responses := map[string]any{status: referenceTo("responses", success)}
	if slices.Contains(e.parameters, "If-None-Match") && e.method == http.MethodGet {
		responses["304"] = referenceTo("responses", "NotModified")
	}
	for _, status := range e.refusals {
		responses[strconv.Itoa(status)] = referenceTo("responses", d.refusal(e.errors, status))
	}
	if e.unhealthy {
		responses["503"] = referenceTo("responses", success)
	}
	item := d.paths[strings.Join(path, "/")]
	if item == nil {
		item = make(map[string]any)
		d.paths[strings.Join(path, "/")] = item
	}
	if e.servers != nil {
		item["servers"] = e.servers
	}
	item[strings.ToLower(e.method)] = documented{
		Summary: about.summary, Description: e.needs, ID: e.name, Tags: []string{about.tag}, Security: e.security,
		Parameters: parameters, Body: e.body, Responses: responses,
	}
	return nil
}

// documented is an Operation Object.
type documented struct {
	Summary     string         `yaml:"summary"`
	Description string         `yaml:"description,omitempty"`
	ID          string         `yaml:"operationId"`
	Tags        []string       `yaml:"tags"`
	Security    any            `yaml:"security,omitempty"`
	Parameters  []any          `yaml:"parameters,omitempty"`
	Body        any            `yaml:"requestBody,omitempty"`
	Responses   map[string]any `yaml:"responses"`
}

// segmentsOf yields each segment of a path after the one before it.
func segmentsOf(path string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		parent := ""
		for segment := range strings.SplitSeq(path, "/") {
			if !yield(parent, segment) {
				return
			}
			parent = segment
		}
	}
}

// refusal returns the name of the answer of a status with an error of a schema.
func (d *openAPI) refusal(schema string, status int) (name string) {
	name = schema + strconv.Itoa(status)
	if memberNode(d.responses, name) != nil {
		return name
	}
	about := refusals[status]
	if schema == "AdminError" && status == http.StatusForbidden {
		about = "Caddy does not allow the request's Origin or Host."
	}
	answer := map[string]any{"description": about, "content": jsonContent(schema)}
	if schema != "AdminError" {
		headers := map[string]any{"X-Request-Id": referenceTo("headers", "X-Request-Id")}
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			headers["Retry-After"] = referenceTo("headers", "Retry-After")
		}
		answer["headers"] = headers
	}
	putNode(d.responses, name, newNode(answer))
	return name
}

// memberNode returns a member of a mapping, or nil.
func memberNode(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}

// putNode adds a new member to the end of a mapping.
func putNode(object *yaml.Node, name string, value *yaml.Node) {
	object.Content = append(object.Content, newNode(name), value)
}

// newNode returns a value of maps, slices and scalars as a node.
func newNode(value any) *yaml.Node {
	n := new(yaml.Node)
	if err := n.Encode(value); err != nil {
		panic(err) // all values have such types
	}
	restyle(n)
	return n
}

// restyle formats n like the rest of the document: short lists of words on one line, the
// others in blocks.
func restyle(n *yaml.Node) {
	n.Style = 0
	length := 0
	for _, part := range n.Content {
		restyle(part)
		length += len(part.Value) + len(", ")
		if part.Kind != yaml.ScalarNode {
			length += 1000
		}
	}
	if n.Kind == yaml.SequenceNode && length < 100 {
		n.Style = yaml.FlowStyle
	}
}
