package caddymodule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// Inference resolves presets in inference requests. These are POSTs to /chat/completions,
// /responses and /messages below the base path, and to /responses/compact,
// /responses/input_tokens, /messages/count_tokens, /images/generations and /images. A request names a preset by the model "@preset/<slug>" or
// "<model>@preset/<slug>", or by a field preset. "@<version>" or "@<label>" may follow the
// slug. A field prompt names it as OpenAI's clients do, and has the values of a template's
// variables. The preset is merged into the request, which then goes upstream.
//
// A request that names no preset goes upstream byte for byte (but see Attribution, and that a request for images
// without a model gets the default_image_model of its workspace). One that uses a server tool
// that its workspace has disabled is refused. On any other POST of JSON below the base
// path, a model that names a preset is refused. Other routes are not searched for server
// tools (see OtherRoutes).
type Inference struct {
	// The requests that need a live inference key of ours. With "everywhere", all
	// requests to the gateway need one. With "required", only inference requests do,
	// and other routes are open to everyone. With "optional", other credentials pass,
	// and their requests resolve in the workspace default. With "off", nothing is
	// authenticated, and all requests resolve in the workspace default. A live key
	// acts in its own workspace, unless this is "off". A key of ours never goes
	// upstream. Default: everywhere
	Keys string `json:"keys,omitempty"`

	// Top-level fields that the gateway behind does not know. They are left
	// out of requests that name a preset.
	DropFields []string `json:"drop_fields,omitempty"`

	// Top-level fields that pass, whatever is in them, although the request's API does not
	// have them. Where a policy, the limits of a key or disabled tools apply, other such
	// fields are refused. Default: none
	AllowFields []string `json:"allow_fields,omitempty"`

	// Whether the active presets of the caller's workspace are models. With "on", the answer to a GET
	// of /models below the base path lists them, and a GET of /models/@preset/<slug> reads
	// one. With "labels", each of their labels is one, too. Default: off
	ListModels string `json:"list_models,omitempty"`

	// The largest inference request, in bytes. It is read into memory. Larger ones are
	// refused. On routes where presets are not resolved, larger ones pass.
	// Default: 33554432 (32 MiB), but at most a sixteenth of Go's memory limit in whole
	// MiB, and at least 1 MiB
	MaxBodySize int64 `json:"max_body_size,omitempty"`

	// How much memory the bodies of inference requests may take at once, in bytes. Those
	// of all handlers in the process count. A body counts, packed and unpacked, until
	// the gateway has read it. Lists of models count until the client has read them, and
	// take at most half. A request beyond the limit is refused with 503 at once.
	// The least is twice max_body_size and 2 MiB. Default: 134217728 (128 MiB), or four
	// times max_body_size if that is more; but at most half of Go's memory limit
	MaxMemory int64 `json:"max_memory,omitempty"`

	// Whether requests to routes on which no preset is resolved pass, although the
	// caller's workspace has disabled server tools. "pass" hands them to the gateway.
	// "refuse" answers them with 403, except GET, HEAD and OPTIONS without a body or an
	// upgrade. It needs keys "everywhere" or "off". Default: pass
	OtherRoutes string `json:"other_routes,omitempty"`

	// The paths of other routes that a key with limits may use. Without them it may use the
	// routes on which presets are resolved, and read the list of models and the models that
	// it may name. A path is decoded and complete, such as /health/liveliness. One that ends
	// in /* stands for all paths below it. Letter case counts. Default: none
	LimitedPaths []string `json:"limited_paths,omitempty"`

	// The handling of a request that names a prompt alone, if no preset has the prompt's id.
	// The field prompt or prompt_id names it. "refuse" answers the request with 404. "pass"
	// hands it to the gateway, unless its key is limited or server tools are disabled in its
	// workspace. Default: refuse
	UnknownPrompts string `json:"unknown_prompts,omitempty"`

	// The block with which Claude Code begins the system prompt of requests to /messages and
	// /messages/count_tokens. Its text is a line that begins with
	// "x-anthropic-billing-header:", and differs with each request. "keep" leaves it in first
	// place, as Anthropic's API needs it. "drop" leaves it out, also where no preset is named,
	// because it spoils the prompt caches of other upstreams. Default: keep
	Attribution string `json:"attribution,omitempty"`

	// The handling of a request for a WebSocket on an inference route. "refuse" answers it with
	// 426, so that Codex goes on over HTTP. "pass" hands it to the gateway. What is sent through
	// a WebSocket is not read: no preset is resolved, and no policy holds. Default: refuse
	WebSockets string `json:"websockets,omitempty"`

	// The measurement of tokens, cost and time of inference requests. Without it nothing is
	// measured.
	Usage *Usage `json:"usage,omitempty"`

	// Whether workspaces may log the content of their requests. With it, a workspace whose
	// is_observability_io_logging_enabled is true writes its requests and their answers to the
	// logger http.handlers.presets.io, which the default log must exclude. It measures usage,
	// too. Default: false
	IOLog bool `json:"io_log,omitempty"`

	// Whether workspaces may have the content of their requests in traces. With it, a workspace
	// whose is_observability_broadcast_enabled is true has its requests and their answers in
	// attributes of the span of the tracing handler. It measures usage, too. Default: false
	Broadcast bool `json:"broadcast,omitempty"`

	resolver *inference.Resolver
}

