package storagetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

func workspaceRoundTrip(t *testing.T, s *suite) {
	full := domain.Workspace{
		ID: newID(), Name: awkward, Slug: "full", Description: new(awkward),
		DefaultTextModel: new("a/b"), DefaultImageModel: new("c/d"), DefaultProviderSort: new("price"),
		DefaultGuardrailID: newID(), IOLoggingAPIKeyIDs: []byte(`["a",1,12345678901234567890,-1.50,1e400]`),
		IOLoggingSamplingRate: 0.1, IsDataDiscountLoggingEnabled: true,
		IsObservabilityBroadcastEnabled: true, IsObservabilityIOLoggingEnabled: true,
		CreatedAt: when(1), CreatedBy: awkward, UpdatedAt: new(when(2)), DisabledServerTools: &[]string{awkward, ""},
	}
	empty := newWorkspace("empty")
	empty.Name, empty.CreatedBy = "", ""
	empty.Description, empty.DefaultTextModel, empty.DefaultImageModel, empty.DefaultProviderSort = new(""), new(""), new(""), new("")
	empty.IOLoggingAPIKeyIDs, empty.IOLoggingSamplingRate = []byte("[]"), 0
	empty.CreatedAt, empty.UpdatedAt = time.Time{}, new(time.Time{})
	for _, want := range []domain.Workspace{full, empty, newWorkspace("nil")} {
		s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(want) })
		s.mustView(t, func(r domain.Reader) error {
			got, err := r.Workspace(want.ID)
			same(t, got, want)
			if err != nil {
				return err
			}
			got, err = workspaceBySlug(r, want.Slug)
			same(t, got, want)
			if err != nil {
				return err
			}
			text, err := r.WorkspaceJSON(strings.ToUpper(want.ID))
			shows(t, text, want)
			return err
		})
	}
	changed := full
	changed.Name, changed.Description, changed.UpdatedAt = "changed", nil, new(when(3))
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(changed) })
	got, err := get(s, func(r domain.Reader) (domain.Workspace, error) { return workspaceBySlug(r, "full") })
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, changed)
}

func presetRoundTrip(t *testing.T, s *suite) {
	full := domain.Preset{
		ID: newID(), Name: awkward, Slug: "A.b_c~d-1", Description: new(awkward), Status: domain.PresetActive,
		StatusUpdatedAt: new(when(1)), CreatorUserID: awkward, WorkspaceID: newID(),
		DesignatedVersionID: newID(), DesignatedVersion: 7, LatestVersion: 9,
		Labels: map[string]domain.Target{
			"staging": {Version: 3},
			awkward:   {Split: []domain.Share{{Version: 1, Weight: 2}, {Version: 9}}},
		},
		CreatedAt: when(2), UpdatedAt: when(3),
	}
	empty := newPreset(full.WorkspaceID, "a.b_c~d-1") // another slug, because slugs are case-sensitive
	empty.Name, empty.Description, empty.StatusUpdatedAt = "", new(""), new(time.Time{})
	elsewhere := newPreset(newID(), full.Slug)
	prefix := newPreset(full.WorkspaceID, "A.b")
	presets := []domain.Preset{full, empty, elsewhere, prefix}
	for _, p := range presets {
		s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutPreset(p) })
	}
	for _, want := range presets {
		got, err := get(s, func(r domain.Reader) (domain.Preset, error) { return r.Preset(want.WorkspaceID, want.Slug) })
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
		s.mustView(t, func(r domain.Reader) error {
			state, text, err := r.PresetJSON(want.WorkspaceID, want.Slug)
			shows(t, text, want)
			same(t, state, want.State())
			return err
		})
	}
}

