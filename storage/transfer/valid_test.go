package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// edited returns an export with the first line changed that edit applies to, and that
// line's number. The sum is correct.
func edited(t testing.TB, content []byte, edit func(l *line) bool) ([]byte, int) {
	t.Helper()
	all, counts := lines(content), counted(t, content)
	for i, raw := range all {
		l, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !edit(&l) {
			continue
		}
		raw, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(raw, all[i]) {
			t.Fatalf("line %d is the same", i+1)
		}
		all[i] = raw
		return sealed(t, all, counts), i + 1
	}
	t.Fatal("no line was changed")
	return nil, 0
}

func ofWorkspace(edit func(w *domain.Workspace)) func(*line) bool {
	return func(l *line) bool {
		if l.Workspace != nil {
			edit(l.Workspace)
		}
		return l.Workspace != nil
	}
}

func ofPreset(edit func(p *presetLine)) func(*line) bool {
	return func(l *line) bool {
		if l.Preset == nil || len(l.Preset.Labels) == 0 {
			return false
		}
		edit(l.Preset)
		return true
	}
}

func ofVersion(edit func(v *versionLine)) func(*line) bool {
	return func(l *line) bool {
		if l.Version != nil {
			edit(l.Version)
		}
		return l.Version != nil
	}
}

func ofChange(edit func(c *labelChangeLine)) func(*line) bool {
	return func(l *line) bool {
		if l.LabelChange != nil {
			edit(l.LabelChange)
		}
		return l.LabelChange != nil
	}
}

func ofKey(edit func(k *domain.Key)) func(*line) bool {
	return func(l *line) bool {
		if l.Key != nil {
			edit(l.Key)
		}
		return l.Key != nil
	}
}

