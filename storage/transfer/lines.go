package transfer

import (
	"bytes"
	"cmp"
	"errors"
	"regexp"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	formatName = "caddy-presets"
	// formatVersion is the version of the files that are written and read. Every change of
	// the content of lines raises it.
	formatVersion = 1
	// maxLine bounds a line, generously. The largest record has MaxStoredSize, and control
	// characters take six times their size in a JSON string.
	maxLine = 16 * domain.MaxStoredSize
)

// line is a line of a file. Exactly one of its fields is set.
type line struct {
	Export      *header             `json:"export,omitzero"`
	Audit       *domain.AuditRecord `json:"audit,omitzero"`
	Workspace   *domain.Workspace   `json:"workspace,omitzero"`
	Preset      *presetLine         `json:"preset,omitzero"`
	Version     *versionLine        `json:"version,omitzero"`
	LabelChange *labelChangeLine    `json:"label_change,omitzero"`
	Served      *servedLine         `json:"served,omitzero"`
	Usage       *usageLine          `json:"usage,omitzero"`
	Answer      *answerLine         `json:"answer,omitzero"`
	Key         *domain.Key         `json:"key,omitzero"`
	End         *trailer            `json:"end,omitzero"`
}

type header struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	CreatedAt time.Time `json:"created_at"`
}

type trailer struct {
	Counts
	Sum sum `json:"sha256"`
}

// presetLine is a preset as clients see it, with the fields that clients do not see.
type presetLine struct {
	domain.Preset
	LatestVersion int         `json:"latest_version"`
	Kept          domain.Kept `json:"kept,omitzero"` // zero if no version was removed
}

func newPresetLine(p domain.Preset) *presetLine {
	return &presetLine{p, p.LatestVersion, p.Kept}
}

// preset returns the preset with all of its fields.
func (l *presetLine) preset() domain.Preset {
	p := l.Preset
	p.LatestVersion, p.Kept = l.LatestVersion, l.Kept
	return p
}

// versionLine is a version with its config and its messages as text.
type versionLine struct {
	domain.PresetVersion
	Template *templateLine `json:"template,omitzero"` // nil if the version is no template
	Config   string        `json:"config"`
}

// templateLine is a template with its messages as text.
type templateLine struct {
	Variables []string `json:"variables"`
	Messages  string   `json:"messages"`
}

func newVersionLine(v domain.PresetVersion) *versionLine {
	l := &versionLine{PresetVersion: v, Config: string(v.Config)}
	if v.Template != nil {
		l.Template = &templateLine{v.Template.Variables, string(v.Template.Messages)}
	}
	return l
}

func (l *versionLine) version() domain.PresetVersion {
	v := l.PresetVersion
	v.Config, v.Template = []byte(l.Config), nil
	if l.Template != nil {
		v.Template = &domain.Template{Variables: l.Template.Variables, Messages: []byte(l.Template.Messages)}
	}
	return v
}

type labelChangeLine struct {
	Label string `json:"label"`
	domain.LabelChange
}

// servedLine tells when versions of a preset were last served, in hours since 1970 by number.
type servedLine struct {
	PresetID string        `json:"preset_id"`
	Hours    domain.Served `json:"hours"`
}

// usageLine is a row of usage. Content is Base64.
type usageLine struct {
	WorkspaceID string    `json:"workspace_id"`
	PresetID    string    `json:"preset_id,omitzero"` // empty for requests without a preset
	Step        usageStep `json:"step"`
	Start       time.Time `json:"start"`
	Node        string    `json:"node"`
	Content     []byte    `json:"content"`
}

// usageStep is the length of a row's time.
type usageStep string

const (
	stepDay  usageStep = "day"
	stepHour usageStep = "hour"
)

func newUsageLine(r domain.UsageRow) *usageLine {
	step := stepHour
	if r.Day {
		step = stepDay
	}
	return &usageLine{r.WorkspaceID, r.PresetID, step, r.Start, r.Node, r.Content}
}