// shows compares JSON with the JSON of an object.
func shows(t *testing.T, got []byte, object interface{ JSON() ([]byte, error) }) {
	t.Helper()
	want, err := object.JSON()
	if err != nil || string(got) != string(want) {
		t.Errorf("got  %s\nwant %s (error %v)", got, want, err)
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
		v.SystemPrompt, v.CreatorID, v.UpdatedAt = prompts[i], awkward, when(100+i)
		v.Message = prompts[len(prompts)-1-i]
		want = append(want, v)
	}
	want[0].Dialect, want[1].Dialect, want[2].Dialect = domain.Chat, "another", domain.Messages
	s.mustUpdate(t, func(tx domain.Tx) error {
		for _, v := range want {
			p.LatestVersion = v.Version
			if err := tx.PutPresetVersion(p, v); err != nil {
				return err
			}
		}
		return tx.PutPreset(p)
	})
	for i := range want {
		got, err := get(s, func(r domain.Reader) (domain.PresetVersion, error) { return r.PresetVersion(p.State(), i+1) })
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want[i])
		text, err := get(s, func(r domain.Reader) ([]byte, error) { return r.PresetVersionJSON(p.State(), i+1) })
		if err != nil {
			t.Fatal(err)
		}
		shows(t, text, want[i])
		summary, err := get(s, func(r domain.Reader) ([]byte, error) { return r.PresetVersionSummary(p.State(), i+1) })
		if err != nil {
			t.Fatal(err)
		}
		summarises(t, summary, text)
	}
}

// summarises checks that a summary has all members of a version's JSON but two, and their
// sizes.
func summarises(t *testing.T, summary, version []byte) {
	t.Helper()
	var short, whole map[string]json.RawMessage
	var prompt *string
	err := errors.Join(json.Unmarshal(summary, &short), json.Unmarshal(version, &whole))
	if err := errors.Join(err, json.Unmarshal(whole["system_prompt"], &prompt)); err != nil {
		t.Fatal(err)
	}
	if prompt == nil {
		prompt = new("")
	}
	sizes := fmt.Sprintf("%s %s", short["system_prompt_bytes"], short["config_bytes"])
	const before = `,"config":`
	config := version[bytes.Index(version, []byte(before))+len(before) : len(version)-1] // with the blanks around it
	if want := fmt.Sprintf("%d %d", len(*prompt), len(config)); sizes != want {
		t.Errorf("got sizes %s, want %s", sizes, want)
	}
	delete(whole, "config")
	delete(whole, "system_prompt")
	if !reflect.DeepEqual(short, whole) {
		t.Errorf("got summary %s of %s", summary, version)
	}
}

