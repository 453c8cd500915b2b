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

// The OpenAPI documents, by the names of their files.
const (
	apiDocument   = "openapi.yaml"
	adminDocument = "openapi-admin.yaml"
)

// openAPIBases are the handwritten parts of the documents. The components of both are in that
// of apiDocument.
var openAPIBases = map[string]string{
	apiDocument:   filepath.Join("openapi", "base.yaml"),
	adminDocument: filepath.Join("openapi", "base-admin.yaml"),
}

// description is the document's text on an operation, in addition to its row in a route
// table.
type description struct {
	tag, summary string
	success      string // the answer, of components/responses; its status is 200 unless it begins with one
	parameters   string // of components/parameters, besides those of all such operations
	about        string // what the summary does not say
}

// descriptions are by the name of the operation.
var descriptions = map[string]description{
	"preset_list": {
		"presets", "List presets", "Presets", "q status sort order offset limit",
		"A page of the workspace's presets, without their versions. Walk the pages as docs/api.md says, since others may write meanwhile.",
	},
	"preset_get": {
		"presets", "Get a preset", "Preset", "",
		"The preset with the version that requests get. Its entity tag is the condition of a change.",
	},
	"preset_update": {
		"presets", "Change the name, the description or the status of a preset", "Preset", "",
		"Absent members stay as they are. Null clears the description, the policy and the owner.",
	},
	"preset_archive": {
		"presets", "Archive a preset; its slug stays taken", "Deleted", "",
		"Requests and lists no longer see the preset. Its versions, labels and history stay, and a second removal changes nothing.",
	},
	"preset_restore": {
		"presets", "Restore an archived preset", "Preset", "",
		"The preset is active again, with the versions and labels that it had.",
	},
	"preset_create_responses": {
		"presets", "Create a preset, or its next version, from a responses request", "Preset", "designate template label_to_set message",
		"The settings and the instructions become the version. The input is dropped, unless the version is a template.",
	},
	"preset_create_chat": {
		"presets", "Create a preset, or its next version, from a chat completions request", "Preset", "designate template label_to_set message",
		"The settings and the leading system and developer messages become the version. Other messages are dropped, unless the version is a template.",
	},
	"preset_create_messages": {
		"presets", "Create a preset, or its next version, from a messages request", "Preset", "designate template label_to_set message",
		"The settings and the system prompt become the version. The messages are dropped, unless the version is a template.",
	},
	"preset_designate": {
		"versions", "Make another version the one that serves requests", "Preset", "",
		"Requests that name the preset alone get that version. The body names it by its number or by a label without a split.",
	},
	"preset_diff": {
		"versions", "Compare two versions of a preset", "Diff", "from to",
		"The changes of the settings and of the template as JSON Patches, and a unified diff of the system prompts.",
	},
	"preset_history": {
		"presets", "List the changes of a preset, also of an archived one", "History", "offset limit",
		"Who changed what, with which key, and which version requests got before and after.",
	},
	"preset_usage": {
		"usage", "Report what requests with a preset used", "Usage", "usage_from usage_to usage_step preset_usage_by usage_label usage_since",
		"Requests, tokens, cost and times as rows of hours or days, if the server measures usage.",
	},
	"preset_feedback": {
		"usage", "Say how well a request with a preset did", "202 Feedback", "",
		"The request is named by its X-Preset-Request-Id or by its session. The score counts for the version that answered.",
	},
	"version_list": {
		"versions", "List the versions of a preset", "Versions", "fields offset limit",
		"All versions that were not pruned, in the order of their numbers.",
	},
	"version_get": {
		"versions", "Get a version of a preset", "Version", "",
		"A version never changes. Only designated, labels and last_served_at say what became of it.",
	},
	"label_get": {
		"labels", "Get a label with its history", "Label", "offset limit",
		"What the label stands for and who moved it. A deleted label is found, too, with its history.",
	},
	"label_put": {
		"labels", "Make a label stand for a version or a split", "Label", "",
		"The label is made if it does not exist. Requests that name it get the version, or one of the split, at once.",
	},
	"label_delete": {
		"labels", "Remove a label; its history stays", "Deleted", "",
		"Requests that name the label get 404 from then on.",
	},
	"workspace_list": {
		"workspaces", "List workspaces", "Workspaces", "offset limit",
		"All workspaces that the key sees, the oldest first.",
	},
	"workspace_create": {
		"workspaces", "Create a workspace", "201 Workspace", "",
		"A taken slug is refused, with or without a condition. Members that may be null take their default for it.",
	},
	"workspace_get": {
		"workspaces", "Get a workspace", "Workspace", "",
		"The workspace with its defaults, by its id or slug.",
	},
	"workspace_update": {
		"workspaces", "Change a workspace", "Workspace", "",
		"Absent members stay as they are. The slug of the workspace default cannot be changed.",
	},
	"workspace_usage": {
		"usage", "Report what requests used in a workspace", "Usage", "usage_from usage_to usage_step workspace_usage_by",
		"The report of a preset for all requests of the workspace, also for those without a preset.",
	},
	"workspace_history": {
		"workspaces", "List the changes of a workspace, its presets and the keys that act only in it", "History", "offset limit",
		"The changes of all of them in one list, the newest first.",
	},
	"workspace_delete": {
		"workspaces", "Delete a workspace in which no live key acts, with its presets", "Deleted", "confirm_default_workspace_deletion",
		"The presets are gone for good. The workspace default is made again at once, empty.",
	},

	"inference_chat": {
		"inference", "Run a chat completions request", "Inference", "X-Session-Id X-Preset-Dry-Run",
		"The preset that the request names is merged into it, and the gateway answers.",
	},
	"inference_responses": {
		"inference", "Run a responses request", "Inference", "X-Session-Id X-Preset-Dry-Run",
		"Like chat completions, in the terms of the responses API.",
	},
	"inference_messages": {
		"inference", "Run a messages request", "Inference", "X-Session-Id X-Preset-Dry-Run",
		"Like chat completions, in the terms of the messages API.",
	},
	"models_list": {
		"inference", "List the models of the gateway and the presets", "Models", "",
		"Without list_models the gateway's answer passes unchanged.",
	},
	"model_get": {
		"inference", "Get a model of the gateway, or a preset as one", "Model", "",
		"A preset is found by its name as a model, such as @preset/email-copywriter.",
	},

	"inference_responses_count": {
		"inference", "Count the tokens of a responses request", "Inference", "X-Session-Id X-Preset-Dry-Run",
		"The gateway counts the merged request, and runs nothing.",
	},
	"inference_messages_count": {
		"inference", "Count the tokens of a messages request", "Inference", "X-Session-Id X-Preset-Dry-Run",
		"The gateway counts what the merged messages request has, and runs nothing.",
	},
	"inference_responses_compact": {
		"inference", "Compact the conversation of a responses request", "Inference", "X-Session-Id X-Preset-Dry-Run",
		"The preset is merged as on responses, and the gateway shortens the conversation.",
	},

	"key_create": {
		"keys", "Issue a key", "201 NewIssuedKey", "store",
		"The secret is in this response alone. Limits narrow what an inference key reaches.",
	},
	"key_list": {
		"keys", "List the issued keys", "IssuedKeys", "store",
		"Revoked and expired keys are listed until they are removed. No secret is shown.",
	},
	"key_get": {
		"keys", "Get an issued key", "IssuedKey", "store",
		"The key by its id, also when it is no longer live.",
	},
	"key_revoke": {
		"keys", "Revoke a key", "IssuedKey", "store",
		"The key stops working at once. Revoking it again changes nothing.",
	},
	"key_remove": {
		"keys", "Remove a revoked or expired key", "IssuedKey", "store",
		"The record of the key goes, and the audit trail stays. A live key is refused.",
	},
	"key_prune": {
		"keys", "Remove all revoked and expired keys", "PrunedKeys", "store",
		"With older_than only those that ended that long ago.",
	},
	"audit_list": {
		"audit", "Read the audit trail", "Audit", "store after audit_limit",
		"Records from a number on. The head tells whether the trail was changed, if it is compared with an earlier one.",
	},
	"version_prune": {
		"store", "Remove old versions of presets, for good", "Pruned", "store",
		"Designated and labelled versions stay. The space comes back by and by.",
	},
	"backup_get": {
		"store", "Back up the store", "Backup", "store",
		"A checked stream of all records, which every engine can restore. It is encrypted if the store is.",
	},
	"store_restore": {
		"store", "Restore a backup into a new store", "Restored", "store",
		"The store is unavailable until a restore has succeeded. An engine that cannot do this answers 400.",
	},
	"store_verify": {
		"store", "Look for damage in the store", "Verdict", "store",
		"Reads all stored data and compares their checksums, which takes a while.",
	},
	"health_get": {
		"store", "Get the state of all stores", "Health", "store",
		"For monitoring: a store that cannot be read makes it a 503.",
	},
	"openapi_get": {
		"documents", "Get the document of the API", "OpenAPI", "",
		"It describes presets, workspaces and inference at a site.",
	},
	"openapi_admin_get": {
		"documents", "Get the document of this endpoint", "OpenAPI", "",
		"It describes keys, the audit trail and the store.",
	},
}

