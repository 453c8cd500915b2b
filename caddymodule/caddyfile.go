package caddymodule

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/actor"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("presets", parseCaddyfile)
	httpcaddyfile.RegisterDirectiveOrder("presets", httpcaddyfile.Before, "handle")
}

func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	return handler, handler.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads the presets directive:
//
//	presets [<matcher>] {
//		base_path           <path>
//		storage             <engine> ...
//		management_key      <secret> [<user_id>]
//		inference_key       <secret> [<user_id> [<workspace slug>]]
//		max_body_size       <size>
//		memory              <size>
//		preset_creators     management|any
//		key_api
//		keep_versions       <count>
//		auth_failure_limit  <count> [<duration>]|off
//		actor_header        <name>
//		inference {
//			keys            everywhere|required|optional|off
//			drop_fields     <field>...
//			allow_fields    <field>...
//			list_models     off|on|labels
//			max_body_size   <size>
//			max_memory      <size>
//			other_routes    pass|refuse
//			limited_paths   <path>...
//			unknown_prompts refuse|pass
//			attribution     keep|drop
//			websockets      refuse|pass
//			usage {
//				keep <age of hours> <age of days>
//				price <model> {
//					input       <price>
//					output      <price>
//					cache_read  <price>
//					cache_write <price>
//				}
//				stream_usage off|add
//			}
//			io_log
//			broadcast
//		}
//		metrics             per_preset|per_key [<most>]
//		console             [<path>]
//		bundle              <folder>
//		health              <path>
//		webhook             <url> {
//			secret <placeholder>
//		}
//		require             <placeholder>...
//	}
//
// management_key, inference_key, metrics and webhook may repeat. The secret of a key is a placeholder such as
// {env.PRESETS_KEY}, "sha256:" and 64 hexadecimal digits, or the secret itself. Only its
// hash is kept.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive
	if args := d.RemainingArgs(); len(args) > 0 {
		return d.Errf("takes no arguments but a matcher, got %q", args[0])
	}
	block := directive.Block{Repeated: []string{"management_key", "inference_key", "metrics", "webhook"}, Nested: []string{"storage", "inference", "webhook"}}
	return block.Read(d, h.subdirectives())
}

func (h *Handler) subdirectives() map[string]directive.Reader {
	return map[string]directive.Reader{
		"base_path":          readPath(&h.BasePath, checkBasePath),
		"storage":            h.readStorage,
		"management_key":     readKey(&h.ManagementKeys, 2, "<secret> [<user_id>]"),
		"inference_key":      readKey(&h.InferenceKeys, 3, "<secret> [<user_id> [<workspace slug>]]"),
		"max_body_size":      readSize(&h.MaxBodySize),
		"memory":             readSize(&h.Memory),
		"preset_creators":    h.creators().Read,
		"key_api":            directive.Flag(&h.KeyAPI),
		"keep_versions":      h.readKeepVersions,
		"auth_failure_limit": h.readAuthFailureLimit,
		"actor_header":       readActorHeader(&h.ActorHeader),
		"inference":          h.readInference,
		"metrics":            h.readMetrics,
		"console":            h.readConsole,
		"bundle":             directive.Text(&h.Bundle, "a folder"),
		"health":             readPath(&h.Health, checkHealthPath),
		"webhook":            h.readWebhook,
		"require":            h.required().Read,
	}
}

// readPath returns the reader of a path. It checks the path, unless that holds a placeholder, which
// provisioning checks.
func readPath(into *string, check func(string) error) directive.Reader {
	return func(d *caddyfile.Dispenser, place string) (err error) {
		if *into, err = directive.OnlyArg(d, place, "a path"); err != nil || strings.Contains(*into, "{") {
			return err
		}
		if err := check(*into); err != nil {
			return d.Errf("%s %v", place, err)
		}
		return nil
	}
}

func readActorHeader(into *string) directive.Reader {
	return func(d *caddyfile.Dispenser, place string) (err error) {
		if *into, err = directive.OnlyArg(d, place, "a header"); err != nil {
			return err
		}
		if err := actor.CheckHeader(*into); err != nil {
			return d.Errf("%s %v", place, err)
		}
		return nil
	}
}

func (h *Handler) readKeepVersions(d *caddyfile.Dispenser, place string) error {
	value, err := directive.OnlyArg(d, place, "a count")
	if err != nil {
		return err
	}
	if h.KeepVersions, err = strconv.Atoi(value); err != nil || h.KeepVersions < 1 {
		return d.Errf("%s must be a number from 1, got %q; without it all are kept", place, value)
	}
	return nil
}

func (h *Handler) readInference(d *caddyfile.Dispenser, place string) error {
	if d.NextArg() {
		return d.Errf("%s takes a block and no arguments, got %q", place, d.Val())
	}
	h.Inference = new(Inference)
	return directive.Block{Place: place + ": ", Nested: []string{"usage"}}.Read(d, h.Inference.subdirectives())
}

func (i *Inference) subdirectives() map[string]directive.Reader {
	readers := map[string]directive.Reader{
		"max_body_size": readSize(&i.MaxBodySize),
		"max_memory":    readSize(&i.MaxMemory),
		"usage":         i.readUsage,
		"io_log":        directive.Flag(&i.IOLog),
		"broadcast":     directive.Flag(&i.Broadcast),
	}
	for _, c := range i.choices() {
		readers[c.Name] = c.Read
	}
	for _, l := range i.lists() {
		readers[l.Name] = l.Read
	}
	return readers
}