func keyRoundTrip(t *testing.T, s *suite) {
	full := domain.Key{
		ID: newID(), Kind: domain.ManagementKey, Hash: domain.HashSecret("1"), Hint: "wxyz",
		Name: awkward, UserID: awkward, WorkspaceID: newID(),
		CreatedAt: when(1), ExpiresAt: new(when(2)), RevokedAt: new(when(3)), LastUsedAt: new(when(4)),
	}
	for _, want := range []domain.Key{full, newKey(4)} {
		s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutKey(want) })
		s.mustView(t, func(r domain.Reader) error {
			got, err := r.Key(want.ID)
			same(t, got, want)
			if err != nil {
				return err
			}
			got, err = r.KeyByHash(want.Hash)
			same(t, got, want)
			return err
		})
	}
	full.RevokedAt = new(when(9))
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutKey(full) })
	got, err := get(s, func(r domain.Reader) (domain.Key, error) { return r.KeyByHash(full.Hash) })
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, full)
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
	p.LatestVersion = 2
	config := newVersion(p, 1, `{"a":"`+strings.Repeat("x", domain.MaxStoredSize-8)+`"}`)
	prompt := newVersion(p, 2, `{}`)
	prompt.SystemPrompt = new(strings.Repeat("\x01", domain.MaxStoredSize/6)) // sent as \u0001
	prompt.CreatorID = strings.Repeat("😀", domain.MaxKeyText)
	// An answer shows a whole version. A preset is small beside that.
	answer := domain.Replay{ID: domain.ReplayID{1}, Request: make([]byte, 32), ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
	answer.Answer = bytes.Repeat([]byte("a"), 2*domain.MaxStoredSize-(64<<10))
	for i := range domain.MaxLabels {
		var label domain.Target
		for n := range domain.MaxShares {
			label.Split = append(label.Split, domain.Share{Version: 1_000_000 + n, Weight: domain.MaxWeight})
		}
		if p.Labels == nil {
			p.Labels = map[string]domain.Target{}
		}
		p.Labels[fmt.Sprintf("%064d", i)] = label
	}
	largest := p.Labels[fmt.Sprintf("%064d", 0)]
	change := domain.LabelChange{Number: 1, Time: when(1), KeyID: awkward, UserID: strings.Repeat("😀", domain.MaxKeyText), From: &largest, To: &largest}
	audit := newAudit(1)
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutWorkspace(w), tx.PutPresetVersion(p, config))
	})
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(
			tx.PutPresetVersion(p, prompt), tx.PutPreset(p), tx.PutLabelChange(p, "staging", change), putAudit(tx, audit), tx.PutReplay(answer))
	})
	s.reopen(t)
	s.mustView(t, func(r domain.Reader) error {
		gotW, err1 := workspaceBySlug(r, w.Slug)
		same(t, gotW, w)
		gotP, err2 := r.Preset(w.ID, p.Slug)
		same(t, gotP, p)
		gotConfig, err3 := r.PresetVersion(p.State(), 1)
		same(t, gotConfig, config)
		gotPrompt, err4 := r.PresetVersion(p.State(), 2)
		same(t, gotPrompt, prompt)
		gotChange, err5 := r.LabelChange(p, "staging", 1)
		same(t, gotChange, change)
		gotAudit, err6 := r.AuditRecord(1)
		same(t, gotAudit, audit)
		gotAnswer, err7 := r.Replay(answer.ID)
		same(t, gotAnswer, answer)
		presetPagesAre(t, r, w.ID, []domain.Preset{p}, 1)
		workspacePagesAre(t, r, []domain.Workspace{w}, 1)
		return errors.Join(err1, err2, err3, err4, err5, err6, err7)
	})
}

func notFound(t *testing.T, s *suite) {
	check := func(t *testing.T, r domain.Reader) {
		wantMissing := func(what string, err error) {
			if !errors.Is(err, domain.ErrNotFound) {
				t.Errorf("%s: got error %v, want ErrNotFound", what, err)
			}
		}
		for _, text := range odd() {
			name := text[:min(len(text), 40)]
			_, err := r.Workspace(text)
			wantMissing("Workspace "+name, err)
			_, err = workspaceBySlug(r, text)
			wantMissing("WorkspaceID "+name, err)
			_, err = r.Preset(text, "p")
			wantMissing("Preset in "+name, err)
			_, err = r.Preset(newID(), text)
			wantMissing("Preset "+name, err)
			_, err = r.Preset(text, text)
			wantMissing("Preset twice "+name, err)
			_, err = r.PresetVersion(domain.PresetState{ID: text}, 1)
			wantMissing("PresetVersion of "+name, err)
			_, err = r.WorkspaceJSON(text)
			wantMissing("WorkspaceJSON "+name, err)
			_, _, err = r.PresetJSON(text, text)
			wantMissing("PresetJSON "+name, err)
			_, err = r.PresetVersionJSON(domain.PresetState{ID: text}, 1)
			wantMissing("PresetVersionJSON of "+name, err)
			_, err = r.PresetVersionSummary(domain.PresetState{ID: text}, 1)
			wantMissing("PresetVersionSummary of "+name, err)
			_, err = r.Key(text)
			wantMissing("Key "+name, err)
			for _, label := range []string{text, "staging"} {
				if n, err := r.LabelChanges(domain.Preset{ID: text}, label); n != 0 || err != nil {
					t.Errorf("LabelChanges of %s: got %d and error %v, want 0", name, n, err)
				}
				_, err = r.LabelChange(domain.Preset{ID: text}, label, 1)
				wantMissing("LabelChange of "+name, err)
			}
		}
		p := newPreset(newID(), "p")
		p.LatestVersion = 3
		for _, n := range []int{math.MinInt, -1, 0, 4, math.MaxInt} {
			_, err := r.PresetVersion(p.State(), n)
			wantMissing("PresetVersion", err)
		}
		_, err := r.KeyByHash(domain.KeyHash{})
		wantMissing("KeyByHash", err)
		_, err = r.LabelChange(p, "staging", 1)
		wantMissing("LabelChange", err)
		_, err = r.AuditRecord(1)
		wantMissing("AuditRecord", err)
		if head, err := r.AuditHead(); head != (domain.AuditHead{}) || err != nil {
			t.Errorf("AuditHead: got %v and error %v, want none", head, err)
		}
		_, err = r.Replay(domain.ReplayID{})
		wantMissing("Replay", err)
		// By the contract, a missing version of a preset is damage.
		if _, err := r.PresetVersion(p.State(), 2); err == nil || errors.Is(err, domain.ErrNotFound) {
			t.Errorf("PresetVersion that must exist: got error %v, want one that is not ErrNotFound", err)
		}
	}
	all := func(t *testing.T) {
		s.mustView(t, func(r domain.Reader) error {
			check(t, r)
			return nil
		})
		s.mustUpdate(t, func(tx domain.Tx) error {
			check(t, tx)
			return nil
		})
	}
	t.Run("empty store", func(t *testing.T) {
		all(t)
		if keys, err := get(s, domain.Reader.Keys); err != nil || len(keys) != 0 {
			t.Errorf("Keys: got %v, %v, want none", keys, err)
		}
	})
	p := newPreset(newID(), "other")
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutWorkspace(newWorkspace("other")), tx.PutPreset(p), tx.PutPresetVersion(p, newVersion(p, 1, "{}")), tx.PutKey(newKey(1)))
	})
	t.Run("used store", all)
}

