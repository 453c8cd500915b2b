package storagetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
)

func workspaceRoundTrip(t *testing.T, s *suite) {
	full := domain.Workspace{
		ID: newID(), Name: awkward, Slug: "full", Description: new(awkward),
		DefaultTextModel: new("a/b"), DefaultImageModel: new("c/d"), DefaultProviderSort: new("price"),
		DefaultGuardrailID: newID(), IOLoggingAPIKeyIDs: []byte(`["a",1,12345678901234567890,-1.50,1e400]`),
		IOLoggingSamplingRate: 0.1, IsDataDiscountLoggingEnabled: true,
		IsObservabilityBroadcastEnabled: true, IsObservabilityIOLoggingEnabled: true,
		CreatedAt: timeAt(1), CreatedBy: awkward, UpdatedAt: new(timeAt(2)), DisabledServerTools: &[]string{awkward, ""},
		Limits: &domain.Limits{Concurrent: 5}, IncludeBYOKInBudgets: true,
		Budgets: domain.Budgets{
			domain.Lifetime: {ID: newID(), LimitUSD: 1e9, CreatedAt: timeAt(3)},
			domain.Daily:    {ID: newID(), LimitUSD: 0.1, CreatedAt: timeAt(4), UpdatedAt: new(timeAt(5))},
			domain.Monthly:  {ID: newID(), LimitUSD: 100, CreatedAt: timeAt(6)},
		},
	}
	empty := newWorkspace("empty")
	empty.Name, empty.CreatedBy = "", ""
	empty.Description, empty.DefaultTextModel, empty.DefaultImageModel, empty.DefaultProviderSort = new(""), new(""), new(""), new("")
	empty.IOLoggingAPIKeyIDs, empty.IOLoggingSamplingRate = []byte("[]"), 0
	empty.CreatedAt, empty.UpdatedAt = time.Time{}, new(time.Time{})
	for _, want := range []domain.Workspace{full, empty, newWorkspace("nil")} {
		s.put(t, want)
		s.view(t, func(r domain.Reader) {
			wantValue(t, want)(r.Workspace(want.ID))
			wantValue(t, want)(workspaceBySlug(r, want.Slug))
			wantJSON(t, want)(r.WorkspaceJSON(strings.ToUpper(want.ID)))
		})
	}
	changed := full
	changed.Name, changed.Description, changed.UpdatedAt = "changed", nil, new(timeAt(3))
	s.put(t, changed)
	s.view(t, func(r domain.Reader) { wantValue(t, changed)(workspaceBySlug(r, "full")) })
}

func presetRoundTrip(t *testing.T, s *suite) {
	full := domain.Preset{
		ID: newID(), Name: awkward, Slug: "A.b_c~d-1", Description: new(awkward), Status: domain.PresetActive,
		StatusUpdatedAt: new(timeAt(1)), CreatorUserID: awkward, WorkspaceID: newID(),
		DesignatedVersionID: newID(), DesignatedVersion: 7, LatestVersion: 9,
		Labels: map[string]domain.Target{
			"staging": {Version: 3, Protected: true},
			awkward:   {Split: []domain.Share{{Version: 1, Weight: 2}, {Version: 9}}},
		},
		Policy: &domain.Policy{
			Lock: []string{"provider", "system"}, Models: []string{}, Drop: []string{"seed"}, Violation: domain.RefuseViolation,
			Bounds: map[string]domain.Bound{
				"temperature":      {Min: []byte("-0.10"), Max: []byte("1e0")},
				"reasoning.effort": {In: []jsontext.Value{[]byte(`"low"`), []byte("1.50"), []byte("true")}},
			},
		},
		CreatedAt: timeAt(2), UpdatedAt: timeAt(3), Protected: true,
		Limits: &domain.PresetLimits{RequestsPerMinute: 1, TokensPerDay: domain.MaxLimit, CostPerDay: 0.1},
	}
	empty := newPreset(full.WorkspaceID, "a.b_c~d-1") // another slug, because slugs are case-sensitive
	empty.Name, empty.Description, empty.StatusUpdatedAt = "", new(""), new(time.Time{})
	elsewhere := newPreset(newID(), full.Slug)
	prefix := newPreset(full.WorkspaceID, "A.b")
	presets := []domain.Preset{full, empty, elsewhere, prefix}
	for _, p := range presets {
		s.put(t, p)
	}
	s.view(t, func(r domain.Reader) {
		for _, want := range presets {
			wantValue(t, want)(r.Preset(want.WorkspaceID, want.Slug))
			state, text, err := r.PresetJSON(want.WorkspaceID, want.Slug)
			wantJSON(t, want)(text, err)
			checkSame(t, state, want.State())
		}
	})
}

