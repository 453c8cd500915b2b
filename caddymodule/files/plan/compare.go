package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/diff"
)

// Change is what differs between a preset's file and the server.
type Change struct {
	Workspace string `json:"workspace"`
	Slug      string `json:"slug"`
	Action    Action `json:"action"`
	// Drift is set if somebody overrode the owner after its last change.
	Drift bool `json:"drift"`
	// Preset turns name, description, status and limits into those of the file.
	Preset []diff.Operation `json:"preset"`
	// Dialect is set if the version's API changes.
	Dialect *DialectChange `json:"dialect"`
	// Settings turns the settings of the designated version into those of the file.
	Settings []diff.Operation `json:"settings"`
	// Prompt is a unified diff of the system prompts, nil if they are equal.
	Prompt *string `json:"prompt"`
	// Template turns the template into that of the file, null where there is none.
	Template []diff.Operation `json:"template"`
	// Designate is the newest version if that is equal to the file, else 0. It is designated
	// instead of making another version.
	Designate int `json:"designate"`
	// Earlier is how many versions are made before the one of the file.
	Earlier int           `json:"earlier"`
	Labels  []LabelChange `json:"labels"`
	// Policy turns the policy into that of the file, null where there is none.
	Policy []diff.Operation `json:"policy"`
	Inputs []InputChange    `json:"inputs"`

	steps
}

// DialectChange is the change of a version's API.
type DialectChange struct {
	From domain.Dialect `json:"from"`
	To   domain.Dialect `json:"to"`
}

// steps are what Apply needs to make a change.
type steps struct {
	file *files.Preset // nil to archive
	// workspaceID is empty for a workspace that is missing.
	workspaceID string
	// tag is the entity tag of the preset, empty for one that clients do not see.
	tag string
	// earlier and version are the versions to make. version is nil for none.
	earlier []files.Version
	version *files.Version
	// latest is the number of the file's version, also if it is yet to be made.
	latest int
	// patch is the body of the preset's update, nil for none. It goes first for a preset
	// that must be active before it takes a version.
	patch      []byte
	patchFirst bool
	adopts     bool // the patch sets the owner, and nothing else changes
}

func newChange(workspace, slug string, action Action) *Change {
	none := func() []diff.Operation { return []diff.Operation{} }
	return &Change{
		Workspace: workspace, Slug: slug, Action: action,
		Preset: none(), Settings: none(), Template: none(), Policy: none(), Labels: []LabelChange{}, Inputs: []InputChange{},
	}
}

func (c *Change) isEmpty() bool {
	return c.version == nil && c.Designate == 0 && c.patch == nil && len(c.Labels) == 0 && len(c.Inputs) == 0
}

// problem says why a preset cannot be brought to what its file says.
type problem string

func (p problem) Error() string { return string(p) }

// comparePreset compares a preset's file with the server. The change is nil if nothing differs, and
// the error may be a problem.
func (r *reader) comparePreset(ctx context.Context, file *files.Preset) (*Change, error) {
	id, exists := r.ids[file.Workspace]
	if !exists {
		return r.compareNew(file, "")
	}
	var c *Change
	current, err := r.preset(ctx, id, file.Slug)
	if err == nil {
		c, err = r.compareExisting(ctx, file, id, current)
	}
	if !client.IsStatus(err, http.StatusNotFound) { // else it is archived, maybe since the first read
		return c, err
	}
	archived, ok, err := r.archivedPreset(ctx, id, file.Slug)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return r.compareArchived(ctx, file, id, archived)
	default:
		return r.compareNew(file, id)
	}
}

// checkOwner returns the problem of a preset of a workspace that another owner manages.
func (r *reader) checkOwner(p client.Preset, workspace string) error {
	if p.ManagedBy == nil || *p.ManagedBy == r.owner {
		return nil
	}
	if domain.CheckOwner("managed_by", *p.ManagedBy) != nil {
		return problem("is managed by another owner than " + r.owner + ": remove its file") // a name that is none may not be shown as a command
	}
	return problem(fmt.Sprintf("is managed by %s and not by %s: remove its file, or end that with: caddy presets release --owner %s --workspace %s %s", *p.ManagedBy, r.owner, *p.ManagedBy, workspace, p.Slug))
}

