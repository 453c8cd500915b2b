package domain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PresetStatus tells whether a preset can be used.
type PresetStatus string

// PresetActive is the one status of the specification; a preset in any other
// keeps its slug taken.
const PresetActive PresetStatus = "active"

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
	LatestVersion int       `json:"latest_version"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
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

// PresetJSON returns p and its designated version v as clients see them.
func PresetJSON(p Preset, v PresetVersion) ([]byte, error) {
	head, err := jsonv2.Marshal(struct {
		ID                  string       `json:"id"`
		Name                string       `json:"name"`
		Slug                string       `json:"slug"`
		Description         *string      `json:"description"`
		Status              PresetStatus `json:"status"`
		StatusUpdatedAt     *time.Time   `json:"status_updated_at"`
		CreatorUserID       string       `json:"creator_user_id"`
		WorkspaceID         string       `json:"workspace_id"`
		DesignatedVersionID string       `json:"designated_version_id"`
		CreatedAt           time.Time    `json:"created_at"`
		UpdatedAt           time.Time    `json:"updated_at"`
	}{
		p.ID, p.Name, p.Slug, p.Description, p.Status, p.StatusUpdatedAt, p.CreatorUserID,
		p.WorkspaceID, p.DesignatedVersionID, p.CreatedAt, p.UpdatedAt,
	})
	if err != nil {
		return nil, err
	}
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
	return withMember(head, "designated_version", withMember(version, "config", v.Config)), nil
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

// CreatePresetVersion stores captured settings as a new version of the preset
// that slug names, designates it and returns both, as one durable change. The
// preset is created when there is none; a known one keeps its id and name.
//
// workspace is the id or slug of the workspace to act in, empty for the key's
// own (NotFound when there is none). A preset that is not active is a
// Conflict: its slug stays taken.
func (s *Service) CreatePresetVersion(ctx context.Context, who Principal, workspace, slug string, in Capture) (p Preset, v PresetVersion, err error) {
	if err := CheckPresetSlug(slug); err != nil {
		return p, v, err
	}
	now, presetID, versionID := s.timestamp(), s.newID(), s.newID()
	err = s.update(ctx, func(tx Tx) error {
		w, err := workspaceOf(tx, who, workspace)
		if err != nil {
			return err
		}
		p, err = tx.Preset(w.ID, slug)
		switch {
		case errors.Is(err, ErrNotFound):
			p = Preset{
				ID: presetID, Name: slug, Slug: slug, Status: PresetActive,
				CreatorUserID: who.UserID, WorkspaceID: w.ID, CreatedAt: now,
			}
		case err != nil:
			return err
		case p.Status != PresetActive:
			return errConflict(fmt.Errorf("preset is %s", p.Status))
		}
		p.LatestVersion++
		p.DesignatedVersion, p.DesignatedVersionID, p.UpdatedAt = p.LatestVersion, versionID, now
		v = PresetVersion{
			ID: versionID, PresetID: p.ID, Version: p.LatestVersion,
			Dialect: in.Dialect, Config: in.Config, SystemPrompt: in.SystemPrompt,
			CreatorID: who.UserID, CreatedAt: now, UpdatedAt: now,
		}
		if err := tx.PutPresetVersion(p, v); err != nil {
			return err
		}
		return tx.PutPreset(p)
	})
	return p, v, err
}

// Capture is what a preset keeps of an inference request.
type Capture struct {
	Dialect Dialect
	// Config is a JSON object of the kept fields.
	Config json.RawMessage
	// SystemPrompt is nil when the request has none.
	SystemPrompt *string
}

// CaptureResponses returns what a preset keeps of a responses request, given
// the members of its body as sent and checked against the schema: the fields
// of settingFields in the request's order, without those that are null, and
// instructions as the system prompt. More than MaxStoredSize is Invalid.
func CaptureResponses(members iter.Seq2[string, jsontext.Value]) (Capture, error) {
	in := Capture{Dialect: Responses}
	config := []byte{'{'}
	promptSize := 0
	for name, value := range members {
		switch {
		case value.Kind() == 'n':
		case name == "instructions":
			if err := jsonv2.Unmarshal(value, &in.SystemPrompt); err != nil {
				return Capture{}, InvalidAt("/instructions", "must be a string")
			}
			promptSize = len(value)
		case settingFields[name]&inResponses != 0:
			if len(config) > 1 {
				config = append(config, ',')
			}
			config = append(config, '"')
			config = append(config, name...)
			config = append(config, '"', ':')
			config = append(config, value...)
		}
	}
	in.Config = append(config, '}')
	if size := len(in.Config) + promptSize; size > MaxStoredSize {
		return Capture{}, InvalidAt("", fmt.Sprintf("what a preset version stores must be at most %d bytes, is %d", MaxStoredSize, size))
	}
	return in, nil
}