func (h *Handler) readConsole(d *caddyfile.Dispenser, place string) error {
	h.Console = new(Console)
	if d.CountRemainingArgs() == 0 {
		return nil
	}
	return readPath(&h.Console.Path, checkConsolePath)(d, place)
}

func (h *Handler) readMetrics(d *caddyfile.Dispenser, _ string) error {
	const wants = "metrics wants per_preset [<most>] or per_key [<most>]"
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.Errf("%s, got %d arguments%s", wants, len(args), directive.MaybeUnset)
	}
	if h.Metrics == nil {
		h.Metrics = new(MetricsSettings)
	}
	most := map[string]*int{"per_preset": &h.Metrics.PerPreset, "per_key": &h.Metrics.PerKey}[args[0]]
	switch {
	case most == nil:
		return d.Errf("%s, got %q", wants, args[0])
	case *most != 0:
		return d.Errf("metrics %s is given twice", args[0])
	}
	*most = defaultSeries
	if len(args) == 1 {
		return nil
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 || n > maxSeries {
		return d.Errf("metrics %s must be a number from 1 to %d, got %q", args[0], maxSeries, args[1])
	}
	*most = n
	return nil
}

func (h *Handler) readAuthFailureLimit(d *caddyfile.Dispenser, _ string) error {
	const wants = "auth_failure_limit wants <count> [<duration>], or off"
	args := d.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "off":
		h.AuthFailureLimit = authFailuresOff
		return nil
	case len(args) == 0:
		return d.Errf("%s, got 0 arguments%s", wants, directive.MaybeUnset)
	case len(args) > 2:
		return d.Errf("%s, got %d arguments", wants, len(args))
	}
	count, err := strconv.Atoi(args[0])
	if err != nil || count < 1 { // -1 is written as off
		return d.Errf("%s, got %q", wants, args[0])
	}
	window := defaultAuthFailureWindow
	if len(args) > 1 {
		if window, err = caddy.ParseDuration(args[1]); err != nil {
			return d.Errf("%s, got %q", wants, args[1])
		}
		h.AuthFailureWindow = caddy.Duration(window)
	}
	if err := checkAuthFailureLimit(count, window); err != nil {
		return d.Errf("auth_failure_limit: %v", err)
	}
	h.AuthFailureLimit = count
	return nil
}

// maxSize is the largest size of a setting, in bytes.
const maxSize = 2 << 30

func readSize(into *int64) directive.Reader {
	return func(d *caddyfile.Dispenser, place string) error {
		value, err := directive.OnlyArg(d, place, "a size")
		if err != nil {
			return err
		}
		size, err := humanize.ParseBytes(value)
		if err != nil || size == 0 || size > maxSize {
			return d.Errf("%s must be a size between 1B and 2GiB such as 4MiB, got %q", place, value)
		}
		*into = int64(size)
		return nil
	}
}

func (h *Handler) readStorage(d *caddyfile.Dispenser, _ string) error {
	if !d.NextArg() {
		return d.Err("storage wants the name of an engine" + directive.MaybeUnset)
	}
	name := d.Val()
	if err := checkEngine(name); err != nil {
		return d.WrapErr(err)
	}
	guest, err := caddyfile.UnmarshalModule(d, engine.Namespace+"."+name)
	if err != nil {
		return err
	}
	h.StorageRaw = caddyconfig.JSONModuleObject(guest, "engine", name, nil)
	return nil
}

// readKey returns the reader of one more key, with so many arguments at most.
func readKey(into *[]ConfiguredKey, most int, syntax string) directive.Reader {
	return func(d *caddyfile.Dispenser, place string) error {
		key, err := keyOf(d, place, most, syntax)
		*into = append(*into, key)
		return err
	}
}

// keyOf reads a key and hashes a literal secret, so that no adapted configuration holds it. Its
// errors never show an argument, because any of them could be a misplaced secret.
func keyOf(d *caddyfile.Dispenser, name string, most int, syntax string) (key ConfiguredKey, err error) {
	args := d.RemainingArgs()
	switch {
	case len(args) == 0:
		return key, d.Errf("%s wants %s, got 0 arguments%s", name, syntax, directive.MaybeUnset)
	case len(args) > most:
		return key, d.Errf("%s wants %s, got %d arguments", name, syntax, len(args))
	}
	names := [...]string{"secret", "user id", "workspace slug"}
	values := [...]*string{&key.Secret, &key.UserID, &key.WorkspaceSlug}
	for i, arg := range args {
		if *values[i] = arg; arg == "" {
			return key, d.Errf("%s: the %s is empty%s", name, names[i], directive.MaybeUnset)
		}
	}
	switch {
	case ownkeys.IsPlaceholder(key.Secret):
	case strings.HasPrefix(key.Secret, hashedPrefix):
		if _, err := key.hash(nil); err != nil {
			return key, d.Errf("%s: %v", name, err)
		}
	case strings.ContainsAny(key.Secret, "{}"):
		return key, d.Errf("%s: the secret must be one placeholder or hold no braces", name)
	default:
		if err := ownkeys.CheckSecret(key.Secret); err != nil {
			return key, d.Errf("%s: %v", name, err)
		}
		digits, _ := domain.HashSecret(key.Secret).MarshalText() // never fails
		key.Secret = hashedPrefix + string(digits)
	}
	return key, nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)
