package domain_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// hex returns a hash as clients send it.
func hex(hash domain.KeyHash) string {
	text, _ := hash.MarshalText() // never fails
	return string(text)
}

func (f *fixture) issueBy(t *testing.T, by domain.Principal, in domain.NewKey) (domain.Key, string) {
	t.Helper()
	k, secret, err := f.IssueKey(t.Context(), domain.By(by), in)
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

// TestRightsStayWithTheOperator checks that an issued key neither changes nor gets a key with a right that it cannot give. It may revoke it.
func TestRightsStayWithTheOperator(t *testing.T) {
	f := newFixture(t)
	f.workspace(t, "team")
	lead := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Workspace: "team", Scope: domain.Scope{Rights: []domain.Right{domain.IssueKeys}, OnlyWorkspace: true}})
	configured := domain.Principal{KeyID: "config-management-1", Hash: domain.HashSecret("c"), UserID: "c", Kind: domain.ManagementKey}
	skipping := domain.Scope{Rights: []domain.Right{domain.SkipLogging}}
	k, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Workspace: "team", Scope: skipping})
	for _, tc := range []struct {
		name string
		by   domain.Principal
		may  bool
	}{{"lead", lead, false}, {"configured", configured, true}} {
		_, secret, rotated := f.RotateKey(t.Context(), domain.By(tc.by), k.ID, 0)
		_, updated := f.UpdateKey(t.Context(), domain.By(tc.by), k.ID, domain.KeyPatch{Name: new(tc.name)})
		_, _, issued := f.IssueKey(t.Context(), domain.By(tc.by), domain.NewKey{Kind: domain.InferenceKey, Workspace: "team", Scope: skipping})
		for what, err := range map[string]error{"rotate": rotated, "update": updated, "issue": issued} {
			if (err == nil) != tc.may || err != nil && domain.KindOf(err) != domain.Forbidden {
				t.Errorf("%s %s: got %v, want that it may: %t", tc.name, what, err, tc.may)
			}
		}
		if (secret != "") != tc.may {
			t.Errorf("%s gets the secret %q", tc.name, secret)
		}
	}
	if _, err := f.RevokeKey(t.Context(), domain.By(lead), k.ID); err != nil {
		t.Error(err)
	}
}

// TestKeyListsAreLimited checks that a list of keys waits for its turn, but not longer than it may take.
func TestKeyListsAreLimited(t *testing.T) {
	f := newFixture(t)
	configured := domain.Principal{KeyID: "config-management-1", Hash: domain.HashSecret("c"), UserID: "c", Kind: domain.ManagementKey}
	list := func() error {
		_, _, err := f.WorkspaceKeys(t.Context(), configured, "", false, domain.Page{Limit: 1})
		return err
	}
	if err := list(); err != nil {
		t.Error(err)
	}
	f.LimitKeyLists(-time.Second)
	wantKind(t, list(), domain.Unavailable, "The list of keys took too long")
}

