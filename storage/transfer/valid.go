package transfer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/schema"
)

// An import accepts only objects that the API could have created, so it applies the API's
// own rules. Errors name the field and do not quote its value.

// inField adds the field's path to an error of a rule.
func inField(path string, err error) error {
	if invalid, ok := errors.AsType[*domain.Error](err); ok && len(invalid.Issues) > 0 {
		issue := invalid.Issues[0]
		if issue.Path != "" && path == "" {
			path = "/" + strings.TrimPrefix(issue.Path, "/")
		}
		err = errors.New(issue.Message)
	} else if invalid, ok := errors.AsType[*schema.Error](err); ok {
		path, err = path+invalid.Violations[0].Path, errors.New(invalid.Violations[0].Message)
	}
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// checkID returns an error if id is not a UUID.
func checkID(path, id string) error {
	if len(id) != 36 || uuid.Validate(id) != nil {
		return inField(path, errors.New("must be a UUID"))
	}
	return nil
}

// fields checks the fields of an object, as clients see it, by the schema of a request.
func fields(object interface{ JSON() ([]byte, error) }, of func(*schema.Schemas) *schema.Schema) error {
	schemas, err := schema.Load()
	if err != nil {
		return err
	}
	text, err := object.JSON()
	if err == nil {
		_, err = of(schemas).Check(text)
	}
	return inField("", err)
}

func checkWorkspace(w domain.Workspace) error {
	if err := checkID("/id", w.ID); err != nil {
		return err
	}
	return fields(w, func(s *schema.Schemas) *schema.Schema { return s.CreateWorkspace })
}

// checkPreset checks a preset with all of its labels.
func checkPreset(p domain.Preset) error {
	if err := checkID("/id", p.ID); err != nil {
		return err
	}
	if err := checkID("/designated_version_id", p.DesignatedVersionID); err != nil {
		return err
	}
	if err := domain.CheckPresetSlug(p.Slug); err != nil {
		return inField("", err)
	}
	if !p.Status.Valid() {
		return inField("/status", errors.New("must be active, disabled or archived"))
	}
	if len(p.Labels) > domain.MaxLabels {
		return inField("/labels", fmt.Errorf("must be at most %d", domain.MaxLabels))
	}
	for _, to := range p.Labels { // their names are checked with their changes
		if err := checkTarget("/labels", to, p); err != nil {
			return err
		}
	}
	if err := p.Policy.Check(); err != nil {
		return inField("", err)
	}
	if p.ManagedBy != nil {
		if err := domain.CheckOwner("/managed_by", *p.ManagedBy); err != nil {
			return inField("", err)
		}
	}
	p.Status, p.Labels = domain.PresetActive, nil // clients cannot set these
	return fields(p, func(s *schema.Schemas) *schema.Schema { return s.UpdatePreset })
}

// checkTarget checks the target of a label in a state of its preset.
func checkTarget(path string, to domain.Target, p domain.Preset) error {
	if to.Split != nil && to.Version != 0 {
		return inField(path, errors.New("must not have both version and split"))
	}
	return inField(path, to.Check(p))
}

func checkVersion(v domain.PresetVersion) error {
	if err := checkID("/id", v.ID); err != nil {
		return err
	}
	if !v.Dialect.Valid() {
		return inField("/dialect", errors.New("must be that of an inference API"))
	}
	if v.Message != nil {
		if err := domain.CheckMessage(*v.Message); err != nil {
			return inField("", err)
		}
	}
	if err := schema.CheckDepth(v.Config, schema.MaxDepth); err != nil {
		return inField("/config", err)
	}
	if v.Template != nil {
		if err := schema.CheckDepth(v.Template.Messages, schema.MaxDepth-1); err != nil { // they were in a body
			return inField("/template/messages", err)
		}
	}
	if err := v.Template.Check(); err != nil {
		return inField("", err)
	}
	return inField("", domain.Capture{Config: v.Config, SystemPrompt: v.SystemPrompt, Template: v.Template}.CheckSize())
}

// checkLabelChange checks a change of a label of p. Versions that the change refers to may
// have been removed since.
func checkLabelChange(c labelChangeLine, p domain.Preset) error {
	p.Kept = domain.Kept{}
	if err := domain.CheckLabel(c.Label); err != nil {
		return inField("", err)
	}
	for path, to := range map[string]*domain.Target{"/from": c.From, "/to": c.To} {
		if to == nil {
			continue
		}
		if err := checkTarget(path, *to, p); err != nil {
			return err
		}
	}
	return nil
}

// checkServed checks when versions of p were last served.
func checkServed(s domain.Served, p domain.PresetState) error {
	if len(s) == 0 || len(s) > domain.MaxServed {
		return inField("/hours", fmt.Errorf("must have 1 to %d versions", domain.MaxServed))
	}
	for n, hour := range s {
		if !p.Has(n) {
			return inField("/hours", errors.New("must have versions of the preset"))
		}
		if hour < 0 || hour > maxHour {
			return inField("/hours/"+strconv.Itoa(n), errors.New("must be an hour since 1970"))
		}
	}
	return nil
}

// maxHour is the last hour of the year 9999.
const maxHour = 253402300799 / 3600

func checkUsage(l *usageLine) error {
	step := time.Hour
	switch l.Step {
	case stepHour:
	case stepDay:
		step = 24 * time.Hour
	default:
		return inField("/step", errors.New("must be day or hour"))
	}
	if l.Start.Before(time.Unix(0, 0)) || !l.Start.Equal(l.Start.Truncate(step)) || l.Start.Location() != time.UTC {
		return inField("/start", errors.New("must be the beginning of a day or an hour, in UTC"))
	}
	if l.PresetID != "" {
		if err := checkID("/preset_id", l.PresetID); err != nil {
			return err
		}
	}
	if err := checkID("/node", l.Node); err != nil {
		return err
	}
	if _, err := usage.Decode(l.PresetID, l.Content); err != nil || len(l.Content) > domain.MaxUsageSize {
		return inField("/content", errors.New("must be a row of usage"))
	}
	return nil
}

func checkKey(k domain.Key) error {
	if err := checkID("/id", k.ID); err != nil {
		return err
	}
	if k.WorkspaceID != "" {
		if err := checkID("/workspace_id", k.WorkspaceID); err != nil {
			return err
		}
	}
	return inField("", k.Check())
}