// Import refuses objects that the API could not have created, despite a correct sum. The
// error names the line and the field.
func TestWrongFields(t *testing.T) {
	tier.Slow(t)
	content := small(t)
	large := strings.Repeat("x", domain.MaxStoredSize)
	for _, tc := range []struct {
		says string
		edit func(*line) bool
	}{
		{"/id: must be a UUID", ofWorkspace(func(w *domain.Workspace) { w.ID = "../" + w.ID[3:] })},
		{"/slug: must be lowercase", ofWorkspace(func(w *domain.Workspace) { w.Slug = "TEAM team/.." })},
		{"/name: ", ofWorkspace(func(w *domain.Workspace) { w.Name = "" })},
		{"/description: ", ofWorkspace(func(w *domain.Workspace) { w.Description = &large })},
		{"/default_provider_sort: ", ofWorkspace(func(w *domain.Workspace) { w.DefaultProviderSort = new("up") })},
		{"/io_logging_sampling_rate: ", ofWorkspace(func(w *domain.Workspace) { w.IOLoggingSamplingRate = -77 })},
		{"/io_logging_api_key_ids: ", ofWorkspace(func(w *domain.Workspace) { w.IOLoggingAPIKeyIDs = []byte("{}") })},
		{"/disabled_server_tools/0: ", ofWorkspace(func(w *domain.Workspace) { w.DisabledServerTools = &[]string{"x"} })},

		{"/id: must be a UUID", ofPreset(func(p *presetLine) { p.ID = "1" })},
		{"/designated_version_id: must be a UUID", ofPreset(func(p *presetLine) { p.DesignatedVersionID = "{" + p.DesignatedVersionID + "}" })},
		{"/slug: must be 1 to 128 characters", ofPreset(func(p *presetLine) { p.Slug = "../../X Y/\x00" })},
		{"/status: must be active, disabled or archived", ofPreset(func(p *presetLine) { p.Status = "live" })},
		{"/name: ", ofPreset(func(p *presetLine) { p.Name = "" })},
		{"/description: ", ofPreset(func(p *presetLine) { p.Description = &large })},
		{"/label: is reserved", ofChange(func(c *labelChangeLine) { c.Label = "latest" })},
		{"/labels: ", ofPreset(func(p *presetLine) { p.Labels["l"] = domain.Target{Version: 1 << 30} })},
		{"/labels: ", ofPreset(func(p *presetLine) {
			p.Labels["l"] = domain.Target{Split: []domain.Share{{Version: p.DesignatedVersion, Weight: -1}}}
		})},
		{"/policy/models/0: must have at most 4 *", ofPreset(func(p *presetLine) { p.Policy = &domain.Policy{Models: []string{"*/*/*/*/*"}, Violation: "refuse"} })},
		{"/policy/lock/0: must be the name of a setting", ofPreset(func(p *presetLine) { p.Policy = &domain.Policy{Lock: []string{"nothing"}, Violation: "refuse"} })},
		{"/policy/violation: must be", ofPreset(func(p *presetLine) { p.Policy = &domain.Policy{} })},
		{"/labels: must be at most 64", ofPreset(func(p *presetLine) {
			for n := range domain.MaxLabels {
				p.Labels[fmt.Sprintf("l%d", n)] = domain.Target{Version: p.DesignatedVersion}
			}
		})},

		{"/id: must be a UUID", ofVersion(func(v *versionLine) { v.ID = "" })},
		{"/dialect: must be", ofVersion(func(v *versionLine) { v.Dialect = "other" })},
		{"/message: must not have control characters", ofVersion(func(v *versionLine) { v.Message = new("a\nb") })},
		{"/message: must be 1 to 500 characters", ofVersion(func(v *versionLine) { v.Message = &large })},
		{"what a preset version stores must be at most 262144 bytes", ofVersion(func(v *versionLine) { v.SystemPrompt = &large })},
		{"/config: must not nest deeper than 128 levels", ofVersion(func(v *versionLine) { v.Config = `{"a":` + nested(128) + "}" })},
		{"/template/messages: must not nest deeper than 127 levels", ofVersion(func(v *versionLine) {
			v.Template = &templateLine{Messages: `[{"a":` + nested(126) + "}]"}
		})},
		{"/template/variables/0: must be the name of a variable", ofVersion(func(v *versionLine) {
			v.Template = &templateLine{Variables: []string{"a b"}, Messages: `[]`}
		})},
		{"/template/messages: must be an array of objects", ofVersion(func(v *versionLine) {
			v.Template = &templateLine{Messages: `["text"]`}
		})},
		{"what a preset version stores must be at most 262144 bytes", ofVersion(func(v *versionLine) {
			v.Template = &templateLine{Messages: `[{"a":"` + large + `"}]`}
		})},

		{"/label: must be 1 to 64 characters", ofChange(func(c *labelChangeLine) { c.Label = "a/b" })},
		{"/to: ", ofChange(func(c *labelChangeLine) { c.To = &domain.Target{Version: 1 << 30} })},
		{"/to: must not have both", ofChange(func(c *labelChangeLine) {
			c.To = &domain.Target{Version: 1, Split: []domain.Share{{Version: 1, Weight: 1}}}
		})},
		{"/from: ", ofChange(func(c *labelChangeLine) { c.From = &domain.Target{Version: -1} })},

		{"/id: must be a UUID", ofKey(func(k *domain.Key) { k.ID = "k1" })},
		{"/workspace_id: must be a UUID", ofKey(func(k *domain.Key) { k.WorkspaceID = "team" })},
		{"/kind: must be management or inference", ofKey(func(k *domain.Key) { k.Kind = "root" })},
		{"/user_id: must be printable", ofKey(func(k *domain.Key) { k.UserID = "a\nb" })},
		{"/scope/presets/0: must be the slug", ofKey(func(k *domain.Key) { k.Kind, k.Scope = domain.InferenceKey, &domain.Scope{Presets: []string{"a b"}} })},
		{"/scope/only_workspace: is for management keys", ofKey(func(k *domain.Key) { k.Kind, k.Scope = domain.InferenceKey, &domain.Scope{OnlyWorkspace: true} })},
		{"/scope/may/0: must be protected-labels", ofKey(func(k *domain.Key) {
			k.Kind, k.Scope = domain.ManagementKey, &domain.Scope{Rights: []domain.Right{"root"}}
		})},
		{"/name: must be at most", ofKey(func(k *domain.Key) { k.Name = large })},

		{"it has an id that no kept answer has", func(l *line) bool { // or it would be the progress of an import
			if l.Answer != nil {
				l.Answer.ID = sum(progressID)
			}
			return l.Answer != nil
		}},
	} {
		changed, number := edited(t, content, tc.edit)
		refuses(t, tc.says, changed, fmt.Sprintf("line %d: %s", number, tc.says))
		s := newStore(t)
		if _, err := inSmall(t.Context(), s, changed); !errors.Is(err, ErrFile) {
			t.Errorf("%s: got error %v of an import, want ErrFile", tc.says, err)
		}
	}
}