// TestReachOfKeys checks which keys a management key sees and changes, and what it may give.
func TestReachOfKeys(t *testing.T) {
	f := newFixture(t)
	team, other := f.workspace(t, "team"), f.workspace(t, "other")
	f.workspace(t, "third")
	issuing := domain.Scope{Rights: []domain.Right{domain.IssueKeys}}
	onlyTeam := domain.Scope{Rights: issuing.Rights, OnlyWorkspace: true}
	all := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Scope: issuing})
	ofTeam := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Workspace: "team", Scope: onlyTeam})
	homeless := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Scope: onlyTeam})
	configured := domain.Principal{KeyID: "config-management-1", Hash: domain.HashSecret("c"), UserID: "c", Kind: domain.ManagementKey}

	inTeam, _ := f.issueBy(t, ofTeam, domain.NewKey{Kind: domain.InferenceKey, Name: "in team"})
	inOther, _ := f.issueBy(t, all, domain.NewKey{Kind: domain.InferenceKey, Workspace: other.ID})
	inDefault, _ := f.issueBy(t, configured, domain.NewKey{Kind: domain.InferenceKey})
	f.now = f.now.Add(time.Second)
	untied, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey})
	manager, _ := f.newKey(domain.NewKey{Kind: domain.ManagementKey, Workspace: "team"})
	revoked, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Workspace: "team"})
	if _, err := f.RevokeKey(t.Context(), domain.By(ofTeam), hex(revoked.Hash)); err != nil {
		t.Fatal(err)
	}
	if inTeam.WorkspaceID != team.ID || inOther.WorkspaceID != other.ID || inDefault.WorkspaceID == "" || untied.WorkspaceID != "" {
		t.Errorf("got workspaces %q, %q, %q, %q", inTeam.WorkspaceID, inOther.WorkspaceID, inDefault.WorkspaceID, untied.WorkspaceID)
	}

	everyone := map[string]domain.Key{"in team": inTeam, "in other": inOther, "in default": inDefault, "untied": untied, "manager": manager, "revoked": revoked}
	for _, tc := range []struct {
		name string
		who  domain.Principal
		sees []string
	}{
		{"all", all, []string{"in team", "in other", "in default", "untied"}},
		{"configured", configured, []string{"in team", "in other", "in default", "untied"}},
		{"team", ofTeam, []string{"in team"}},
		{"default", homeless, []string{"in default", "untied"}},
	} {
		for name, k := range everyone {
			var want error
			if !slices.Contains(tc.sees, name) {
				want = &domain.Error{Kind: domain.NotFound, Message: "Key not found"}
			}
			for _, ref := range []string{k.ID, hex(k.Hash)} {
				got, err := f.Key(t.Context(), tc.who, ref)
				if !reflect.DeepEqual(err, want) || err == nil && (got.ID != k.ID || got.WorkspaceID == "") {
					t.Errorf("%s sees %s: got %+v, %v, want %v", tc.name, name, got, err, want)
				}
			}
			if want == nil {
				continue
			}
			by := domain.By(tc.who)
			_, _, rotated := f.RotateKey(t.Context(), by, k.ID, 0)
			for _, err := range []error{errOf(f.UpdateKey(t.Context(), by, k.ID, domain.KeyPatch{Name: new("n")})), errOf(f.RevokeKey(t.Context(), by, k.ID)), rotated} {
				if !reflect.DeepEqual(err, want) {
					t.Errorf("%s changes %s: got %v, want %v", tc.name, name, err, want)
				}
			}
		}
	}

	// A key gives nothing that it does not have.
	for _, tc := range []struct {
		who  domain.Principal
		in   domain.NewKey
		kind domain.Kind
		says string
	}{
		{ofTeam, domain.NewKey{Kind: domain.InferenceKey, Workspace: "other"}, domain.NotFound, "Workspace not found"},
		{ofTeam, domain.NewKey{Kind: domain.InferenceKey, Workspace: "absent"}, domain.NotFound, "Workspace not found"},
		{all, domain.NewKey{Kind: domain.ManagementKey}, domain.Forbidden, "Only the operator issues management keys"},
		{f.limited(t, domain.NewKey{Kind: domain.ManagementKey}), domain.NewKey{Kind: domain.InferenceKey}, domain.Forbidden, "this needs a key with the right issue-keys"},
		{f.limited(t, domain.NewKey{Kind: domain.InferenceKey, Workspace: "third"}), domain.NewKey{Kind: domain.InferenceKey}, domain.Forbidden, "Only management keys"},
		{all, domain.NewKey{Kind: domain.InferenceKey, ExpiresAt: new(f.now.Add(-time.Second))}, domain.Invalid, "/expires_at: must be in the future"},
	} {
		_, _, err := f.IssueKey(t.Context(), domain.By(tc.who), tc.in)
		wantKind(t, err, tc.kind, tc.says)
		if tc.says == "this needs a key with the right issue-keys" {
			wantKind(t, errOf(f.Key(t.Context(), tc.who, inTeam.ID)), tc.kind, tc.says)
			_, _, err := f.WorkspaceKeys(t.Context(), tc.who, "", true, domain.Page{Limit: 1})
			wantKind(t, err, tc.kind, tc.says)
		}
	}

	list := func(who domain.Principal, ref string, withDisabled bool, page domain.Page) (ids []string) {
		t.Helper()
		keys, total, err := f.WorkspaceKeys(t.Context(), who, ref, withDisabled, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if ids = append(ids, k.ID); k.WorkspaceID == "" {
				t.Errorf("key %s has no workspace", k.ID)
			}
		}
		return append(ids, string(rune('0'+total)))
	}
	whole := domain.Page{Limit: 100}
	for name, tc := range map[string]struct{ got, want []string }{
		"default":             {list(all, "", true, whole), []string{inDefault.ID, untied.ID, "2"}},
		"a page":              {list(all, "default", true, domain.Page{Offset: 1, Limit: 1}), []string{untied.ID, "2"}},
		"behind":              {list(all, "", true, domain.Page{Offset: 9, Limit: 1}), []string{"2"}},
		"team":                {list(all, "team", true, whole), []string{inTeam.ID, "1"}},
		"a key's own":         {list(ofTeam, "", true, whole), []string{inTeam.ID, "1"}},
		"by its id":           {list(ofTeam, team.ID, true, whole), []string{inTeam.ID, "1"}},
		"of a configured key": {list(configured, "other", true, whole), []string{inOther.ID, "1"}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, tc.got, tc.want)
		}
	}
	_, _, err := f.WorkspaceKeys(t.Context(), ofTeam, "other", true, whole)
	wantKind(t, err, domain.NotFound, "Workspace not found")

	if _, err := f.UpdateKey(t.Context(), domain.By(ofTeam), inTeam.ID, domain.KeyPatch{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	if got := list(ofTeam, "", false, whole); !slices.Equal(got, []string{"0"}) {
		t.Errorf("got %v, want no disabled key", got)
	}
	wantKind(t, errOf(f.DeleteWorkspace(t.Context(), domain.By(admin), "team", domain.WorkspaceDeletion{})), domain.Invalid, "live keys")
}

// TestUpdateKey changes a key, which acts with the next request.
func TestUpdateKey(t *testing.T) {
	f := newFixture(t)
	k, secret := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Scope: domain.Scope{Presets: []string{"p"}}})
	update := func(patch domain.KeyPatch) domain.Key {
		t.Helper()
		updated, err := f.UpdateKey(t.Context(), domain.By(admin), hex(k.Hash), patch)
		if err != nil {
			t.Fatal(err)
		}
		updated.LastUsedAt = nil // which is stored in the background
		return updated
	}
	hash := domain.HashSecret(secret)
	before, err := f.Authenticate(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	settable := func(list ...string) domain.Settable[[]string] {
		return domain.Settable[[]string]{Given: true, Value: &list}
	}
	f.now = f.now.Add(time.Minute)
	updated := update(domain.KeyPatch{
		Name: new("new"), PresetRequired: new(true), Models: settable("a/*"),
		Limit: domain.Settable[float64]{Given: true, Value: new(5.0)}, LimitReset: domain.Settable[domain.Interval]{Given: true, Value: new(domain.Daily)},
		IncludeBYOKInLimit: new(true), Limits: domain.Settable[domain.Limits]{Given: true, Value: &domain.Limits{Concurrent: 1}},
	})
	want := k
	want.Name, want.UpdatedAt = "new", new(f.now.UTC().Truncate(time.Millisecond))
	want.Scope = &domain.Scope{Presets: []string{"p"}, PresetRequired: true, Models: []string{"a/*"}}
	want.KeyLimits = domain.KeyLimits{Limit: new(5.0), LimitReset: domain.Daily, IncludeBYOKInLimit: true, Limits: &domain.Limits{Concurrent: 1}}
	if !reflect.DeepEqual(updated, want) {
		t.Errorf("got %+v, want %+v", updated, want)
	}
	if after, err := f.Authenticate(t.Context(), hash); err != nil || !after.PresetRequired() || *after.KeyLimits.Limit != 5 || before.PresetRequired() {
		t.Errorf("got %+v, %v after the change, and %+v before", after, err, before)
	}
	count := f.records(t)
	if again := update(domain.KeyPatch{Name: new("new"), Models: settable("a/*")}); !reflect.DeepEqual(again, want) || f.records(t) != count {
		t.Errorf("the same values change something: %+v", again)
	}
	last := f.trail(t)[count-1]
	changes, err := jsonv2.Marshal(last.Changes)
	const wantChanges = `[{"field":"/include_byok_in_limit","from":null,"to":true},{"field":"/limit","from":null,"to":5},{"field":"/limit_reset","from":null,"to":"daily"},` +
		`{"field":"/limits/concurrent","from":null,"to":1},{"field":"/models","from":null,"to":["a/*"]},{"field":"/name"},{"field":"/preset_required","from":null,"to":true}]`
	if err != nil || string(changes) != wantChanges || last.Object.Name != "new" {
		t.Errorf("the audit record of %q has the changes %s, %v, want %s", last.Object.Name, changes, err, wantChanges)
	}
	update(domain.KeyPatch{Disabled: new(true)})
	wantKind(t, errOf(f.Authenticate(t.Context(), hash)), domain.Unauthenticated, "Invalid credentials")
	wantKind(t, errOf(f.RemoveKey(t.Context(), domain.By(admin), k.ID)), domain.Conflict, "revoke it first")
	cleared := update(domain.KeyPatch{
		Disabled: new(false), PresetRequired: new(false), IncludeBYOKInLimit: new(false),
		Presets: domain.Settable[[]string]{Given: true}, Models: domain.Settable[[]string]{Given: true},
		Limit: domain.Settable[float64]{Given: true}, LimitReset: domain.Settable[domain.Interval]{Given: true}, Limits: domain.Settable[domain.Limits]{Given: true},
	})
	if cleared.Scope != nil || cleared.KeyLimits != (domain.KeyLimits{}) {
		t.Errorf("got %+v, want nothing left", cleared)
	}
	if who, err := f.Authenticate(t.Context(), hash); err != nil || who.IsLimited() {
		t.Errorf("got %+v, %v of an enabled key", who, err)
	}
	var did []string
	for _, r := range f.trail(t)[count:] {
		did = append(did, r.Operation+" "+string(r.Object.Status))
	}
	if want := []string{"key.update disabled", "key.update active"}; !slices.Equal(did, want) {
		t.Errorf("the audit trail has %q, want %q", did, want)
	}

	for path, patch := range map[string]domain.KeyPatch{
		"/name":               {Name: new("a\nb")},
		"/presets":            {Presets: domain.Settable[[]string]{Given: true, Value: &[]string{}}},
		"/models/0":           {Models: settable("a b")},
		"/limit_reset":        {LimitReset: domain.Settable[domain.Interval]{Given: true, Value: new(domain.Lifetime)}},
		"/limits/concurrent":  {Limits: domain.Settable[domain.Limits]{Given: true, Value: &domain.Limits{Concurrent: -1}}},
		"/limit: must be a n": {Limit: domain.Settable[float64]{Given: true, Value: new(-1.0)}},
	} {
		wantKind(t, errOf(f.UpdateKey(t.Context(), domain.By(admin), k.ID, patch)), domain.Invalid, path)
	}
	conditional := domain.Write{Who: admin, Condition: domain.Condition{Match: &domain.Tags{Any: true}}}
	wantKind(t, errOf(f.UpdateKey(t.Context(), conditional, k.ID, domain.KeyPatch{Name: new("n")})), domain.PreconditionFailed, "")
	wantKind(t, errOf(f.RevokeKey(t.Context(), conditional, k.ID)), domain.PreconditionFailed, "")
	if _, err := f.RevokeKey(t.Context(), domain.By(admin), k.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, errOf(f.UpdateKey(t.Context(), domain.By(admin), k.ID, domain.KeyPatch{Name: new("n")})), domain.Conflict, "revoked or expired")
}

