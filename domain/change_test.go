package domain_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestTags(t *testing.T) {
	tag := domain.Tag([]byte(`{"a":1}`))
	if len(tag) != 32 || strings.Trim(tag, "0123456789abcdef") != "" || tag != domain.Tag([]byte(`{"a":1}`)) || tag == domain.Tag([]byte(`{"a":2}`)) {
		t.Errorf("got %q", tag)
	}
}

// The tag in the answer of a change is the tag of the next read. A change of anything that
// the object shows gives another tag.
func TestTagsFollowChanges(t *testing.T) {
	f := labelled(t, 2)
	last := ""
	for i, do := range []doing{
		f.designating(domain.Designation{Version: 1}), f.patching(describe(new("d"))), f.labelling("live", domain.Target{Version: 1}, nil),
		f.labelling("live", domain.Target{Version: 2}, nil), f.unlabelling("live"), f.releasing(domain.Release{}),
	} {
		f.must(do(ask, "p"))
		found := f.found(f.Preset(t.Context(), user, "", "p"))
		tag := found.Tag
		if tag == last {
			t.Errorf("change %d gives no new tag", i)
		}
		w := ask
		w.Condition.Match = &domain.Tags{List: []string{last}}
		wantKind(t, errOf(f.UpdatePreset(t.Context(), w, "", "p", domain.PresetPatch{Name: new("lost")})), domain.PreconditionFailed, "Precondition failed")
		last = tag
	}
}

// idempotent is a request under an Idempotency-Key.
func idempotent(key, request string) domain.Write {
	w := ask
	w.Idempotency = domain.Idempotency{Key: key, Request: sha256.Sum256([]byte(request))}
	return w
}

func TestIdempotency(t *testing.T) {
	f := newFixture(t)
	create := func(w domain.Write, slug string) (domain.Outcome, error) {
		return f.ReleasePresetVersion(t.Context(), w, "", slug, nothing, domain.Release{})
	}
	number := func(w domain.Write, want int) {
		t.Helper()
		if out, err := create(w, "p"); err != nil || out.Number != want {
			t.Errorf("got version %d, %v, want %d", out.Number, err, want)
		}
	}
	start := f.now
	number(idempotent("a", "x"), 1)
	number(idempotent("a", "x"), 1)
	number(idempotent("b", "x"), 2) // another key
	number(ask, 3)                  // no key
	number(ask, 4)
	number(idempotent("a", "x"), 1)
	other, third := idempotent("a", "x"), idempotent("a", "x") // other clients' own
	other.Who.Hash = domain.HashSecret("another")
	third.Who.KeyID = "k3"
	number(other, 5)
	number(other, 5)
	number(third, 6)

	f.now = start.Add(24 * time.Hour) // and it is over
	number(idempotent("a", "x"), 7)
	number(idempotent("a", "x"), 7)
	number(idempotent("b", "another"), 8)

	// A failed change was not made, and may be tried again.
	off, on := domain.PresetDisabled, domain.PresetActive
	f.must(f.UpdatePreset(t.Context(), ask, "", "p", domain.PresetPatch{Status: &off}))
	_, err := create(idempotent("c", "x"), "p")
	wantKind(t, err, domain.Conflict, "Preset is disabled: set its status to active first")
	f.must(f.UpdatePreset(t.Context(), ask, "", "p", domain.PresetPatch{Status: &on}))
	number(idempotent("c", "y"), 9)
	number(idempotent("c", "y"), 9)
}

// An answer about what has gone with its workspace is not given again.
func TestReplaysEndWithTheWorkspace(t *testing.T) {
	f := newFixture(t)
	for i := range 2 {
		w := f.workspace(t, "team")
		out, err := f.ReleasePresetVersion(t.Context(), idempotent("a", "x"), "team", "p", nothing, domain.Release{})
		if err != nil || len(out.Records) == 0 || out.Preset.WorkspaceID != w.ID || out.Number != 1 {
			t.Errorf("time %d: got %+v, %v, want version 1 in the workspace that is there", i, out, err)
		}
		// That it was deleted is still so, whatever came after it.
		for time := range 2 {
			last := domain.Outcome{WorkspaceID: w.ID, Replayed: time > 0}
			out, err := f.DeleteWorkspace(t.Context(), idempotent("d"+w.ID, "x"), "team", domain.WorkspaceDeletion{})
			if out.Records, out.Workspace = nil, (domain.Workspace{}); err != nil || !reflect.DeepEqual(out, last) {
				t.Errorf("time %d: got %+v, %v, want %+v", i, out, err, last)
			}
		}
	}
}