// nested returns lists in lists.
func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// The deepest JSON that the API takes can be imported, and no deeper one.
func TestDepth(t *testing.T) {
	version := func(levels int) domain.PresetVersion {
		return domain.PresetVersion{
			ID: uuid.NewString(), Dialect: domain.Chat, Config: []byte(`{"a":` + nested(levels-1) + "}"),
			Template: &domain.Template{Messages: []byte(`[{"a":` + nested(levels-3) + "}]")},
		}
	}
	if err := checkVersion(version(128)); err != nil {
		t.Errorf("128 levels: %v", err)
	}
	v := version(129)
	if err := checkVersion(v); err == nil || err.Error() != "/config: must not nest deeper than 128 levels" {
		t.Errorf("129 levels: got %v", err)
	}
	v.Config = []byte("{}")
	if err := checkVersion(v); err == nil || err.Error() != "/template/messages: must not nest deeper than 127 levels" {
		t.Errorf("129 levels of messages: got %v", err)
	}
}

// The second occurrence of an object is refused, because the store has it.
func TestTwice(t *testing.T) {
	content := small(t)
	all, counts := lines(content), counted(t, content)
	var read []line
	for _, raw := range all {
		l, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, l)
	}
	last := func(is func(l line) bool) int {
		for i, l := range slices.Backward(read) {
			if is(l) {
				return i
			}
		}
		t.Fatal("there is none")
		return 0
	}
	put := func(at int, l line) []byte {
		raw, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	w, k := last(func(l line) bool { return l.Workspace != nil }), last(func(l line) bool { return l.Key != nil })
	p := last(func(l line) bool { return l.Preset != nil && l.Preset.WorkspaceID == read[w].Workspace.ID })
	workspace := func(edit func(w *domain.Workspace)) []byte {
		again := *read[w].Workspace
		edit(&again)
		return put(w, line{Workspace: &again})
	}
	key := func(edit func(k *domain.Key)) []byte {
		again := *read[k].Key
		edit(&again)
		return put(k, line{Key: &again})
	}
	var preset [][]byte // the last one of the last workspace, with what belongs to it
	for i := p; i == p || read[i].Version != nil || read[i].LabelChange != nil; i++ {
		preset = append(preset, all[i])
	}
	renamed := slices.Clone(preset)
	other := *read[p].Preset
	other.Slug += "-2"
	renamed[0] = put(p, line{Preset: &other})
	ends := p + len(preset)
	for what, tc := range map[string]struct {
		at     int
		insert [][]byte
		add    Counts
	}{
		"id of a workspace":   {ends, [][]byte{workspace(func(w *domain.Workspace) { w.Slug = "other" })}, Counts{Workspaces: 1}},
		"slug of a workspace": {ends, [][]byte{workspace(func(w *domain.Workspace) { w.ID = uuid.NewString() })}, Counts{Workspaces: 1}},
		"id of a key":         {k + 1, [][]byte{key(func(k *domain.Key) { k.Hash[0] ^= 1 })}, Counts{Keys: 1}},
		"hash of a key":       {k + 1, [][]byte{key(func(k *domain.Key) { k.ID = uuid.NewString() })}, Counts{Keys: 1}},
		"slug of a preset":    {ends, preset, Counts{Presets: 1, Versions: len(preset) - 1}},
		"id of a preset":      {ends, renamed, Counts{Presets: 1, Versions: len(preset) - 1}},
	} {
		for _, batch := range []int{1, maxBatch} {
			n := counts
			n.Workspaces += tc.add.Workspaces
			n.Keys += tc.add.Keys
			n.Presets += tc.add.Presets
			n.Versions += tc.add.Versions
			twice := sealed(t, slices.Insert(slices.Clone(all), tc.at, tc.insert...), n)
			if _, err := Check(t.Context(), bytes.NewReader(twice)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			s := started(t)
			_, err := importBy(t.Context(), s, bytes.NewReader(twice), batch)
			if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "of an object before") || !strings.Contains(err.Error(), "line ") {
				t.Errorf("%s, batches of %d: got error %v, want ErrFile", what, batch, err)
			}
		}
	}
}

// A file without a trail has nothing.
func TestNoTrail(t *testing.T) {
	content := small(t)
	all, counts := lines(content), counted(t, content)
	n := counts.Audit
	counts.Audit = 0
	refuses(t, "no trail", sealed(t, append(all[:1:1], all[1+n:]...), counts), "line 2: a record of the audit trail should be here")
	nothing := sealed(t, all[:1], Counts{})
	s := started(t)
	imports(t, s, nothing)
	if got := lines(exported(t, s)); len(got) != 1 {
		t.Errorf("got %d lines of a store of nothing", len(got))
	}
	if err := domain.NewService(s).EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Error(err)
	}
}