func (r *reader) compareNew(file *files.Preset, workspaceID string) (*Change, error) {
	c := newChange(file.Workspace, file.Slug, Create)
	c.file, c.workspaceID = file, workspaceID
	c.version, c.earlier = &file.Version, file.Earlier
	c.Earlier, c.latest = len(file.Earlier), len(file.Earlier)+1
	none := client.Version{Config: []byte("{}"), PresetVersion: domain.PresetVersion{Dialect: file.Version.Capture.Dialect}}
	blank := client.Preset{Preset: domain.Preset{Name: file.Slug, Slug: file.Slug, Status: domain.PresetActive, DesignatedVersion: 1}}
	if err := c.compareVersion(none); err != nil {
		return nil, err
	}
	if err := c.compareFields(blank); err != nil {
		return nil, err
	}
	if err := c.addInputs(nil); err != nil {
		return nil, err
	}
	return c, c.compareLabels(blank, c.latest, 0, func(number int) (bool, error) { return number <= c.latest, nil })
}

// compareArchived returns the change that restores a preset. Its versions can be read only then, so
// Apply archives it again if a label names one that does not exist.
func (r *reader) compareArchived(ctx context.Context, file *files.Preset, workspaceID string, archived client.Preset) (*Change, error) {
	if err := r.checkOwner(archived, file.Workspace); err != nil {
		return nil, err
	}
	c := newChange(file.Workspace, file.Slug, Restore)
	c.file, c.workspaceID = file, workspaceID
	restored := archived
	restored.Status = domain.PresetActive
	if err := c.compareFields(restored); err != nil {
		return nil, err
	}
	err := c.compareLabels(archived, int(files.Latest), 0, func(int) (bool, error) { return true, nil })
	if err != nil {
		return nil, err
	}
	c.Drift, err = r.hasDrifted(ctx, workspaceID, archived)
	return c, err
}

// compareExisting compares a preset that clients see.
func (r *reader) compareExisting(ctx context.Context, file *files.Preset, workspaceID string, current preset) (*Change, error) {
	if err := r.checkOwner(current.Preset, file.Workspace); err != nil {
		return nil, err
	}
	c := newChange(file.Workspace, file.Slug, Update)
	c.file, c.workspaceID, c.tag = file, workspaceID, current.tag
	if err := c.compareFields(current.Preset); err != nil {
		return nil, err
	}
	var err error
	if c.latest, err = r.nextVersion(ctx, c, current); err != nil {
		return nil, err
	}
	made := c.latest // the versions up to this one exist, but for removed ones
	if c.version != nil {
		made -= len(c.earlier) + 1
		if current.Status == domain.PresetDisabled {
			if file.Status == domain.PresetDisabled {
				return nil, problem("is disabled, and only an active preset takes a new version: set status to active in its file, apply, and disable it again")
			}
			c.patchFirst = true
		}
	}
	err = c.compareLabels(current.Preset, c.latest, made, func(number int) (bool, error) {
		if made < number && number <= c.latest {
			return true, nil
		}
		return r.hasVersion(ctx, workspaceID, file.Slug, number)
	})
	if err != nil {
		return nil, err
	}
	if err := r.readTags(ctx, c); err != nil {
		return nil, err
	}
	if err := r.compareInputs(ctx, c); err != nil {
		return nil, err
	}
	if !c.isEmpty() {
		c.Drift, err = r.hasDrifted(ctx, workspaceID, current.Preset)
		return c, err
	}
	if current.ManagedBy != nil {
		return nil, nil
	}
	c.adopts = true
	c.patch, err = json.Marshal(map[string]string{"managed_by": r.owner})
	return c, err
}

// readTags reads the labels that a change replaces or removes.
func (r *reader) readTags(ctx context.Context, c *Change) error {
	for i := range c.Labels {
		l := &c.Labels[i]
		if l.From == nil {
			continue
		}
		now, tag, err := r.label(ctx, c.workspaceID, c.Slug, l.Label)
		if err != nil {
			return err
		}
		if l.tag = tag; !sameTarget(now, *l.From) {
			return fmt.Errorf("label %s changes while it is read: plan again", l.Label)
		}
	}
	return nil
}

// nextVersion finds the versions that a change makes or designates. It returns the number
// that the version of the file gets or has.
func (r *reader) nextVersion(ctx context.Context, c *Change, current preset) (int, error) {
	made, err := r.madeOfSeries(ctx, c.file, c.workspaceID, current)
	if err != nil {
		return 0, err
	}
	if made == 0 && files.SameCapture(current.Designated.Capture(), c.file.Version.Capture) {
		return current.Designated.Version, nil
	}
	if err := c.compareVersion(current.Designated); err != nil {
		return 0, err
	}
	if made > 0 {
		c.version, c.earlier = &c.file.Version, c.file.Earlier[made:]
		c.Earlier = len(c.earlier)
		return len(c.file.Earlier) + 1, nil
	}
	newest, err := r.newest(ctx, c.workspaceID, current)
	if err != nil {
		return 0, err
	}
	if newest.Version != current.Designated.Version && files.SameCapture(newest.Capture(), c.file.Version.Capture) {
		c.Designate = newest.Version
		return newest.Version, nil
	}
	c.version = &c.file.Version
	return newest.Version + 1, nil
}