// broken is a store that fails one kind of write.
type broken struct {
	domain.Store
	kind string
}

type brokenTx struct {
	domain.Tx
	kind string
}

var errBroken = errors.New("the disk is on fire")

func (b broken) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return b.Store.Update(ctx, func(tx domain.Tx) error { return fn(brokenTx{tx, b.kind}) })
}

func (b brokenTx) fail(kind string, write func() error) error {
	if b.kind == kind {
		return errBroken
	}
	return write()
}

func (b brokenTx) PutAudit(r domain.AuditRecord, text []byte) error {
	return b.fail("audit", func() error { return b.Tx.PutAudit(r, text) })
}

func (b brokenTx) PutReplay(r domain.Replay) error {
	return b.fail("replay", func() error { return b.Tx.PutReplay(r) })
}

func (b brokenTx) PutPreset(p domain.Preset) error {
	return b.fail("preset", func() error { return b.Tx.PutPreset(p) })
}

func (b brokenTx) PutLabelChange(p domain.Preset, label string, c domain.LabelChange) error {
	return b.fail("label", func() error { return b.Tx.PutLabelChange(p, label, c) })
}

// A change is made with its record and all that belongs to it, or not at all.
func TestChangesAreWhole(t *testing.T) {
	f := labelled(t, 1)
	for _, kind := range []string{"audit", "replay", "preset", "label"} {
		s := domain.NewService(broken{f.store, kind})
		trail, before := f.records(t), f.stored(t, "default", "p")
		out, err := s.PutLabel(t.Context(), idempotent("a", "x"), "", "p", "live", domain.Target{Version: 1}, nil)
		if !errors.Is(err, errBroken) || !reflect.DeepEqual(out, domain.Outcome{}) {
			t.Errorf("%s: got %+v, %v, want %v", kind, out, err, errBroken)
		}
		if after := f.stored(t, "default", "p"); !reflect.DeepEqual(after, before) || f.records(t) != trail {
			t.Errorf("%s: got  %+v\nwant %+v still", kind, after, before)
		}
	}
	out, err := f.PutLabel(t.Context(), idempotent("a", "x"), "", "p", "live", domain.Target{Version: 1}, nil)
	if err != nil || len(out.Records) == 0 || f.stored(t, "default", "p").Labels["live"].Version != 1 {
		t.Errorf("got %+v, %v, want it done for the first time", out, err)
	}
}

const clients = 64

func TestOneRequestSentManyTimes(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	answers := make([]string, clients)
	changed := make([]bool, clients)
	for i := range clients {
		wg.Go(func() {
			out, err := f.ReleasePresetVersion(t.Context(), idempotent("a", "x"), "", "p", nothing, domain.Release{})
			if err != nil {
				t.Error(err)
			}
			answers[i], changed[i] = string(out.JSON), len(out.Records) > 0
		})
	}
	wg.Wait()
	done := 0
	for i := range clients {
		if answers[i] != answers[0] {
			t.Errorf("got  %s\nwant %s", answers[i], answers[0])
		}
		if changed[i] {
			done++
		}
	}
	if p := f.stored(t, "default", "p"); done != 1 || p.LatestVersion != 1 {
		t.Errorf("it was done %d times and made %d versions, want once", done, p.LatestVersion)
	}
}

// Clients that change only what they have read do not overwrite each other's changes.
func TestConditionalCounter(t *testing.T) {
	f := labelled(t, 1)
	f.must(f.UpdatePreset(t.Context(), ask, "", "p", describe(new("0"))))
	var wg sync.WaitGroup
	refused := make([]int, clients)
	for i := range clients {
		wg.Go(func() {
			for {
				found, err := f.Preset(t.Context(), user, "", "p")
				if err != nil {
					t.Error(err)
					return
				}
				_, rest, _ := strings.Cut(string(found.JSON), `"description":"`)
				text, _, _ := strings.Cut(rest, `"`)
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Error(err)
					return
				}
				w := ask
				w.Condition.Match = &domain.Tags{List: []string{found.Tag}}
				switch _, err := f.UpdatePreset(t.Context(), w, "", "p", describe(new(strconv.Itoa(n+1)))); {
				case err == nil:
					return
				case domain.KindOf(err) != domain.PreconditionFailed:
					t.Error(err)
					return
				}
				refused[i]++
			}
		})
	}
	wg.Wait()
	if got := *f.stored(t, "default", "p").Description; got != strconv.Itoa(clients) {
		t.Errorf("got %s, want %d, with %d refusals", got, clients, refused)
	}
}

