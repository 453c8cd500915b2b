package inference

import (
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
)

// minEntryCost is about the memory for a cached object besides its own bytes.
const minEntryCost = 1024

// cacheKey names an object that a Resolver caches. Fields that do not apply are zero.
type cacheKey struct {
	kind    cacheKind
	id      string // of a workspace, or of a version's preset
	slug    string // of a workspace or a preset
	version int
	dialect domain.Dialect
}

type cacheKind byte

const (
	workspaceKind cacheKind = iota
	presetKind
	settingsKind
)

// cached is an object that a Resolver caches. One of the fields is set, or preset and
// policy.
type cached struct {
	workspace *workspaceDefaults
	preset    *domain.Preset // an active one
	policy    *policy.Policy // of the preset, nil for none
	settings  *settings      // of one version for one dialect
}
