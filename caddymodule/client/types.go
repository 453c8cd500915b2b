package client

import (
	"bytes"
	"encoding/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// The structs of package domain have the members that the API shows, so these types embed them
// and add what depends on more than the object. A server may be hostile, so their strings must be
// escaped before a terminal gets them.

// Preset is a preset as the API shows it.
type Preset struct {
	domain.Preset
	// Policy is nil or null for none. It is raw because a copy must not lose a limit that this
	// program does not know.
	Policy json.RawMessage `json:"policy"`
	// Limits is raw, too, and nil or null for none.
	Limits json.RawMessage `json:"limits"`
	// Designated is the version that requests get. A list leaves it out.
	Designated Version `json:"designated_version"`
	// Created is the draft that a request made, in its response alone.
	Created *Version `json:"created_version"`
}

// Made returns the version that a request made, from its response.
func (p Preset) Made() Version {
	if p.Created != nil {
		return *p.Created
	}
	return p.Designated
}

// Version is a version of a preset as the API shows it. A summary has no settings, no prompt and
// no template, but their sizes in bytes.
type Version struct {
	domain.PresetVersion
	Config        json.RawMessage `json:"config"`
	IsDesignated  bool            `json:"designated"`
	Labels        []string        `json:"labels"`
	ConfigBytes   int             `json:"config_bytes"`
	PromptBytes   int             `json:"system_prompt_bytes"`
	TemplateBytes int             `json:"template_bytes"`
}

// Capture returns what a server stores of the request that made the version.
func (v Version) Capture() domain.Capture {
	return domain.Capture{Dialect: v.Dialect, Config: v.Config, SystemPrompt: v.SystemPrompt, Template: v.Template}
}

// Workspace is a workspace as the API shows it.
type Workspace struct {
	domain.Workspace
	// Raw is the whole, with members that this program does not know.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the whole text, too.
func (w *Workspace) UnmarshalJSON(text []byte) error {
	w.Raw = bytes.Clone(text)
	return json.Unmarshal(text, &w.Workspace)
}

// DryRun is the response to an inference request with X-Preset-Dry-Run.
type DryRun struct {
	DryRunTarget
	// Body is the JSON that the gateway would get.
	Body string `json:"body"`
	DryRunOrigins
}

// DryRunTarget is where the gateway would get a request.
type DryRunTarget struct {
	Method string `json:"method"`
	// Path is the path with the query.
	Path string `json:"path"`
}

// DryRunOrigins tells what became of a request.
type DryRunOrigins struct {
	// Fields has the top-level fields of the body.
	Fields map[string]DryRunField `json:"fields"`
	// Dropped and Enforced name fields that were left out, and that a policy changed.
	Dropped  []string `json:"dropped"`
	Enforced []string `json:"enforced"`
}

// DryRunField tells where a field comes from. Preset and Version are nil unless it comes from a
// preset, with or without variables.
type DryRunField struct {
	From    string  `json:"from"`
	Preset  *string `json:"preset"`
	Version *int    `json:"version"`
}