// wantJSON returns a function that compares JSON with the JSON of an object.
func wantJSON(t *testing.T, object interface{ JSON() ([]byte, error) }) func([]byte, error) {
	t.Helper()
	return func(got []byte, err error) {
		t.Helper()
		want, err1 := object.JSON()
		if err := cmp.Or(err, err1); err != nil || string(got) != string(want) {
			t.Errorf("got  %s\nwant %s (error %v)", got, want, err)
		}
	}
}

func versionRoundTrip(t *testing.T, s *suite) {
	p := newPreset(newID(), "p")
	configs := []string{
		`{}`,
		" {\r\n\t\"a\" : 1.0e+02 ,\"a\":1E400, \"b\":-0.0,\"c\":123456789012345678901234567890 } ",
		`{"a":"\u00e9\/é<>&\ud83d\ude00","b":[ ],"":null}`,
		`{"s":"` + strings.Repeat("ü", 5000) + `"}`,
	}
	prompts := []*string{nil, new(""), new(awkward), new(strings.Repeat(awkward, 300))}
	var want []domain.PresetVersion
	for i := range configs {
		v := newVersion(p, i+1, configs[i])
		v.SystemPrompt, v.CreatorID, v.UpdatedAt = prompts[i], awkward, timeAt(100+i)
		v.Message = prompts[len(prompts)-1-i]
		want = append(want, v)
	}
	want[0].Dialect, want[1].Dialect, want[2].Dialect = domain.Chat, "another", domain.Messages
	want[0].Template = &domain.Template{Variables: []string{}, Messages: []byte(`[]`)}
	want[2].Template = &domain.Template{
		Variables: []string{"city", "x.y-z"},
		Messages:  []byte("[{\"role\" : \"user\",\r\n\"content\":\"{{city}} \\u00e9\\/<>&\u2028 ,\\\"system_prompt\\\":\"},{\"n\":1.0E+2}]"),
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		for _, v := range want {
			p.LatestVersion = v.Version
			if err := tx.PutPresetVersion(p, v); err != nil {
				return err
			}
		}
		return tx.PutPreset(p)
	})
	s.view(t, func(r domain.Reader) {
		for i := range want {
			wantValue(t, want[i])(r.PresetVersion(p.State(), i+1))
			wantJSON(t, want[i])(r.PresetVersionJSON(p.State(), i+1))
			text, err := r.PresetVersionJSON(p.State(), i+1)
			summary, err2 := r.PresetVersionSummary(p.State(), i+1)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			checkSummary(t, summary, text)
		}
	})
}

// checkSummary checks that a summary has all members of a version's JSON but three, and
// their sizes.
func checkSummary(t *testing.T, summary, version []byte) {
	t.Helper()
	var short, whole map[string]json.RawMessage
	var prompt *string
	var template struct{ Messages json.RawMessage }
	err := errors.Join(json.Unmarshal(summary, &short), json.Unmarshal(version, &whole))
	if err := errors.Join(err, json.Unmarshal(whole["system_prompt"], &prompt), json.Unmarshal(whole["template"], &template)); err != nil {
		t.Fatal(err)
	}
	if prompt == nil {
		prompt = new("")
	}
	sizes := fmt.Sprintf("%s %s %s", short["system_prompt_bytes"], short["template_bytes"], short["config_bytes"])
	const before = `,"config":`
	config := version[bytes.Index(version, []byte(before))+len(before) : len(version)-1] // with the blanks around it
	if want := fmt.Sprintf("%d %d %d", len(*prompt), len(template.Messages), len(config)); sizes != want {
		t.Errorf("got sizes %s, want %s", sizes, want)
	}
	delete(whole, "config")
	delete(whole, "system_prompt")
	delete(whole, "template")
	if !reflect.DeepEqual(short, whole) {
		t.Errorf("got summary %s of %s", summary, version)
	}
}

