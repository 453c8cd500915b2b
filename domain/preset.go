package domain

import (
	"encoding/json"
	"regexp"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// PresetStatus tells whether a preset can be used.
type PresetStatus string

const (
	// PresetActive is the status of a preset that requests can name.
	PresetActive PresetStatus = "active"
	// PresetDisabled is a preset that requests cannot name and that takes no
	// new versions, until it is set to active again.
	PresetDisabled PresetStatus = "disabled"
	// PresetArchived is a preset that is gone as far as clients can see. It
	// keeps its slug and all its versions, and can be restored.
	PresetArchived PresetStatus = "archived"
)

// Preset is a named, versioned set of inference settings (specification,
// "Preset"). Its struct tags are its stored form; clients see PresetJSON.
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
	DesignatedVersion   int    `json:"designated_version"`
	// LatestVersion is the number of the newest version and so the count of
	// all of them: they are numbered from 1 without a gap and never removed.
	LatestVersion int `json:"latest_version"`
	// Labels are nil where there is none, and at most MaxLabels.
	Labels    map[string]Label `json:"labels,omitempty"`
	CreatedAt time.Time        `json:"created_at"`
	UpdatedAt time.Time        `json:"updated_at"`
}

// PresetVersion is one state of a preset's settings, never changed once it is
// stored (specification, "PresetVersion").
type PresetVersion struct {
	ID       string `json:"id"`
	PresetID string `json:"preset_id"`
	Version  int    `json:"version"`
	// Dialect is the API whose field names Config uses. Clients do not see it.
	Dialect Dialect `json:"dialect"`
	// Config is a JSON object: the captured fields, byte for byte as sent. It
	// has no tag because encoders would rewrite those bytes.
	Config       json.RawMessage `json:"-"`
	SystemPrompt *string         `json:"system_prompt"`
	CreatorID    string          `json:"creator_id"`
	CreatedAt    time.Time       `json:"created_at"`
	UpdatedAt    time.Time       `json:"updated_at"`
}

// json returns p as clients see it in a list, without its designated version.
func (p Preset) json() ([]byte, error) {
	labels := make(map[string]Target, len(p.Labels))
	for name, label := range p.Labels {
		labels[name] = label.Target
	}
	return jsonv2.Marshal(struct {
		ID                  string            `json:"id"`
		Name                string            `json:"name"`
		Slug                string            `json:"slug"`
		Description         *string           `json:"description"`
		Status              PresetStatus      `json:"status"`
		StatusUpdatedAt     *time.Time        `json:"status_updated_at"`
		CreatorUserID       string            `json:"creator_user_id"`
		WorkspaceID         string            `json:"workspace_id"`
		DesignatedVersionID string            `json:"designated_version_id"`
		CreatedAt           time.Time         `json:"created_at"`
		UpdatedAt           time.Time         `json:"updated_at"`
		Labels              map[string]Target `json:"labels"`
	}{
		p.ID, p.Name, p.Slug, p.Description, p.Status, p.StatusUpdatedAt, p.CreatorUserID,
		p.WorkspaceID, p.DesignatedVersionID, p.CreatedAt, p.UpdatedAt, labels,
	}, jsonv2.Deterministic(true))
}

// json returns v as clients see it.
func (v PresetVersion) json() ([]byte, error) {
	version, err := jsonv2.Marshal(struct {
		ID           string    `json:"id"`
		PresetID     string    `json:"preset_id"`
		Version      int       `json:"version"`
		SystemPrompt *string   `json:"system_prompt"`
		CreatorID    string    `json:"creator_id"`
		CreatedAt    time.Time `json:"created_at"`
		UpdatedAt    time.Time `json:"updated_at"`
	}{v.ID, v.PresetID, v.Version, v.SystemPrompt, v.CreatorID, v.CreatedAt, v.UpdatedAt})
	if err != nil {
		return nil, err
	}
	return withMember(version, "config", v.Config), nil
}

// PresetJSON returns p and its designated version v as clients see them.
func PresetJSON(p Preset, v PresetVersion) ([]byte, error) {
	head, err := p.json()
	if err != nil {
		return nil, err
	}
	version, err := v.json()
	if err != nil {
		return nil, err
	}
	return withMember(head, "designated_version", version), nil
}

// withMember adds a member to the end of a JSON object that has some, leaving
// the bytes of value as they are.
func withMember(object []byte, name string, value []byte) []byte {
	object = append(object[:len(object)-1], `,"`+name+`":`...)
	object = append(object, value...)
	return append(object, '}')
}

// presetSlug is the pattern of a preset's slug: URL-safe, and case-sensitive.
var presetSlug = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$`)

// Reference returns the name by which a request selects p as its model.
func (p Preset) Reference() string { return reference{slug: p.Slug}.String() }

// CheckPresetSlug returns nil for a usable slug, already percent-decoded, and
// an Invalid error otherwise.
func CheckPresetSlug(slug string) error {
	if !presetSlug.MatchString(slug) {
		return InvalidAt("slug", "must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and begin with a letter or digit")
	}
	return nil
}