// refusals are the error answers by status.
var refusals = map[int]string{
	http.StatusBadRequest:            "The body or a parameter breaks a rule.",
	http.StatusUnauthorized:          "There is no key, or not a live one.",
	http.StatusForbidden:             "The key does not permit this, or the workspace does not.",
	http.StatusNotFound:              "There is no such object.",
	http.StatusMethodNotAllowed:      "The path does not offer this method. Allow lists those that it offers.",
	http.StatusRequestTimeout:        "The body took too long to arrive.",
	http.StatusConflict:              "The preset is not active, or has no version that a draft could follow. Or too many others changed it at the same time. Or feedback is not taken, because usage is not measured.",
	http.StatusPreconditionFailed:    "The object is not in the state that the request names.",
	http.StatusRequestEntityTooLarge: "The body is too large.",
	http.StatusUnsupportedMediaType:  "The body is not JSON, or has a content encoding that is not known.",
	http.StatusBadGateway:            "The gateway cannot be reached.",
	http.StatusGatewayTimeout:        "The gateway does not answer in time.",
	http.StatusUnprocessableEntity:   "The Idempotency-Key was used for another request.",
	http.StatusTooManyRequests:       "The client's address has failed to authenticate too often, and the key was not looked at.",
	statusHeadersTooLarge:            "The headers are larger than the server's max_header_size. Go's HTTP server refuses them, so the body is its text.",
	http.StatusInternalServerError:   "It is the server's fault.",
	http.StatusServiceUnavailable:    "Nothing was changed: the disk is full, or the store cannot be used.",
}