// model is a preset as a sequential program has it.
type model struct {
	name, description  string
	status             domain.PresetStatus // empty if there is no preset
	designated, latest int
	labels             map[string]int
	keep               int   // of the newest versions when one is added, 0 for all
	pruned             []int // versions, in order
}

// action is something that a client asks of the preset.
type action struct {
	name, text string
	n          int
}

// apply returns the preset after an action, or the message of the refusal.
func (m model) apply(a action) (after model, refusal string) {
	const notFound, disabled, archived = "Preset not found", "Preset is disabled: set its status to active first", "Preset is archived: restore it first"
	hidden := m.status == "" || m.status == domain.PresetArchived
	known := a.n >= 1 && a.n <= m.latest && !slices.Contains(m.pruned, a.n)
	switch a.name {
	case "create":
		switch m.status {
		case "":
			m = model{name: "p", status: domain.PresetActive, keep: m.keep}
		case domain.PresetActive:
		case domain.PresetDisabled:
			return m, disabled
		default:
			return m, archived
		}
		m.latest++
		m.designated = m.latest
		m.pruned = slices.Clone(m.pruned)
		for n := 1; m.keep > 0 && n <= m.latest-m.keep; n++ {
			if !slices.Contains(slices.Collect(maps.Values(m.labels)), n) && !slices.Contains(m.pruned, n) {
				m.pruned = append(m.pruned, n)
			}
		}
		slices.Sort(m.pruned)
		return m, ""
	case "archive", "restore":
		switch {
		case m.status == "":
			return m, notFound
		case m.status == domain.PresetDisabled:
			return m, disabled
		case a.name == "archive":
			m.status = domain.PresetArchived
		default:
			m.status = domain.PresetActive
		}
		return m, ""
	}
	if hidden {
		return m, notFound
	}
	m.labels = maps.Clone(m.labels)
	_, labelled := m.labels[a.text]
	switch {
	case a.name == "designate" && a.text == "" && known:
		m.designated = a.n
	case a.name == "designate" && a.text == "", a.name == "label" && !known:
		return m, "Preset version not found"
	case (a.name == "designate" || a.name == "unlabel") && !labelled:
		return m, "Label not found"
	case a.name == "designate":
		m.designated = m.labels[a.text]
	case a.name == "unlabel":
		delete(m.labels, a.text)
	case a.name == "label":
		if m.labels == nil {
			m.labels = make(map[string]int)
		}
		m.labels[a.text] = a.n
	case a.name == "rename":
		m.name = a.text
	case a.name == "describe":
		m.description = a.text
	case a.name == "status":
		m.status = domain.PresetStatus(a.text)
	}
	return m, ""
}

func (m model) equal(other model) bool {
	labels, pruned := maps.Equal(m.labels, other.labels), slices.Equal(m.pruned, other.pruned)
	m.labels, other.labels, m.pruned, other.pruned = nil, nil, nil, nil
	return labels && pruned && reflect.DeepEqual(m, other)
}

// seen is the preset that an outcome shows.
func (f *fixture) seen(p domain.Preset) model {
	m := model{name: p.Name, status: p.Status, designated: p.DesignatedVersion, latest: p.LatestVersion, labels: make(map[string]int), keep: f.KeepVersions}
	for n := 1; n <= p.LatestVersion; n++ {
		if !p.State().Has(n) {
			m.pruned = append(m.pruned, n)
		}
	}
	if p.Description != nil {
		m.description = *p.Description
	}
	for name, label := range p.Labels {
		m.labels[name] = label.Version
	}
	return m
}

// ask does an action for real.
func (f *fixture) ask(t *testing.T, a action) (domain.Outcome, error) {
	to := domain.Target{Version: a.n}
	switch a.name {
	case "create":
		return f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{})
	case "archive":
		return f.ArchivePreset(t.Context(), ask, "", "p")
	case "restore":
		return f.RestorePreset(t.Context(), ask, "", "p")
	case "designate":
		return f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: a.n, Label: a.text})
	case "unlabel":
		return f.DeleteLabel(t.Context(), ask, "", "p", a.text)
	case "label":
		return f.PutLabel(t.Context(), ask, "", "p", a.text, to, nil)
	case "rename":
		return f.UpdatePreset(t.Context(), ask, "", "p", domain.PresetPatch{Name: &a.text})
	case "describe":
		return f.UpdatePreset(t.Context(), ask, "", "p", describe(&a.text))
	default:
		status := domain.PresetStatus(a.text)
		return f.UpdatePreset(t.Context(), ask, "", "p", domain.PresetPatch{Status: &status})
	}
}