// TestRotateKey checks that a rotated key is the same key, and when its secrets work.
func TestRotateKey(t *testing.T) {
	f := newFixture(t)
	k, first := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Name: "n"})
	rotate := func(grace time.Duration) string {
		t.Helper()
		rotated, secret, err := f.RotateKey(t.Context(), domain.By(admin), k.ID, grace)
		if err != nil || rotated.ID != k.ID || rotated.Name != k.Name || rotated.Hash != domain.HashSecret(secret) || rotated.Label == k.Label {
			t.Fatalf("got %+v, %v, want the same key with another secret", rotated, err)
		}
		return secret
	}
	works := func(want string, secrets ...string) {
		t.Helper()
		got := ""
		for _, secret := range secrets {
			mark := "1"
			if who, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); errors.Is(err, domain.ErrCredentials) {
				mark = "0"
			} else if err != nil || who.KeyID != k.ID {
				t.Errorf("got %+v, %v", who, err)
			}
			got += mark
		}
		if got != want {
			t.Errorf("got %s, want %s of the secrets in their order", got, want)
		}
	}
	works("1", first)
	second := rotate(time.Hour)
	works("11", first, second)
	f.now = f.now.Add(time.Hour - time.Millisecond)
	works("11", first, second)
	f.now = f.now.Add(2 * time.Millisecond)
	works("01", first, second)
	third := rotate(time.Hour)
	fourth := rotate(time.Hour)
	works("0011", first, second, third, fourth)
	fifth := rotate(0)
	works("00001", first, second, third, fourth, fifth)
	for _, secret := range []string{fourth, fifth} {
		if got, err := f.Key(t.Context(), admin, hex(domain.HashSecret(secret))); err != nil || got.ID != k.ID {
			t.Errorf("got %+v, %v by its present or former hash, want the key", got, err)
		}
	}
	wantKind(t, errOf(f.Key(t.Context(), admin, hex(k.Hash))), domain.NotFound, "Key not found")
	sixth := rotate(time.Hour)
	if _, err := f.RevokeKey(t.Context(), domain.By(admin), hex(domain.HashSecret(fifth))); err != nil {
		t.Fatal(err)
	}
	works("00", fifth, sixth)
	for _, r := range f.trail(t) {
		if r.Operation == "key.rotate" && r.Object.ID != k.ID {
			t.Errorf("got %+v, want the key's id", r)
		}
	}
	_, _, err := f.RotateKey(t.Context(), domain.By(admin), k.ID, 0)
	wantKind(t, err, domain.Conflict, "revoked or expired")
	for _, grace := range []time.Duration{-1, domain.MaxGrace + 1} {
		_, _, err = f.RotateKey(t.Context(), domain.By(admin), k.ID, grace)
		wantKind(t, err, domain.Invalid, "/grace: must be from 0 to 30 days")
	}
}
