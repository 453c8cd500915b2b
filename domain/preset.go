package domain

import (
	"encoding/json"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PresetStatus tells whether a preset can be used.
type PresetStatus string

const (
	// PresetActive is the status of a preset that requests can name.
	PresetActive PresetStatus = "active"
	// PresetDisabled is a preset that requests cannot name. It takes no new versions
	// until it is active again.
	PresetDisabled PresetStatus = "disabled"
	// PresetArchived is a preset that clients do not see. It keeps its slug and all its
	// versions, and can be restored.
	PresetArchived PresetStatus = "archived"
)

// Valid reports whether s is one of the three.
func (s PresetStatus) Valid() bool {
	return s == PresetActive || s == PresetDisabled || s == PresetArchived
}

// Preset is a named, versioned set of inference settings (specification, "Preset"). Clients
// see the fields with struct tags in a list. An engine stores these and the others.
type Preset struct {
	ID              string       `json:"id"`
	Name            string       `json:"name"`
	Slug            string       `json:"slug"`
	Description     *string      `json:"description"`
	Status          PresetStatus `json:"status"`
	StatusUpdatedAt *time.Time   `json:"status_updated_at"`
	CreatorUserID   string       `json:"creator_user_id"`
	WorkspaceID     string       `json:"workspace_id"`
	// DesignatedVersionID and DesignatedVersion name the version that
	// requests get, by id and by number.
	DesignatedVersionID string `json:"designated_version_id"`
	DesignatedVersion   int    `json:"designated_version_number"`
	// LatestVersion is the number of the newest version ever. Versions are numbered
	// from 1 without a gap. No number is used again.
	LatestVersion int `json:"-"`
	// Kept tells which of them are still there.
	Kept      Kept      `json:"-"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// UpdatedBy is the user who changed the preset last.
	UpdatedBy string `json:"updated_by"`
	// ManagedBy is the owner of the preset, nil for none. Others may change it only if they
	// name the owner.
	ManagedBy *string `json:"managed_by"`
	// Protected keeps keys without the right ProtectedLabels from changing what requests
	// get. They may make drafts, set labels that are not protected, and change the
	// description.
	Protected bool `json:"protected"`
	// Policy limits what requests may change. It is nil if there is none.
	Policy *Policy `json:"policy"`
	// Limits bound all requests for the preset together. Nil is none.
	Limits *PresetLimits `json:"limits,omitzero"`
	// Tags are words by which people find the preset, in their order. Nil is none.
	Tags []string `json:"tags,omitzero"`
	// Labels are at most MaxLabels.
	Labels map[string]Target `json:"labels"`
}

// PresetState has the fields of a preset that reading its versions needs.
type PresetState struct {
	ID     string
	Status PresetStatus
	// DesignatedVersion and LatestVersion are the numbers that a Preset has.
	DesignatedVersion, LatestVersion int
	Kept                             Kept
}

// State returns the state of p.
func (p Preset) State() PresetState {
	return PresetState{p.ID, p.Status, p.DesignatedVersion, p.LatestVersion, p.Kept}
}

// PresetVersion is one state of a preset's settings, never changed once it is
// stored (specification, "PresetVersion"). Its struct tags are those of its summary.
type PresetVersion struct {
	ID       string `json:"id"`
	PresetID string `json:"preset_id"`
	Version  int    `json:"version"`
	// Dialect is the API whose field names Config uses.
	Dialect Dialect `json:"dialect"`
	// Message is the author's reason for the version, nil for none.
	Message   *string   `json:"message"`
	CreatorID string    `json:"creator_id"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// SystemPrompt is nil if the version has none.
	SystemPrompt *string `json:"system_prompt,omitzero"`
	// Template is nil if the version is text and not a template.
	Template *Template `json:"template,omitzero"`
	// Config is a JSON object: the captured fields, byte for byte as sent. Encoders
	// would rewrite those bytes, so JSON adds them itself.
	Config json.RawMessage `json:"-"`
}

// JSON returns p as clients see it in a list, without its designated version.
func (p Preset) JSON() ([]byte, error) { return jsonv2.Marshal(p, jsonv2.Deterministic(true)) }

// Summary returns v without its settings, its prompt and its template, which have their
// sizes instead. A template has a size, even without messages. Summary leaves out what
// depends on the preset, as JSON does.
func (v PresetVersion) Summary() ([]byte, error) {
	summary := struct {
		PresetVersion
		PromptSize   int `json:"system_prompt_bytes"`
		TemplateSize int `json:"template_bytes"`
		ConfigSize   int `json:"config_bytes"`
	}{v, len(ValueOr(v.SystemPrompt, "")), 0, len(v.Config)}
	if v.Template != nil {
		summary.TemplateSize = len(v.Template.Messages)
	}
	summary.SystemPrompt, summary.Template = nil, nil
	return jsonv2.Marshal(summary)
}

// JSON returns v as it is stored. Its summary comes first, then its prompt, its template
// and its Config. Clients see designated and labels, too. Those depend on the preset.
func (v PresetVersion) JSON() ([]byte, error) {
	summary, err := v.Summary()
	if err != nil {
		return nil, err
	}
	text := append(summary[:len(summary)-1], `,"system_prompt":`...)
	if v.SystemPrompt == nil {
		text = append(text, "null"...)
	} else if text, err = jsontext.AppendQuote(text, *v.SystemPrompt); err != nil {
		return nil, err
	}
	text = append(append(text, `,"template":`...), v.Template.JSON()...)
	text = append(slices.Grow(text, len(v.Config)+16), `,"config":`...)
	return append(append(text, v.Config...), '}'), nil
}

// Reference returns the name by which a request selects p as its model.
func (p Preset) Reference() string { return ReferenceMark + p.Slug }