const statusHeadersTooLarge = http.StatusRequestHeaderFieldsTooLarge

// pathParameters name the segments {} of paths by the segment before them.
var pathParameters = map[string]string{"models": "model"}

// errorSchemas are the schemas of the errors of each inference API.
var errorSchemas = map[domain.Dialect]string{
	domain.Chat: "Error", domain.Responses: "ResponsesError", domain.Messages: "MessagesError",
}

// gatewayRequests are the schemas of each inference API's requests. Mostly the gateway
// checks their members, not we.
var gatewayRequests = map[domain.Dialect]string{
	domain.Chat: "GatewayChatRequest", domain.Responses: "GatewayResponsesRequest", domain.Messages: "GatewayMessagesRequest",
}

// newOpenAPI generates an OpenAPI document, in YAML, from the route tables, the schema files,
// openAPIBases and descriptions.
func newOpenAPI(name string) ([]byte, error) {
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	root, err := readBase(name)
	if err != nil {
		return nil, err
	}
	base, err := readBase(apiDocument)
	if err != nil {
		return nil, err
	}
	components := memberNode(base, "components")
	d := openAPI{
		schemas:   memberNode(components, "schemas"),
		responses: memberNode(components, "responses"),
		paths:     make(map[string]map[string]any),
	}
	if d.files, err = readFiles(os.DirFS(filepath.Join("..", "schema"))); err != nil {
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
	all := d.endpoints(schemas)
	if name == adminDocument {
		all = d.adminEndpoints(schemas)
	}
	requests, responses, err := readExamples()
	if err != nil {
		return nil, err
	}
	for component, example := range members(responses) {
		response := memberNode(d.responses, component)
		if response == nil {
			return nil, fmt.Errorf("%s has an example of %s, which is no response", openAPIExamples, component)
		}
		addExample(memberNode(response, "content"), example)
	}
	d.requests = requests
	for _, e := range all {
		e.refusals = append(e.refusals, statusHeadersTooLarge)
		if err := d.add(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := nameTypes(components); err != nil {
		return nil, err
	}
	*memberNode(root, "paths") = *newNode(d.paths)
	removeUnused(components, root)
	*memberNode(root, "components") = *components
	root.Content[0].HeadComment = "# Generated by a test of caddymodule. Do not edit: go generate ./caddymodule/openapi"
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// readBase returns the handwritten part of a document.
func readBase(name string) (*yaml.Node, error) {
	text, err := os.ReadFile(openAPIBases[name])
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	return document.Content[0], nil
}

// removeUnused removes the components that the paths of a document do not lead to, and the
// security schemes of a document whose requests need none.
func removeUnused(components, root *yaml.Node) {
	used := make(map[string]bool)
	var follow func(n *yaml.Node)
	follow = func(n *yaml.Node) {
		if ref := memberNode(n, "$ref"); ref != nil && !used[ref.Value] {
			used[ref.Value] = true
			kind, name, _ := strings.Cut(strings.TrimPrefix(ref.Value, "#/components/"), "/")
			if target := memberNode(memberNode(components, kind), name); target != nil {
				follow(target)
			}
		}
		for _, part := range n.Content {
			follow(part)
		}
	}
	follow(memberNode(root, "paths"))
	for kind, all := range members(copyNode(components)) {
		if kind == "securitySchemes" && len(memberNode(root, "security").Content) > 0 {
			continue
		}
		kept := memberNode(components, kind)
		for name := range members(all) {
			if !used["#/components/"+kind+"/"+name] {
				takeMember(kept, name)
			}
		}
		if len(kept.Content) == 0 {
			takeMember(components, kind)
		}
	}
}

// openAPI is a document during its generation.
type openAPI struct {
	schemas, responses *yaml.Node
	requests           *yaml.Node // the examples of their bodies, by operation
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

// endpoints returns all operations of the API.
func (d *openAPI) endpoints(schemas *schema.Schemas) (all []endpoint) {
	inference := domain.Principal{Kind: domain.InferenceKey}
	open := (&Handler{PresetCreators: creatorsAny}).routes(schemas)
	for i, op := range new(Handler).routes(schemas) {
		e := endpoint{
			name: op.name, method: op.method, path: op.path, errors: "Error",
			refusals: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable},
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
				http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests,
				http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
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
	return all
}

// adminEndpoints returns all operations of the admin endpoint.
func (d *openAPI) adminEndpoints(schemas *schema.Schemas) (all []endpoint) {
	for _, op := range admin.Routes(schemas) {
		e := endpoint{
			name: op.Name, method: op.Method, path: op.Path, errors: "AdminError",
			needs: "A request by fetch needs an Origin header that Caddy allows.", parameters: []string{"Origin"},
			refusals: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusInternalServerError, http.StatusServiceUnavailable},
		}
		switch {
		case op.Dump:
			e.body = map[string]any{"required": true, "content": map[string]any{admin.DumpType: map[string]any{"schema": map[string]string{"type": "string", "format": "binary"}}}}
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
		name, err := d.refusal(e.errors, status)
		if err != nil {
			return err
		}
		responses[strconv.Itoa(status)] = referenceTo("responses", name)
	}
	if e.body != nil {
		e.body = newNode(e.body)
		example := memberNode(d.requests, e.name)
		if example == nil {
			return fmt.Errorf("its body has no example in %s", openAPIExamples)
		}
		addExample(memberNode(e.body.(*yaml.Node), "content"), example)
	}
	if e.unhealthy {
		responses["503"] = referenceTo("responses", success)
	}
	item := d.paths[strings.Join(path, "/")]
	if item == nil {
		item = make(map[string]any)
		d.paths[strings.Join(path, "/")] = item
	}
	item[strings.ToLower(e.method)] = documented{
		Summary: about.summary, Description: strings.TrimSpace(about.about + " " + e.needs), ID: e.name, Tags: []string{about.tag}, Security: e.security,
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
func (d *openAPI) refusal(schema string, status int) (name string, err error) {
	name = schema + strconv.Itoa(status)
	if status == statusHeadersTooLarge {
		name = "HeadersTooLarge"
	}
	if memberNode(d.responses, name) != nil {
		return name, nil
	}
	about := refusals[status]
	if schema == "AdminError" && status == http.StatusForbidden {
		about = "Caddy does not allow the request's Origin or Host."
	}
	answer := map[string]any{"description": about, "content": jsonContent(schema)}
	headers := make(map[string]any)
	if schema != "AdminError" {
		headers["X-Request-Id"] = referenceTo("headers", "X-Request-Id")
	}
	if schema == "MessagesError" {
		headers["Request-Id"] = referenceTo("headers", "Request-Id")
	}
	if schema == "Error" { // reports vary by Accept, and models by the key
		headers["Vary"] = referenceTo("headers", "Vary")
	}
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if schema != "AdminError" {
			headers["Retry-After"] = referenceTo("headers", "Retry-After")
		}
	case http.StatusUnauthorized:
		headers["WWW-Authenticate"] = referenceTo("headers", "WWW-Authenticate")
	case http.StatusMethodNotAllowed:
		headers["Allow"] = referenceTo("headers", "Allow")
	case statusHeadersTooLarge:
		headers = nil
		text := map[string]any{"schema": map[string]string{"type": "string"}, "example": "431 Request Header Fields Too Large"}
		answer["content"] = map[string]any{"text/plain": text}
	}
	if len(headers) > 0 {
		answer["headers"] = headers
	}
	response := newNode(answer)
	if status != statusHeadersTooLarge {
		example, err := exampleOfError(schema, status)
		if err != nil {
			return "", err
		}
		addExample(memberNode(response, "content"), example)
	}
	putNode(d.responses, name, response)
	return name, nil
}

// memberNode returns a member of a mapping, or nil.
func memberNode(object *yaml.Node, name string) *yaml.Node {
	if object.Kind != yaml.MappingNode {
		return nil
	}
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