// madeOfSeries returns how many of the file's earlier versions a preset got. It is 0 unless
// the first one and the newest one are as in the file, as after a run that was cut off. The server
// may have removed others since then.
func (r *reader) madeOfSeries(ctx context.Context, file *files.Preset, workspaceID string, current preset) (int, error) {
	series := file.Earlier
	if len(series) == 0 || current.Designated.Version != 1 || !files.SameCapture(current.Designated.Capture(), series[0].Capture) {
		return 0, nil // only the first one is designated before the last
	}
	newest, err := r.newest(ctx, workspaceID, current)
	if err != nil || newest.Version > len(series) || !files.SameCapture(newest.Capture(), series[newest.Version-1].Capture) {
		return 0, err
	}
	return newest.Version, nil
}

// compareVersion describes what differs between a version and that of the file.
func (c *Change) compareVersion(from client.Version) (err error) {
	to := c.file.Version.Capture
	if from.Dialect != to.Dialect {
		c.Dialect = &DialectChange{from.Dialect, to.Dialect}
	}
	if c.Settings, err = diff.JSON(from.Config, to.Config); err != nil {
		return fmt.Errorf("comparing the settings: %w", err)
	}
	if c.Template, err = diff.JSON(from.Template.JSON(), to.Template.JSON()); err != nil {
		return fmt.Errorf("comparing the templates: %w", err)
	}
	oldLabel, newLabel := fmt.Sprintf("%s@%d", c.Slug, from.Version), c.file.File
	if from.Version == 0 {
		oldLabel = "/dev/null"
	}
	if c.Prompt, err = diff.Text(oldLabel, newLabel, domain.ValueOr(from.SystemPrompt, ""), domain.ValueOr(to.SystemPrompt, "")); err != nil {
		return fmt.Errorf("comparing the prompts: %w", err)
	}
	return nil
}

// compareFields finds what the preset's update changes, and describes it.
func (c *Change) compareFields(from client.Preset) error {
	type fields struct {
		Name        string              `json:"name"`
		Description *string             `json:"description"`
		Status      domain.PresetStatus `json:"status"`
		Limits      any                 `json:"limits"`
	}
	before := fields{from.Name, from.Description, from.Status, from.Limits}
	after := fields{from.Name, c.file.Description, c.file.Status, c.file.Limits}
	if c.file.Name != nil {
		after.Name = *c.file.Name
	}
	var err error
	if c.Preset, err = patchOfValues(before, after); err != nil {
		return err
	}
	patch := make(map[string]any)
	for _, operation := range c.Preset { // each replaces a member, or one of limits
		name, _, isLimit := strings.Cut(operation.Path[1:], "/")
		if patch[name] = operation.Value; isLimit {
			patch[name] = after.Limits
		}
	}
	var policy []byte
	if policy, err = encodePolicy(c.file.Policy); err != nil {
		return err
	}
	stored := from.Policy
	if len(stored) == 0 {
		stored = json.RawMessage("null")
	}
	if c.Policy, err = diff.JSON(stored, policy); err != nil {
		return fmt.Errorf("comparing the policies: %w", err)
	}
	if len(c.Policy) > 0 {
		patch["policy"] = json.RawMessage(policy)
	}
	if tags := c.file.Tags; tags != nil && !slices.Equal(tags, from.Tags) {
		operation := diff.Operation{Op: "replace", Path: "/tags"}
		if operation.Value, err = encode(tags); err != nil {
			return err
		}
		c.Preset, patch["tags"] = append(c.Preset, operation), operation.Value
	}
	if len(patch) == 0 {
		return nil
	}
	c.patch, err = encode(patch)
	return err
}

// encodePolicy returns a policy as the server shows it, null for none.
func encodePolicy(policy *domain.Policy) ([]byte, error) {
	if policy == nil {
		return []byte("null"), nil
	}
	withDefault := *policy
	withDefault.Violation = cmp.Or(policy.Violation, domain.OverrideViolation)
	return encode(withDefault)
}

func patchOfValues(before, after any) ([]diff.Operation, error) {
	from, err := encode(before)
	if err != nil {
		return nil, err
	}
	to, err := encode(after)
	if err != nil {
		return nil, err
	}
	return diff.JSON(from, to)
}

// encode returns the JSON of a value, with raw values and numbers as they are.
func encode(value any) ([]byte, error) { return jsonv2.Marshal(value, jsonv2.Deterministic(true)) }
