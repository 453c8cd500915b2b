package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/actor"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/domain"
)

func (h *Handler) provisionSettings(repl *caddy.Replacer) error {
	base, err := repl.ReplaceOrErr(cmp.Or(h.BasePath, defaultBasePath), true, true)
	if err != nil {
		return fmt.Errorf("base_path: %w", err)
	}
	if err := checkBasePath(base); err != nil {
		return fmt.Errorf("base_path: %w", err)
	}
	h.BasePath = strings.TrimSuffix(base, "/")

	if h.MaxBodySize = cmp.Or(h.MaxBodySize, defaultMaxBodySize); h.MaxBodySize < 0 {
		return fmt.Errorf("max_body_size: must be positive, got %d", h.MaxBodySize)
	}
	if h.Memory, err = memoryFor(h.Memory); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if h.ActorHeader != "" {
		if err := actor.CheckHeader(h.ActorHeader); err != nil {
			return fmt.Errorf("actor_header: %w", err)
		}
	}
	if h.KeepVersions < 0 {
		return fmt.Errorf("keep_versions: must be positive, or 0 for all, got %d", h.KeepVersions)
	}
	if err := h.Metrics.check(); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if err := h.creators().Provision(); err != nil {
		return err
	}
	if h.Console != nil {
		if h.page, err = h.Console.provision(repl, h.BasePath, h.KeyAPI, h.isConsoleAlone()); err != nil {
			return fmt.Errorf("console: path: %w", err)
		}
	}
	if err := h.provisionHealth(repl); err != nil {
		return fmt.Errorf("health: %w", err)
	}
	return nil
}

// checkBasePath refuses a base path with which no normalized path can begin.
func checkBasePath(base string) error {
	clean, _, err := requestpath.Normalize(base)
	if err != nil || !strings.HasPrefix(base, "/") || clean != base && clean+"/" != base || strings.ContainsAny(base, " ?#%{}") {
		return fmt.Errorf("must be a clean absolute path without spaces, escapes, braces and query, got %q", base)
	}
	return nil
}

func (h *Handler) creators() directive.Choice {
	return directive.Choice{Name: "preset_creators", Value: &h.PresetCreators, Words: []string{creatorsManagement, creatorsAny}}
}

func (h *Handler) required() directive.List {
	return directive.List{Name: "require", Values: &h.Require, What: "placeholders", Check: checkPlaceholder}
}

// checkPlaceholder does not name the value, which may be that of a {$NAME}, and a secret.
func checkPlaceholder(value string) error {
	if !ownkeys.IsPlaceholder(value) {
		return errors.New("the value must be a placeholder, such as {env.GATEWAY_KEY}")
	}
	return nil
}

// provisionRequire returns an error if a placeholder of h.Require has no value. Other directives
// would put an empty text in its place, and their requests would fail.
func (h *Handler) provisionRequire(repl *caddy.Replacer) error {
	if err := h.required().Provision(); err != nil {
		return err
	}
	for _, placeholder := range h.Require {
		value, err := repl.ReplaceOrErr(placeholder, true, true)
		if err == nil && strings.TrimSpace(value) == "" {
			err = fmt.Errorf("%s has no value but space", placeholder)
		}
		if err != nil {
			return fmt.Errorf("require: %w", err)
		}
	}
	return nil
}

// memoryFor returns the setting memory, or its default if it is 0.
func memoryFor(set int64) (int64, error) {
	if set == 0 {
		return min(domain.DefaultMemory, goMemoryLimit()/4), nil
	}
	if set < 0 || set > maxSize {
		return 0, fmt.Errorf("must be between 1 and %d bytes, got %d", int64(maxSize), set)
	}
	return set, nil
}

// goMemoryLimit returns Go's memory limit, in bytes. Caddy sets it to nine tenths of the
// container's memory, or of the machine's, unless GOMEMLIMIT is set.
func goMemoryLimit() int64 { return debug.SetMemoryLimit(-1) }

const (
	// defaultInferenceBodySize is the largest default of max_body_size, in bytes.
	defaultInferenceBodySize = 32 << 20
	// defaultMaxMemory is the smallest default of max_memory, in bytes.
	defaultMaxMemory = 128 << 20
	// defaultMaxBodies is how many of the largest bodies fit into max_memory by default.
	defaultMaxBodies = 4
	// mergeRoom is how many bytes a merge may add to a body. They are the preset's
	// settings, its prompt with escapes, and the workspace's defaults.
	mergeRoom = 2 << 20
)

// provisionMemory sets and checks max_body_size and max_memory. The memory must hold the largest
// body in two forms at once: packed and unpacked, or sent and merged.
func (i *Inference) provisionMemory() error {
	if i.MaxBodySize == 0 {
		const mib = 1 << 20
		i.MaxBodySize = min(defaultInferenceBodySize, max(mib, goMemoryLimit()/16/mib*mib))
	}
	if i.MaxBodySize < 0 {
		return fmt.Errorf("max_body_size: must be positive, got %d", i.MaxBodySize)
	}
	least := 2*i.MaxBodySize + mergeRoom
	if i.MaxMemory == 0 {
		i.MaxMemory = max(least, min(max(defaultMaxMemory, defaultMaxBodies*i.MaxBodySize), goMemoryLimit()/2))
	}
	if i.MaxMemory < least {
		return fmt.Errorf("max_memory: must be at least %d (%s), to hold one request of max_body_size (%d) in two forms at once, got %d",
			least, humanize.IBytes(uint64(least)), i.MaxBodySize, i.MaxMemory)
	}
	return nil
}

// defaultSeries is how many versions or keys metrics tell apart, unless a number is given.
const defaultSeries = 500

// maxSeries bounds how many versions or keys metrics tell apart.
const maxSeries = 100_000

// MetricsSettings say which labels the metrics have.
type MetricsSettings struct {
	// The number of preset versions with their own series of usage. Their labels are
	// workspace (an id), preset and version. Further versions count as preset "other".
	// Handlers of a configuration share the metrics, and the largest number counts.
	// Default: 0, which sets no such labels
	PerPreset int `json:"per_preset,omitempty"`

	// The number of keys with their own series of tokens, whose label is the id of the key.
	// Further keys count as "other". Handlers of a configuration share the metrics, and the
	// largest number counts. Default: 0, which counts no tokens by key
	PerKey int `json:"per_key,omitempty"`
}

// check returns an error that names the first wrong setting. A nil m has none.
func (m *MetricsSettings) check() error {
	switch {
	case m == nil:
		return nil
	case m.PerPreset < 0 || m.PerPreset > maxSeries:
		return fmt.Errorf("per_preset: must be a number from 1 to %d, got %d", maxSeries, m.PerPreset)
	case m.PerKey < 0 || m.PerKey > maxSeries:
		return fmt.Errorf("per_key: must be a number from 1 to %d, got %d", maxSeries, m.PerKey)
	case m.PerPreset == 0 && m.PerKey == 0:
		return errors.New("want per_preset or per_key")
	}
	return nil
}