func keyRoundTrip(t *testing.T, s *suite) {
	full := domain.Key{
		ID: newID(), Kind: domain.ManagementKey, Hash: domain.HashSecret("1"), Hint: "wxyz",
		Label: "a...b", Disabled: true, UpdatedAt: new(timeAt(5)),
		Name: awkward, UserID: awkward, WorkspaceID: newID(),
		CreatedAt: timeAt(1), ExpiresAt: new(timeAt(2)), RevokedAt: new(timeAt(3)), LastUsedAt: new(timeAt(4)),
		Scope: &domain.Scope{
			Presets: []string{"p", "A.b"}, PresetRequired: true, Models: []string{"a/*", awkward},
			OnlyWorkspace: true, Rights: []domain.Right{domain.ProtectedLabels},
		},
		KeyLimits: domain.KeyLimits{Limit: new(12.5), LimitReset: domain.Monthly, IncludeBYOKInLimit: true, Limits: &domain.Limits{
			RequestsPerMinute: 1, TokensPerMinute: 2, RequestsPerDay: 3, TokensPerDay: domain.MaxLimit, Concurrent: 5,
		}},
	}
	for _, want := range []domain.Key{full, newKey(4)} {
		s.put(t, want)
		s.view(t, func(r domain.Reader) {
			wantValue(t, want)(r.Key(want.ID))
			wantValue(t, want)(r.KeyByHash(want.Hash))
		})
	}
	former := full.Hash
	full.RevokedAt, full.Hash = new(timeAt(9)), domain.HashSecret("another secret")
	s.put(t, full)
	s.view(t, func(r domain.Reader) {
		wantValue(t, full)(r.KeyByHash(full.Hash))
		wantNotFound(t, "the former hash")(r.KeyByHash(former))
	})
	full.Previous = &domain.PreviousSecret{Hash: full.Hash, Until: timeAt(10)}
	full.Hash = domain.HashSecret("a third secret")
	s.put(t, full)
	s.view(t, func(r domain.Reader) {
		wantValue(t, full)(r.KeyByHash(full.Hash))
		wantValue(t, full)(r.KeyByHash(full.Previous.Hash))
	})
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.DeleteKey(full) })
	s.view(t, func(r domain.Reader) {
		wantNotFound(t, "the hash of a removed key")(r.KeyByHash(full.Hash))
		wantNotFound(t, "its previous hash")(r.KeyByHash(full.Previous.Hash))
	})
}