const (
	keysEverywhere = "everywhere"
	keysRequired   = "required"
	keysOptional   = "optional"
	keysOff        = "off"

	listOff    = "off"
	listOn     = "on"
	listLabels = "labels"

	otherRoutesPass   = "pass"
	otherRoutesRefuse = "refuse"

	promptsRefuse = "refuse"
	promptsPass   = "pass"

	attributionKeep = "keep"
	attributionDrop = "drop"

	webSocketsRefuse = "refuse"
	webSocketsPass   = "pass"
)

// choices are the settings that are one of some words.
func (i *Inference) choices() []directive.Choice {
	return []directive.Choice{
		{Name: "keys", Value: &i.Keys, Words: []string{keysEverywhere, keysRequired, keysOptional, keysOff}},
		{Name: "list_models", Value: &i.ListModels, Words: []string{listOff, listOn, listLabels}},
		{Name: "other_routes", Value: &i.OtherRoutes, Words: []string{otherRoutesPass, otherRoutesRefuse}},
		{Name: "unknown_prompts", Value: &i.UnknownPrompts, Words: []string{promptsRefuse, promptsPass}},
		{Name: "attribution", Value: &i.Attribution, Words: []string{attributionKeep, attributionDrop}},
		{Name: "websockets", Value: &i.WebSockets, Words: []string{webSocketsRefuse, webSocketsPass}},
	}
}

// lists are the settings that are lists.
func (i *Inference) lists() []directive.List {
	return []directive.List{
		{Name: "drop_fields", Values: &i.DropFields, What: "names of fields", Check: checkDropField},
		{Name: "allow_fields", Values: &i.AllowFields, What: "names of fields", Check: checkFieldName},
		{Name: "limited_paths", Values: &i.LimitedPaths, What: "paths", Check: checkLimitedPath},
	}
}

// provision sets defaults and prepares to resolve from store. It caches in memory.
func (i *Inference) provision(store domain.Store, memory *domain.Memory) error {
	for _, c := range i.choices() {
		if err := c.Provision(); err != nil {
			return err
		}
	}
	for _, l := range i.lists() {
		if err := l.Provision(); err != nil {
			return err
		}
	}
	if i.OtherRoutes == otherRoutesRefuse && i.Keys != keysEverywhere && i.Keys != keysOff {
		return errors.New("other_routes: refuse needs keys everywhere, or off: a caller in a workspace with disabled tools could leave out its key")
	}
	if err := i.provisionMemory(); err != nil {
		return err
	}
	if (i.IOLog || i.Broadcast) && i.Usage == nil { // which reads the answers
		i.Usage = new(Usage)
	}
	if i.Usage != nil {
		if err := i.Usage.provision(); err != nil {
			return fmt.Errorf("usage: %w", err)
		}
	}
	i.resolver = inference.NewResolver(store, inference.Config{
		Memory: memory, DropFields: i.DropFields, AllowFields: i.AllowFields, PassUnknownPrompts: i.UnknownPrompts == promptsPass,
		TellModel: i.Usage != nil, AddStreamUsage: i.Usage.addsStreamUsage(), DropAttribution: i.Attribution == attributionDrop,
	})
	return nil
}

// fieldName matches the names that drop_fields and allow_fields may hold: the former go into a header.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func checkFieldName(field string) error {
	if !fieldName.MatchString(field) {
		return fmt.Errorf("must be names of letters, digits, _ . and -, got %q", field)
	}
	return nil
}

func checkDropField(field string) error {
	if err := checkFieldName(field); err != nil {
		return err
	}
	if slices.Contains(domain.NeverDropped, field) {
		return fmt.Errorf("%s cannot be dropped", field)
	}
	return nil
}