func randomAction(r *rand.Rand) action {
	n, some := r.IntN(12), []string{"a", "b", "c"}[r.IntN(3)]
	switch r.IntN(12) {
	case 0, 1, 2:
		return action{"create", "", 0}
	case 3:
		return action{"archive", "", 0}
	case 4, 5:
		return action{"restore", "", 0}
	case 6:
		return action{"designate", "", n}
	case 7:
		return action{"designate", some, 0}
	case 8:
		return action{"unlabel", some, 0}
	case 9:
		return action{"label", some, n}
	case 10:
		return action{[]string{"rename", "describe"}[r.IntN(2)], some, 0}
	default:
		return action{"status", []string{"active", "active", "disabled"}[r.IntN(3)], 0}
	}
}

// TestConcurrentClients checks that concurrent changes have the order of the audit trail.
// The same changes, made one after another in that order, get the same answers.
func TestConcurrentClients(t *testing.T) {
	t.Run("keeping all versions", func(t *testing.T) { concurrentClients(t, 0) })
	t.Run("keeping three", func(t *testing.T) { concurrentClients(t, 3) })
}

func concurrentClients(t *testing.T, keep int) {
	f := newFixture(t)
	f.KeepVersions = keep
	type asked struct {
		action
		domain.Outcome
		err        error
		begin, end int // records when it was asked and when it was answered
	}
	const each = 24
	start := f.records(t)
	all := make([][]asked, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 64))
			for range each {
				a := asked{action: randomAction(r), begin: f.records(t)}
				a.Outcome, a.err = f.ask(t, a.action)
				a.end = f.records(t)
				all[i] = append(all[i], a)
			}
		})
	}
	wg.Wait()

	trail := f.trail(t)
	done := make(map[int]asked) // by the number of its record
	for _, a := range slices.Concat(all...) {
		if len(a.Records) > 0 {
			if n := a.Records[0].Number; n <= a.begin || n > a.end || len(done[n].Records) > 0 {
				t.Fatalf("%+v was done as number %d, between %d and %d", a.action, n, a.begin, a.end)
			}
			done[a.Records[0].Number] = a
		}
	}
	states := make([]model, len(trail)+1) // after so many records
	for n := range start + 1 {
		states[n].keep = keep
	}
	for n := start + 1; n <= len(trail); n++ {
		a, ok := done[n]
		if !ok || !reflect.DeepEqual(a.Records[0], trail[n-1]) {
			t.Fatalf("nobody asked for record %+v", trail[n-1])
		}
		after, refusal := states[n-1].apply(a.action)
		switch {
		case refusal != "":
			t.Fatalf("record %d: %+v was done to %+v, want %q", n, a.action, states[n-1], refusal)
		case after.equal(states[n-1]):
			t.Fatalf("record %d: %+v changes nothing of %+v", n, a.action, after)
		case a.name != "archive" && !f.seen(a.Preset).equal(after):
			t.Fatalf("record %d: %+v gives %+v, want %+v", n, a.action, f.seen(a.Preset), after)
		}
		states[n] = after
	}
	if last := states[len(trail)]; !f.seen(f.stored(t, "default", "p")).equal(last) {
		t.Errorf("got %+v in the end, want %+v", f.stored(t, "default", "p"), last)
	}
	idle, refused := 0, 0
	for _, a := range slices.Concat(all...) {
		if len(a.Records) > 0 {
			continue
		}
		// There was a moment between question and answer when it was so.
		possible := slices.ContainsFunc(states[a.begin:a.end+1], func(m model) bool {
			after, refusal := m.apply(a.action)
			if a.err != nil {
				return refusal != "" && strings.Contains(a.err.Error(), refusal)
			}
			return refusal == "" && after.equal(m) && (a.name == "archive" || f.seen(a.Preset).equal(m))
		})
		if !possible {
			t.Errorf("%+v gives %+v, %v, which it could not between records %d and %d", a.action, f.seen(a.Preset), a.err, a.begin, a.end)
		}
		if a.err != nil {
			refused++
		} else {
			idle++
		}
	}
	if pruned := states[len(trail)].pruned; len(pruned) == 0 == (keep > 0) {
		t.Errorf("versions %v are gone, with %d to keep", pruned, keep)
	}
	if len(done) < clients || idle == 0 || refused == 0 {
		t.Errorf("only %d changes, %d without need and %d refused were tried", len(done), idle, refused)
	}
	t.Logf("%d changes, %d without need, %d refused", len(done), idle, refused)
}
