package transfer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
)

// order is the state of a file that determines which lines may come next.
type order struct {
	last      line
	created   time.Time
	counts    Counts
	head      domain.AuditHead
	workspace string     // the id of the last workspace, empty if there was none
	preset    *arrival   // the preset whose versions and labels come, nil if there is none
	usage     *usageLine // the last row of the workspace, nil if there was none
}

// arrival is a preset whose versions and label changes are being read.
type arrival struct {
	domain.Preset
	versions int // the number of versions that were read
	label    string
	changes  int                      // the number of label's changes that were read
	targets  map[string]domain.Target // the current targets of the labels that were read
	served   bool                     // when they were last served was read
	// stored is set when the preset is stored with some of its versions. Only the importer
	// uses it.
	stored bool
}

var errOrder = errors.New("it does not belong behind the line before")

// stage returns the section of the file that a line belongs to.
func (l line) stage() int {
	switch {
	case l.Export != nil:
		return 1
	case l.Audit != nil:
		return 2
	case l.Workspace != nil, l.Preset != nil, l.Version != nil, l.LabelChange != nil, l.Served != nil, l.Usage != nil:
		return 3
	case l.Answer != nil:
		return 4
	case l.Key != nil:
		return 5
	case l.End != nil:
		return 6
	default:
		return 0
	}
}

// take checks that a line may come next, and records it.
func (o *order) take(l line) error {
	stage, before := l.stage(), o.last.stage()
	switch {
	case before == 0 && stage != 1, stage < before, stage == before && (stage == 1 || stage == 6):
		return errOrder
	}
	if l.Version == nil && l.LabelChange == nil && l.Served == nil && o.preset != nil {
		if err := o.preset.whole(); err != nil {
			return err
		}
		o.preset = nil
	}
	o.last = l
	if stage > 2 && l.End == nil && o.counts.Audit == 0 {
		return errors.New("a record of the audit trail should be here")
	}
	switch {
	case l.Export != nil:
		o.created = l.Export.CreatedAt
	case l.Audit != nil:
		o.counts.Audit++
		head, err := domain.VerifyAudit(o.head, []domain.AuditRecord{*l.Audit})
		o.head = head
		return err
	case l.Workspace != nil:
		o.counts.Workspaces++
		o.workspace, o.usage = l.Workspace.ID, nil
		return checkWorkspace(*l.Workspace)
	case l.Preset != nil:
		o.counts.Presets++
		return o.takePreset(l.Preset.preset())
	case l.Version != nil:
		o.counts.Versions++
		return o.takeVersion(l.Version)
	case l.LabelChange != nil:
		o.counts.LabelChanges++
		return o.takeLabelChange(l.LabelChange)
	case l.Served != nil:
		o.counts.Served++
		return o.takeServed(l.Served)
	case l.Usage != nil:
		o.counts.Usage++
		return o.takeUsage(l.Usage)
	case l.Answer != nil:
		o.counts.Answers++
		if domain.ReplayID(l.Answer.ID) == progressID {
			return errors.New("it has an id that no kept answer has")
		}
	case l.Key != nil:
		o.counts.Keys++
		return checkKey(*l.Key)
	}
	return nil
}

func (o *order) takePreset(p domain.Preset) error {
	if o.workspace == "" || p.WorkspaceID != o.workspace || o.usage != nil {
		return errors.New("the preset is not of the workspace above")
	}
	also := p.Kept.Also
	wrong := p.LatestVersion < 1 || p.Kept.From < 0 || p.Kept.From > p.LatestVersion+1 ||
		!slices.IsSorted(also) || len(slices.Compact(slices.Clone(also))) != len(also) ||
		len(also) > 0 && (also[0] < 1 || also[len(also)-1] >= p.Kept.From)
	if wrong || !p.State().Has(p.DesignatedVersion) {
		return errors.New("the numbers of the preset's versions do not add up")
	}
	if err := checkPreset(p); err != nil {
		return err
	}
	o.preset = &arrival{Preset: p, targets: make(map[string]domain.Target)}
	return nil
}

func (o *order) takeServed(l *servedLine) error {
	a := o.preset
	if a == nil || a.served || l.PresetID != a.ID {
		return errOrder
	}
	if err := a.whole(); err != nil {
		return err
	}
	a.served = true
	return checkServed(l.Hours, a.State())
}

func (o *order) takeUsage(l *usageLine) error {
	if o.workspace == "" || l.WorkspaceID != o.workspace || o.usage != nil && l.compare(o.usage) <= 0 {
		return errOrder
	}
	o.usage = l
	return checkUsage(l)
}

// number returns the number of the i-th version of a, counted from 0.
func (a *arrival) number(i int) int { return a.State().Version(i) }

// hasAll reports whether all versions were read.
func (a *arrival) hasAll() bool { return a.number(a.versions) > a.LatestVersion }

func (o *order) takeVersion(v *versionLine) error {
	a := o.preset
	switch {
	case a == nil || a.served || a.label != "" || v.PresetID != a.ID:
		return errOrder
	case a.hasAll() || v.Version != a.number(a.versions):
		return fmt.Errorf("version %d is not the next that the preset above has", v.Version)
	case v.Version == a.DesignatedVersion && v.ID != a.DesignatedVersionID:
		return fmt.Errorf("version %d is not the one that the preset above designates", v.Version)
	case jsontext.Value(v.Config).Kind() != '{' ||
		!jsontext.Value(v.Config).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)):
		return fmt.Errorf("the config of version %d is not a JSON object", v.Version)
	}
	a.versions++
	return checkVersion(v.version())
}

func (o *order) takeLabelChange(c *labelChangeLine) error {
	a := o.preset
	switch {
	case a == nil || a.served:
		return errOrder
	case !a.hasAll():
		return a.whole()
	}
	if c.Label > a.label {
		a.label, a.changes = c.Label, 0
	}
	a.changes++
	if c.Label != a.label || c.Number != a.changes {
		return fmt.Errorf("change %d of a label is not the next that can come", c.Number)
	}
	delete(a.targets, c.Label)
	if c.To != nil {
		a.targets[c.Label] = *c.To
	}
	return checkLabelChange(*c, a.Preset)
}

// whole returns nil if all versions and label changes of a were read.
func (a *arrival) whole() error {
	switch {
	case !a.hasAll():
		return fmt.Errorf("version %d of the preset above should be here", a.number(a.versions))
	case len(a.Labels) != len(a.targets) || len(a.Labels) > 0 && !reflect.DeepEqual(a.Labels, a.targets):
		return errors.New("the labels of the preset above are not what their changes say")
	}
	return nil
}

// soFar returns a as it is stored while only its first versions are there. lastID is the id
// of the last of these. Clients cannot see it.
func (a *arrival) soFar(versions int, lastID string) domain.Preset {
	p := a.Preset
	p.Status, p.Labels = domain.PresetArchived, nil
	p.LatestVersion = a.number(versions - 1)
	p.DesignatedVersion, p.DesignatedVersionID = p.LatestVersion, lastID
	if versions <= len(a.Kept.Also) {
		p.Kept = domain.Kept{From: p.LatestVersion, Also: a.Kept.Also[:versions-1]}
	}
	return p
}