// largestRecords stores the largest objects that the domain allows.
func largestRecords(t *testing.T, s *suite) {
	w := newWorkspace("large")
	w.IOLoggingAPIKeyIDs = nil
	stored, err := w.JSON()
	if err != nil {
		t.Fatal(err)
	}
	w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", domain.MaxStoredSize-len(stored)) + `"]`)
	p := newPreset(w.ID, strings.Repeat("s", 128))
	p.LatestVersion = 3
	config := newVersion(p, 1, `{"a":"`+strings.Repeat("x", domain.MaxStoredSize-8)+`"}`)
	prompt := newVersion(p, 2, `{}`)
	prompt.SystemPrompt = new(strings.Repeat("\x01", domain.MaxStoredSize/6)) // sent as \u0001
	prompt.CreatorID = strings.Repeat("😀", domain.MaxKeyText)
	template := newVersion(p, 3, `{}`)
	name := strings.Repeat("v", domain.MaxStoredSize/2-40)
	template.Template = &domain.Template{Variables: []string{name}, Messages: []byte(`[{"content":"{{` + name + `}}"}]`)}
	if err := (domain.Capture{Config: template.Config, Template: template.Template}).CheckSize(); err != nil {
		t.Fatal(err)
	}
	// An answer shows up to two whole versions. A preset is small beside them.
	answer := domain.Replay{ID: domain.ReplayID{1}, Request: make([]byte, 32), ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
	answer.Answer = bytes.Repeat([]byte("a"), 2*domain.MaxStoredSize+(96<<10))
	p.Labels = map[string]domain.Target{}
	var largest domain.Target
	for n := range domain.MaxShares {
		largest.Split = append(largest.Split, domain.Share{Version: 1_000_000 + n, Weight: domain.MaxWeight})
	}
	for i := range domain.MaxLabels {
		p.Labels[fmt.Sprintf("%064d", i)] = largest
	}
	change := domain.LabelChange{Number: 1, Time: timeAt(1), KeyID: awkward, UserID: strings.Repeat("😀", domain.MaxKeyText), From: &largest, To: &largest}
	audit := newAudit(1)
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutWorkspace(w), tx.PutPresetVersion(p, config))
	})
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(put[any](tx, p, audit, answer), tx.PutPresetVersion(p, prompt), tx.PutLabelChange(p, "staging", change))
	})
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutPresetVersion(p, template) })
	s.reopen(t)
	s.view(t, func(r domain.Reader) {
		wantValue(t, w)(workspaceBySlug(r, w.Slug))
		wantValue(t, p)(r.Preset(w.ID, p.Slug))
		wantValue(t, config)(r.PresetVersion(p.State(), 1))
		wantValue(t, template)(r.PresetVersion(p.State(), 3))
		wantValue(t, prompt)(r.PresetVersion(p.State(), 2))
		wantValue(t, change)(r.LabelChange(p, "staging", 1))
		wantValue(t, audit)(r.AuditRecord(1))
		wantValue(t, answer)(r.Replay(answer.ID))
		checkPresetPages(t, r, w.ID, []domain.Preset{p}, 1)
		checkWorkspacePages(t, r, []domain.Workspace{w}, 1)
	})
}

func notFound(t *testing.T, s *suite) {
	check := func(r domain.Reader) {
		for _, text := range invalidNames() {
			name := text[:min(len(text), 40)]
			wantNotFound(t, "Workspace "+name)(r.Workspace(text))
			wantNotFound(t, "WorkspaceID "+name)(workspaceBySlug(r, text))
			wantNotFound(t, "Preset in "+name)(r.Preset(text, "p"))
			wantNotFound(t, "Preset "+name)(r.Preset(newID(), text))
			wantNotFound(t, "Preset twice "+name)(r.Preset(text, text))
			wantNotFound(t, "PresetVersion of "+name)(r.PresetVersion(domain.PresetState{ID: text}, 1))
			wantNotFound(t, "WorkspaceJSON "+name)(r.WorkspaceJSON(text))
			_, _, err := r.PresetJSON(text, text)
			wantNotFound(t, "PresetJSON "+name)(nil, err)
			wantNotFound(t, "PresetVersionJSON of "+name)(r.PresetVersionJSON(domain.PresetState{ID: text}, 1))
			wantNotFound(t, "PresetVersionSummary of "+name)(r.PresetVersionSummary(domain.PresetState{ID: text}, 1))
			wantNotFound(t, "Key "+name)(r.Key(text))
			for _, label := range []string{text, "staging"} {
				wantValue(t, 0)(r.LabelChanges(domain.Preset{ID: text}, label))
				wantNotFound(t, "LabelChange of "+name)(r.LabelChange(domain.Preset{ID: text}, label, 1))
			}
		}
		p := newPreset(newID(), "p")
		p.LatestVersion = 3
		for _, n := range []int{math.MinInt, -1, 0, 4, math.MaxInt} {
			wantNotFound(t, fmt.Sprint("PresetVersion ", n))(r.PresetVersion(p.State(), n))
		}
		wantNotFound(t, "KeyByHash")(r.KeyByHash(domain.KeyHash{}))
		wantNotFound(t, "LabelChange")(r.LabelChange(p, "staging", 1))
		wantNotFound(t, "AuditRecord")(r.AuditRecord(1))
		wantValue(t, domain.AuditHead{})(r.AuditHead())
		wantNotFound(t, "Replay")(r.Replay(domain.ReplayID{}))
		// By the contract, a missing version of a preset is damage.
		if _, err := r.PresetVersion(p.State(), 2); err == nil || errors.Is(err, domain.ErrNotFound) {
			t.Errorf("PresetVersion that must exist: got error %v, want one that is not ErrNotFound", err)
		}
	}
	s.inBoth(t, check) // the store is empty
	if keys, err := get(s, domain.Reader.Keys); err != nil || len(keys) != 0 {
		t.Errorf("Keys: got %v, %v, want none", keys, err)
	}
	p := newPreset(newID(), "other")
	s.mustUpdate(t, func(tx domain.Tx) error {
		return cmp.Or(put[any](tx, newWorkspace("other"), p, newKey(1)), tx.PutPresetVersion(p, newVersion(p, 1, "{}")))
	})
	s.inBoth(t, check)
}

// otherNotations looks objects up by other notations of their ids, such as a UUID library
// accepts. It also looks them up by an id as a slug.
func otherNotations(t *testing.T, s *suite) {
	w, k := newWorkspace("w"), newKey(1)
	s.put(t, w, k)
	s.view(t, func(r domain.Reader) {
		for _, id := range []string{w.ID, k.ID} {
			for _, text := range []string{"urn:uuid:" + id, "{" + id + "}", "x" + id + "x", strings.ReplaceAll(id, "-", ""), " " + id} {
				wantNotFound(t, "Workspace "+text)(r.Workspace(text))
				wantNotFound(t, "Key "+text)(r.Key(text))
			}
		}
		wantNotFound(t, "the id as a slug")(workspaceBySlug(r, w.ID))
	})
	// Upper case is another notation of the same id, also for stamps.
	upper := newWorkspace("upper")
	objects := watched{"the workspace": ofWorkspace(upper.ID), "the preset": ofPreset(upper.ID, "p")}
	before := objects.read(s)
	upper.ID = strings.ToUpper(upper.ID)
	s.put(t, upper, newPreset(upper.ID, "p"))
	if changed := objects.changed(s, before); len(changed) != len(objects) {
		t.Errorf("an id in upper case was written: the stamps of only %q changed", changed)
	}
}

func slugReleased(t *testing.T, s *suite) {
	w := newWorkspace("before")
	s.put(t, w)
	w.Slug = "after"
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := tx.PutWorkspace(w)
		wantNotFound(t, "the former slug, in the same update")(workspaceBySlug(tx, "before"))
		return err
	})
	s.view(t, func(r domain.Reader) {
		wantNotFound(t, "the former slug")(workspaceBySlug(r, "before"))
		wantValue(t, w)(workspaceBySlug(r, "after"))
	})
	// Others may use the slug, and its former holder must not remove theirs.
	heir := newWorkspace("before")
	s.put(t, heir)
	w.Slug = "once more"
	s.put(t, w)
	s.view(t, func(r domain.Reader) { wantValue(t, heir)(workspaceBySlug(r, "before")) })
	// After several changes in one update, only the last slug remains.
	passing := []string{"one", "two", "once more"}
	s.mustUpdate(t, func(tx domain.Tx) error {
		for _, slug := range append(passing, "three") {
			w.Slug = slug
			if err := tx.PutWorkspace(w); err != nil {
				return err
			}
		}
		return nil
	})
	s.view(t, func(r domain.Reader) {
		for _, slug := range passing {
			wantNotFound(t, "passing slug "+slug)(workspaceBySlug(r, slug))
		}
		wantValue(t, w)(workspaceBySlug(r, "three"))
	})
}

// versionNeverChanges puts a second version of the same number.
func versionNeverChanges(t *testing.T, s *suite) {
	p := newPreset(newID(), "p")
	p.LatestVersion = 1
	want := newVersion(p, 1, `{"a":1}`)
	s.mustUpdate(t, func(tx domain.Tx) error { return errors.Join(tx.PutPresetVersion(p, want), tx.PutPreset(p)) })
	err := s.update(func(tx domain.Tx) error { return tx.PutPresetVersion(p, newVersion(p, 1, `{"a":2}`)) })
	if !errors.Is(err, domain.ErrTaken) {
		t.Errorf("got error %v, want ErrTaken", err)
	}
	s.view(t, func(r domain.Reader) { wantValue(t, want)(r.PresetVersion(p.State(), 1)) })
}

func keysOldestFirst(t *testing.T, s *suite) {
	var want []domain.Key
	for _, n := range []int{5, 3, 9, 1, 7, 0, 8, 2, 6, 4} {
		k := newKey(n)
		want = append(want, k)
		s.put(t, k)
	}
	slices.SortFunc(want, func(a, b domain.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	s.view(t, func(r domain.Reader) { wantValue(t, want)(r.Keys()) })
	// An update sees its own writes, once each.
	want[3].RevokedAt = new(timeAt(50))
	want = append(want, newKey(100))
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := put(tx, want[3], want[10])
		wantValue(t, want)(tx.Keys())
		return err
	})
	s.view(t, func(r domain.Reader) { wantValue(t, want)(r.Keys()) })
}

// valuesAreCopied modifies passed and returned values.
func valuesAreCopied(t *testing.T, s *suite) {
	p := newPreset(newID(), "p")
	p.LatestVersion = 1
	template := func() *domain.Template {
		return &domain.Template{Variables: []string{"v"}, Messages: []byte(`[{"a":1}]`)}
	}
	v := newVersion(p, 1, `{"a":1}`)
	want := newVersion(p, 1, `{"a":1}`)
	want.ID, want.Template = v.ID, template()
	read := func(r domain.Reader) error {
		got, err := r.PresetVersion(p.State(), 1)
		if err != nil {
			return err
		}
		checkSame(t, got, want)
		for i := range got.Config {
			got.Config[i] = '!'
		}
		copy(got.Template.Messages, "!!!!")
		got.Template.Variables[0] = "!"
		return nil
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		v.Config, v.Template = []byte(`{"a":1}`), template()
		if err := errors.Join(tx.PutPreset(p), tx.PutPresetVersion(p, v)); err != nil {
			return err
		}
		copy(v.Config, "!!!!")
		copy(v.Template.Messages, "!!!!")
		v.Template.Variables[0] = "!"
		return errors.Join(read(tx), read(tx))
	})
	s.mustView(t, func(r domain.Reader) error { return errors.Join(read(r), read(r)) })
}

// checkSame compares objects as the domain does. A nil json.RawMessage equals one of null, and
// the encoding of a time does not matter.
func checkSame[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(normalize(got), normalize(want)) {
		t.Errorf("got  %s\nwant %s", formatJSON(got), formatJSON(want))
	}
}

func normalize(object any) any {
	w, ok := object.(domain.Workspace)
	if !ok {
		return object
	}
	if bytes.Equal(w.IOLoggingAPIKeyIDs, []byte("null")) {
		w.IOLoggingAPIKeyIDs = nil
	}
	return w
}

func formatJSON(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	if v, ok := object.(domain.PresetVersion); ok {
		text = append(append(text, " config "...), v.Config...)
	}
	return string(text[:min(len(text), 1000)])
}

// workspaceBySlug returns the workspace that holds slug.
func workspaceBySlug(r domain.Reader, slug string) (domain.Workspace, error) {
	id, err := r.WorkspaceID(slug)
	if err != nil {
		return domain.Workspace{}, err
	}
	return r.Workspace(id)
}