// otherNotations looks objects up by other notations of their ids that a UUID library
// accepts, and by an id as a slug.
func otherNotations(t *testing.T, s *suite) {
	w, k := newWorkspace("w"), newKey(1)
	s.mustUpdate(t, func(tx domain.Tx) error { return errors.Join(tx.PutWorkspace(w), tx.PutKey(k)) })
	s.mustView(t, func(r domain.Reader) error {
		for _, id := range []string{w.ID, k.ID} {
			for _, text := range []string{"urn:uuid:" + id, "{" + id + "}", "x" + id + "x", strings.ReplaceAll(id, "-", ""), " " + id} {
				if _, err := r.Workspace(text); !errors.Is(err, domain.ErrNotFound) {
					t.Errorf("Workspace(%q): got error %v, want ErrNotFound", text, err)
				}
				if _, err := r.Key(text); !errors.Is(err, domain.ErrNotFound) {
					t.Errorf("Key(%q): got error %v, want ErrNotFound", text, err)
				}
			}
		}
		if _, err := workspaceBySlug(r, w.ID); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("WorkspaceBySlug(id): got error %v, want ErrNotFound", err)
		}
		return nil
	})
}

func slugReleased(t *testing.T, s *suite) {
	w := newWorkspace("before")
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
	w.Slug = "after"
	bySlug := func(slug string) (domain.Workspace, error) {
		return get(s, func(r domain.Reader) (domain.Workspace, error) { return workspaceBySlug(r, slug) })
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		if err := tx.PutWorkspace(w); err != nil {
			return err
		}
		if _, err := workspaceBySlug(tx, "before"); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the former slug, in the same update: got error %v, want ErrNotFound", err)
		}
		return nil
	})
	if _, err := bySlug("before"); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("the former slug: got error %v, want ErrNotFound", err)
	}
	got, err := bySlug("after")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, w)
	// Others may use the slug, and its former holder must not remove theirs.
	heir := newWorkspace("before")
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(heir) })
	w.Slug = "once more"
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutWorkspace(w) })
	if got, err = bySlug("before"); err != nil {
		t.Fatal(err)
	}
	same(t, got, heir)
	// After several changes in one update, only the last slug remains.
	s.mustUpdate(t, func(tx domain.Tx) error {
		for _, slug := range []string{"one", "two", "once more", "three"} {
			w.Slug = slug
			if err := tx.PutWorkspace(w); err != nil {
				return err
			}
		}
		return nil
	})
	for _, slug := range []string{"one", "two", "once more"} {
		if _, err := bySlug(slug); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("passing slug %q: got error %v, want ErrNotFound", slug, err)
		}
	}
	if got, err = bySlug("three"); err != nil {
		t.Fatal(err)
	}
	same(t, got, w)
}