func (l *usageLine) row() domain.UsageRow {
	return domain.UsageRow{
		UsageID: domain.UsageID{WorkspaceID: l.WorkspaceID, PresetID: l.PresetID, Day: l.Step == stepDay, Start: l.Start},
		Node:    l.Node, Content: l.Content,
	}
}

// compare orders rows as a file has them: days first, then by preset, start and node.
func (l *usageLine) compare(other *usageLine) int {
	return cmp.Or(
		strings.Compare(string(l.Step), string(other.Step)), strings.Compare(l.PresetID, other.PresetID),
		l.Start.Compare(other.Start), strings.Compare(l.Node, other.Node),
	)
}

type answerLine struct {
	ID sum `json:"id"`
	domain.Replay
	Answer string `json:"answer,omitempty"`
}

func newAnswerLine(r domain.Replay) *answerLine {
	return &answerLine{sum(r.ID), r, string(r.Answer)}
}

func (l *answerLine) replay() domain.Replay {
	r := l.Replay
	r.ID = domain.ReplayID(l.ID)
	if l.Answer != "" { // nil stands for none
		r.Answer = []byte(l.Answer)
	}
	return r
}

// sum is a SHA-256.
type sum = domain.KeyHash

// encode returns a line, including its line break.
func (l line) encode() ([]byte, error) {
	raw, err := jsonv2.Marshal(l, jsonv2.Deterministic(true))
	return append(raw, '\n'), err
}

var errNotLine = errors.New("it is not a line of an export")

// decode reads a line of encode. Its errors name the wrong field and quote nothing else of
// the line.
func decode(raw []byte) (l line, err error) {
	err = jsonv2.Unmarshal(raw, &l, jsonv2.RejectUnknownMembers(true))
	if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		switch path := fieldOf(wrong.JSONPointer); {
		case errors.Is(err, jsonv2.ErrUnknownName):
			return l, inField(path, errors.New("this version does not know such a member"))
		case path == "":
			return l, errNotLine
		case wrong.Err == nil:
			return l, inField(path, errors.New("has a wrong type"))
		default:
			return l, inField(path, errors.New("has a value that it cannot have"))
		}
	}
	if err != nil {
		return l, errNotLine
	}
	again, err := l.encode()
	if err != nil {
		return l, errNotLine
	}
	if !bytes.Equal(again, raw) {
		if path := fieldOf(difference(raw, again)); path != "" {
			return l, inField(path, errors.New("is not as an export has it"))
		}
		return l, errNotLine
	}
	return l, nil
}

// fieldName matches the names of fields and labels. Any other name in a file may be
// confidential.
var fieldName = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)

// fieldOf returns the path of p, up to the first name that does not match fieldName.
func fieldOf(p jsontext.Pointer) (path string) {
	for name := range p.Tokens() {
		if !fieldName.MatchString(name) {
			break
		}
		path += "/" + name
	}
	return path
}

// difference returns the place of the first difference between two lines. It is empty if
// only the form differs.
func difference(raw, want []byte) jsontext.Pointer {
	got, should := jsontext.NewDecoder(bytes.NewReader(raw)), jsontext.NewDecoder(bytes.NewReader(want))
	for {
		a, errA := got.ReadToken()
		b, errB := should.ReadToken()
		switch {
		case errA != nil || errB != nil:
			return ""
		case a.Kind() == b.Kind() && a.String() == b.String():
		case b.Kind() == '}' || b.Kind() == ']': // raw has more members or elements
			return got.StackPointer()
		default:
			return should.StackPointer()
		}
	}
}

// decodeHeader returns the version in the first line. It accepts every version.
func decodeHeader(raw []byte) (version int, err error) {
	var first struct {
		Export struct {
			Format  string `json:"format"`
			Version int    `json:"version"`
		} `json:"export"`
	}
	if err := jsonv2.Unmarshal(raw, &first); err != nil || first.Export.Format != formatName {
		return 0, errors.New("it is not the beginning of an export of presets")
	}
	return first.Export.Version, nil
}
