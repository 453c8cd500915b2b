// Package caddymodule is the presets handler of Caddy. It has the preset and workspace API,
// the inference requests that name a preset, and the Caddyfile directive. The storage
// engines, the admin endpoint and the commands have packages of their own.
package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	_ "github.com/caddy-presets/caddy-presets/caddymodule/admin"  // the admin endpoint and the commands
	_ "github.com/caddy-presets/caddy-presets/caddymodule/badger" // the default engine
	"github.com/caddy-presets/caddy-presets/caddymodule/console"
	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bundle"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/deadline"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/iolog"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/metrics"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/router"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/sitecheck"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Defaults of the handler's configuration.
const (
	defaultBasePath    = "/v1"
	defaultMaxBodySize = 4 << 20

	creatorsManagement = "management"
	creatorsAny        = "any"
)

// Handler answers the preset and workspace API itself, and serves the console. It applies
// presets to the inference requests that name one. It hands all other requests unchanged to
// the next handler, usually a reverse_proxy to an AI gateway. It refuses methods and paths
// that a gateway could read as another request, and upgrades to anything but WebSocket.
//
// It owns `/presets` and `/workspaces` below the base path, with key_api also `/key` and `/keys`,
// and everything below those. No such request ever reaches the next handler, because it may carry a key that the
// gateway must not see.
type Handler struct {
	// The base path, before /presets, /workspaces, /key and /keys. Default: /v1
	BasePath string `json:"base_path,omitempty"`

	// The storage engine, which keeps presets, workspaces and issued keys. Default: the
	// badger engine in the folder presets/ of Caddy's data folder.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=http.handlers.presets.storage inline_key=engine"`

	// Keys that may manage workspaces and presets, besides the keys issued at
	// run time with `caddy presets key create`.
	ManagementKeys []ConfiguredKey `json:"management_keys,omitempty"`

	// Keys for inference requests, besides the keys issued at run time.
	InferenceKeys []ConfiguredKey `json:"inference_keys,omitempty"`

	// The largest request body to read, in bytes. Default: 4194304 (4 MiB),
	// since a captured request may carry images.
	MaxBodySize int64 `json:"max_body_size,omitempty"`

	// How much memory the caches of this handler may take, in bytes. They hold keys, answers
	// and resolved presets. An encrypted Badger store, or the engine etcd, takes half
	// as much besides. Default: 50331648 (48 MiB), but at most a quarter of Go's memory limit
	Memory int64 `json:"memory,omitempty"`

	// The keys that may create presets and their versions: "management" for
	// management keys alone, "any" for inference keys too. Default: management
	PresetCreators string `json:"preset_creators,omitempty"`

	// Whether /key and /keys below the base path are the API of keys. Management keys with the
	// right issue-keys create, change, rotate and delete inference keys there. Without it these
	// paths are the gateway's. Default: false
	KeyAPI bool `json:"key_api,omitempty"`

	// How many versions of a preset to keep when one is added. Designated and labelled
	// versions are kept besides. Default: all
	KeepVersions int `json:"keep_versions,omitempty"`

	// How many failed authentications a client address may have, at once and in each
	// auth_failure_window; -1 for no limit. IPv6 addresses count by their /64. Beyond
	// the limit, wrong keys from the address are answered with 429. Right keys still
	// work. All handlers of one store share the count, each with its own limit. The
	// count is in memory for as long as a configuration uses the store. Clients without
	// an IP address, as on a Unix socket, are not limited. Default: 100
	AuthFailureLimit int `json:"auth_failure_limit,omitempty"`

	// The time in which auth_failure_limit failures are forgotten, at an even
	// rate. Default: 1m
	AuthFailureWindow caddy.Duration `json:"auth_failure_window,omitempty"`

	// The header in which a proxy with a login names the person, such as X-Auth-Request-Email.
	// The audit trail has that name beside the key's id. It counts only in requests from the
	// server's trusted_proxies, which must not pass on what clients send in it. Default: none
	ActorHeader string `json:"actor_header,omitempty"`

	// How inference requests are resolved. Without it they pass to the gateway like any
	// other request.
	Inference *Inference `json:"inference,omitempty"`

	// The console, a page for browsers. Without it its path is the gateway's.
	Console *Console `json:"console,omitempty"`

	// The path at which load balancers ask whether this handler can serve. The answer to
	// GET and HEAD is 200 with "ok" if the store can be read, and 503 otherwise. It is 200
	// while changes are refused, because inference requests work. No key is needed. The
	// path must not hide the API, a route on which presets work, or the console. Without it
	// its path is the gateway's.
	Health string `json:"health,omitempty"`

	// The labels that metrics have.
	Metrics *MetricsSettings `json:"metrics,omitempty"`

	// A folder of presets as files, which may hold placeholders. They are applied to the
	// store when the configuration is live, on behalf of the owner caddyfile. Presets that
	// left the folder are archived. A mistake in a file refuses the configuration. It is
	// for a single node: several nodes with different files would undo each other's.
	Bundle string `json:"bundle,omitempty"`

	// The receivers of signed events.
	Webhooks []Webhook `json:"webhook,omitempty"`

	// Placeholders that must have a value when the configuration is loaded, such as
	// {env.GATEWAY_KEY} of a reverse_proxy. Caddy takes an empty text for a variable that is
	// not set, so a start would succeed, and each request to the gateway fail.
	Require []string `json:"require,omitempty"`

	ctx          caddy.Context
	logger       *zap.Logger
	metrics      *metrics.Metrics
	events       *events.Announcer
	service      *domain.Service
	schemas      *schema.Schemas
	router       *router.Router[operation]
	page         *console.Page // nil without a console
	keys         map[domain.KeyHash]domain.Principal
	finder       ownkeys.Finder // of keys that must not go upstream
	deadlines    deadline.Limits
	failureLimit limiter.Limit
	webhooks     []*webhook.Receiver
	bundle       *bundle.Bundle // nil without one
	stopping     webhook.StopClock
	shared       *shared               // with the other handlers of the store
	damage       engine.DamageReporter // the store, nil if it cannot tell
	content      iolog.Setup           // what becomes of the content of requests
	live         *registry.Store       // nil until goLive
	use          *registry.Use         // of live
	limits       *quota.Use            // nil without inference
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.presets",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision sets defaults, compiles what requests need and opens the store.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.ctx, h.logger = ctx, ctx.Logger()
	h.deadlines = deadline.Default
	repl := caddy.NewReplacer()

	if err := h.provisionRequire(repl); err != nil {
		return err
	}
	if err := h.provisionSettings(repl); err != nil {
		return err
	}
	if err := h.provisionFailureLimit(); err != nil {
		return err
	}
	var err error
	if i := h.Inference; i != nil {
		if h.content, err = iolog.NewSetup(ctx, h.logger, i.IOLog, i.Broadcast); err != nil {
			return err
		}
	}
	if h.keys, err = provisionKeys(repl, h.ManagementKeys, h.InferenceKeys); err != nil {
		return err
	}
	if h.schemas, err = schema.Load(); err != nil {
		return fmt.Errorf("compiling the bundled schemas: %w", err)
	}
	h.router = newRouter(h.BasePath, h.routes(h.schemas), h.KeyAPI)
	if h.events, err = newAnnouncer(ctx, &h.stopping); err != nil {
		return err
	}
	if h.metrics, err = metrics.New(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if h.Metrics != nil {
		h.metrics.Usage.RaiseLimits(h.Metrics.PerPreset, h.Metrics.PerKey)
	}
	if err := h.provisionWebhooks(repl); err != nil {
		return err
	}
	if err := h.provisionBundle(ctx, repl); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if err := h.provisionStore(ctx); err != nil {
		return err
	}
	if h.bundle != nil {
		if err := h.shared.bundles.Add(h.bundle); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	h.guardServer(ctx)
	h.warnOfSite(ctx)
	return nil
}

// Cleanup removes the handler from the users of its store. The last user closes it, which may be
// the storage guest.
func (h *Handler) Cleanup() error {
	if h.live == nil {
		return nil // Provision never got that far
	}
	var err error
	if h.Inference != nil {
		h.Inference.resolver.Close() // late requests may keep the handler in memory for long
		h.endMemory()
		h.content.Log.Close()
		if h.Inference.Usage != nil {
			err = h.shared.usage.End(h.Inference.Usage.recording)
		}
		if h.limits != nil {
			err = errors.Join(err, h.shared.quota.End(h.limits))
		}
	}
	if h.bundle != nil {
		h.shared.bundles.Remove(h.bundle)
	}
	h.stopWebhooks()
	return errors.Join(err, h.live.Remove(h.use))
}

// ServeHTTP answers requests to the console, the health check and the API. It hands all others to
// the gateway, inference requests with their preset resolved.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	path, err := h.checkRequest(r)
	switch {
	case h.page.Owns(path): // also with err: its refusals have the headers of the page
		h.deadlines.LeaveBody(w, r)
		h.page.ServeHTTP(w, r)
	case err != nil:
		h.refuse(w, r, path, err)
	case h.Health != "" && path == h.Health:
		h.serveHealth(w, r)
	case h.isAPIPath(path):
		return h.serveAPI(w, r, next)
	default:
		return h.forward(w, r, path, next)
	}
	return nil
}

func (h *Handler) forward(w http.ResponseWriter, r *http.Request, path string, next caddyhttp.Handler) error {
	requestpath.StripUpgrade(r)
	sent := ownkeys.Sent(r)
	h.finder.StripOwnKeys(r)
	if h.Inference != nil {
		return h.serveInference(w, r, path, sent, next)
	}
	return next.ServeHTTP(w, r) // the body is unread, and other headers are unchanged
}

func (h *Handler) isAPIPath(path string) bool {
	switch resource, _, _ := strings.Cut(h.routeOf(path), "/"); resource {
	case "presets", "workspaces":
		return true
	case "key", "keys":
		return h.KeyAPI
	default:
		return false
	}
}

// warnOfSite warns of what the operator may not expect of the site around h.
func (h *Handler) warnOfSite(ctx caddy.Context) {
	h.warnOfSharedOrigin()
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return
	}
	own := []string{h.BasePath + "/presets", h.BasePath + "/workspaces"}
	if h.Console != nil {
		own = append(own, h.Console.Path)
	}
	if late := sitecheck.LateDirectives(ctx, server, own); late != nil {
		h.logger.Warn("these directives do not guard the API and the console, because presets runs before them: put them into a route { … } with presets, above it",
			zap.Strings("directives", late))
	}
	if headers, loggers := sitecheck.LoggedKeys(ctx, server); loggers != nil {
		h.logger.Warn("the log shows keys that clients send over HTTP/3 in these headers: delete them with a filter in the log's format, or serve no HTTP/3 (protocols h1 h2)",
			zap.Strings("headers", headers), zap.Strings("loggers", loggers))
	}
}

// warnOfSharedOrigin warns if pages of the gateway need no key beside the console. Their scripts
// can read its key, or answer in its place with a service worker. Its headers prevent neither.
func (h *Handler) warnOfSharedOrigin() {
	if h.Console == nil || h.isConsoleAlone() {
		return
	}
	h.logger.Warn("pages of a gateway behind this site can steal the console's key: set keys everywhere, or serve the console on another host name",
		zap.String("console", h.Console.Path))
}

// isConsoleAlone tells whether pages of the gateway need a key, so that browsers open none beside the
// console. An empty mode is the default one.
func (h *Handler) isConsoleAlone() bool {
	return h.Inference != nil && (h.Inference.Keys == "" || h.Inference.Keys == keysEverywhere)
}

// Interface guards
var (
	_ caddy.Module                = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