// versionNeverChanges lets an engine refuse or ignore a second version of the same number,
// but not store it.
func versionNeverChanges(t *testing.T, s *suite) {
	p := newPreset(newID(), "p")
	p.LatestVersion = 1
	want := newVersion(p, 1, `{"a":1}`)
	s.mustUpdate(t, func(tx domain.Tx) error { return errors.Join(tx.PutPresetVersion(p, want), tx.PutPreset(p)) })
	err := s.update(func(tx domain.Tx) error { return tx.PutPresetVersion(p, newVersion(p, 1, `{"a":2}`)) })
	if !errors.Is(err, domain.ErrTaken) {
		t.Errorf("got error %v, want ErrTaken", err)
	}
	got, err := get(s, func(r domain.Reader) (domain.PresetVersion, error) { return r.PresetVersion(p.State(), 1) })
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

func keysOldestFirst(t *testing.T, s *suite) {
	var want []domain.Key
	for _, n := range []int{5, 3, 9, 1, 7, 0, 8, 2, 6, 4} {
		k := newKey(n)
		want = append(want, k)
		s.mustUpdate(t, func(tx domain.Tx) error { return tx.PutKey(k) })
	}
	slices.SortFunc(want, func(a, b domain.Key) int { return a.CreatedAt.Compare(b.CreatedAt) })
	got, err := get(s, domain.Reader.Keys)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	// An update sees its own writes, once each.
	want[3].RevokedAt = new(when(50))
	want = append(want, newKey(100))
	s.mustUpdate(t, func(tx domain.Tx) (err error) {
		if err := errors.Join(tx.PutKey(want[3]), tx.PutKey(want[10])); err != nil {
			return err
		}
		got, err = tx.Keys()
		return err
	})
	same(t, got, want)
	if got, err = get(s, domain.Reader.Keys); err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

// valuesAreTheCallers modifies passed and returned values.
func valuesAreTheCallers(t *testing.T, s *suite) {
	p := newPreset(newID(), "p")
	p.LatestVersion = 1
	v := newVersion(p, 1, `{"a":1}`)
	want := newVersion(p, 1, `{"a":1}`)
	want.ID = v.ID
	read := func(r domain.Reader) error {
		got, err := r.PresetVersion(p.State(), 1)
		if err != nil {
			return err
		}
		same(t, got, want)
		for i := range got.Config {
			got.Config[i] = '!'
		}
		return nil
	}
	s.mustUpdate(t, func(tx domain.Tx) error {
		v.Config = []byte(`{"a":1}`)
		if err := errors.Join(tx.PutPreset(p), tx.PutPresetVersion(p, v)); err != nil {
			return err
		}
		copy(v.Config, "!!!!")
		return errors.Join(read(tx), read(tx))
	})
	s.mustView(t, func(r domain.Reader) error { return errors.Join(read(r), read(r)) })
}

// same compares objects as the domain does. A nil json.RawMessage equals one of null, and
// the encoding of a time does not matter.
func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(normal(got), normal(want)) {
		t.Errorf("got  %s\nwant %s", show(got), show(want))
	}
}

func normal(object any) any {
	w, ok := object.(domain.Workspace)
	if !ok {
		return object
	}
	if bytes.Equal(w.IOLoggingAPIKeyIDs, []byte("null")) {
		w.IOLoggingAPIKeyIDs = nil
	}
	return w
}

func show(object any) string {
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
