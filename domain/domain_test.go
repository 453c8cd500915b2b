package domain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// fixture is a Service over Badger's in-memory mode with a clock of its own.
type fixture struct {
	*domain.Service
	store domain.Store
	now   time.Time
	views int // how often the store was read
}

func (f *fixture) View(ctx context.Context, fn func(domain.Reader) error) error {
	f.views++
	return f.store.View(ctx, fn)
}

func (f *fixture) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return f.store.Update(ctx, fn)
}

func (f *fixture) Stamps() *domain.Stamps { return f.store.Stamps() }

var (
	admin = domain.Principal{KeyID: "k1", UserID: "ann", Kind: domain.ManagementKey}
	user  = domain.Principal{KeyID: "k2", UserID: "bob", Kind: domain.InferenceKey}
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{store: store, now: time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)}
	f.Service = domain.NewServiceWith(f, func() time.Time { return f.now }, uuid.NewString)
	if err := f.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) workspace(t *testing.T, slug string) domain.Workspace {
	t.Helper()
	w, err := f.CreateWorkspace(t.Context(), admin, domain.NewWorkspace{Name: slug, Slug: slug})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantKind(t *testing.T, err error, want domain.Kind, message string) {
	t.Helper()
	if domain.KindOf(err) != want || err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("got error %v of kind %d, want kind %d with %q", err, domain.KindOf(err), want, message)
	}
}

func TestIssuedSecretsHaveTheDocumentedForm(t *testing.T) {
	f := newFixture(t)
	seen := map[string]bool{}
	for _, tc := range []struct {
		kind   domain.KeyKind
		prefix string
	}{{domain.ManagementKey, "caddypresets_mgmt_"}, {domain.InferenceKey, "caddypresets_inf_"}} {
		k, secret, err := f.IssueKey(t.Context(), domain.NewKey{Kind: tc.kind})
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(secret, tc.prefix)
		if !ok || len(rest) != 49 || strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Errorf("secret of a %s key does not have the documented form", tc.kind)
		}
		if !strings.HasSuffix(secret, k.Hint) || len(k.Hint) != 4 {
			t.Errorf("hint %q is not the end of the secret", k.Hint)
		}
		if stored, _ := json.Marshal(k); strings.Contains(string(stored), secret) || strings.Contains(string(stored), rest[:20]) {
			t.Error("the stored key holds its secret")
		}
		if seen[secret] {
			t.Error("two keys have one secret")
		}
		seen[secret] = true
	}
}

// A key is read once and refused from its revocation on, by whoever revoked it.
func TestKnownKeys(t *testing.T) {
	f := newFixture(t)
	elsewhere := domain.NewService(f.store) // as the admin endpoint has it
	var secrets []string
	for range 3 {
		k, secret, err := f.IssueKey(t.Context(), domain.NewKey{Kind: domain.InferenceKey, Lifetime: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		f.views = 0
		for range 3 {
			if who, err := f.Authenticate(t.Context(), secret); err != nil || who.KeyID != k.ID {
				t.Fatalf("got %v, %v, want the key %s", who, err, k.ID)
			}
		}
		if f.views != 1 {
			t.Errorf("got %d look-ups for three uses of a key, want 1", f.views)
		}
		secrets = append(secrets, secret)
		if len(secrets) == 2 {
			if _, err := elsewhere.RevokeKey(t.Context(), k.ID); err != nil {
				t.Fatal(err)
			}
		}
		_, err = f.Authenticate(t.Context(), secret)
		if revoked := len(secrets) == 2; revoked != errors.Is(err, domain.ErrCredentials) {
			t.Errorf("got %v of a key that is revoked: %t", err, revoked)
		}
	}
	f.now = f.now.Add(time.Hour)
	if _, err := f.Authenticate(t.Context(), secrets[0]); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("got %v of an expired key, want %v", err, domain.ErrCredentials)
	}
}

func TestDamagedSecretsAreRefusedWithoutALookUp(t *testing.T) {
	f := newFixture(t)
	_, secret, err := f.IssueKey(t.Context(), domain.NewKey{Kind: domain.ManagementKey})
	if err != nil {
		t.Fatal(err)
	}
	f.views = 0
	damaged := []string{"", "x", secret + "0", secret[1:], strings.ToUpper(secret), "sk-or-v1-0123456789abcdef0123456789abcdef"}
	for i := range secret {
		other := byte('A')
		if secret[i] == other {
			other = 'B'
		}
		damaged = append(damaged, secret[:i]+string(other)+secret[i+1:], secret[:i])
	}
	for _, d := range damaged {
		if _, err := f.Authenticate(t.Context(), d); !errors.Is(err, domain.ErrCredentials) {
			t.Errorf("a damaged secret gives %v, want ErrCredentials", err)
		}
	}
	if f.views != 0 {
		t.Errorf("got %d look-ups for damaged secrets, want none", f.views)
	}
	if _, err := f.Authenticate(t.Context(), secret); err != nil || f.views != 1 {
		t.Errorf("the secret itself gives %v after %d look-ups, want success after 1", err, f.views)
	}
}

func TestAuthenticate(t *testing.T) {
	f := newFixture(t)
	w := f.workspace(t, "team")
	k, secret, err := f.IssueKey(t.Context(), domain.NewKey{
		Kind: domain.InferenceKey, UserID: "carol", Workspace: "team", Name: "ci", Lifetime: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := domain.Principal{KeyID: k.ID, UserID: "carol", Kind: domain.InferenceKey, WorkspaceID: w.ID}
	if got, err := f.Authenticate(t.Context(), secret); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}

	issued := f.now
	f.now = k.ExpiresAt.Add(-time.Nanosecond)
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	f.now = *k.ExpiresAt
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("at its end: got %v, want ErrCredentials", err)
	}
	f.now = issued

	revoked, err := f.RevokeKey(t.Context(), k.ID)
	if err != nil || revoked.RevokedAt == nil {
		t.Fatalf("revoking gives %+v, %v", revoked, err)
	}
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, domain.ErrCredentials) {
		t.Errorf("after it was revoked: got %v, want ErrCredentials", err)
	}
	f.now = f.now.Add(time.Minute)
	if again, err := f.RevokeKey(t.Context(), k.ID); err != nil || !again.RevokedAt.Equal(*revoked.RevokedAt) {
		t.Errorf("revoking again gives %+v, %v, want nothing changed", again, err)
	}

	anonymous, secret, err := f.IssueKey(t.Context(), domain.NewKey{Kind: domain.ManagementKey})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Authenticate(t.Context(), secret); got.UserID != anonymous.ID || err != nil {
		t.Errorf("a key without a user acts as %q, %v, want its own id", got.UserID, err)
	}
	keys, err := f.Keys(t.Context())
	if err != nil || len(keys) != 2 || keys[0].ID != k.ID || keys[1].ID != anonymous.ID {
		t.Errorf("got keys %+v, %v, want the two issued ones, oldest first", keys, err)
	}
}

func TestKeysRefused(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("é", domain.MaxKeyText)
	if _, _, err := f.IssueKey(t.Context(), domain.NewKey{Kind: domain.InferenceKey, UserID: long, Name: long}); err != nil {
		t.Errorf("texts of exactly the longest length: %v", err)
	}
	for name, tc := range map[string]struct {
		in   domain.NewKey
		kind domain.Kind
		says string
	}{
		"no kind":            {domain.NewKey{}, domain.Invalid, "/kind"},
		"unknown kind":       {domain.NewKey{Kind: "root"}, domain.Invalid, "/kind"},
		"long user":          {domain.NewKey{Kind: domain.InferenceKey, UserID: long + "x"}, domain.Invalid, "/user_id"},
		"long name":          {domain.NewKey{Kind: domain.InferenceKey, Name: long + "x"}, domain.Invalid, "/name"},
		"line break in name": {domain.NewKey{Kind: domain.InferenceKey, Name: "a\nb"}, domain.Invalid, "/name"},
		"not text":           {domain.NewKey{Kind: domain.InferenceKey, Name: "\xff"}, domain.Invalid, "/name"},
		"negative lifetime":  {domain.NewKey{Kind: domain.InferenceKey, Lifetime: -1}, domain.Invalid, "/expires_in"},
		"unknown workspace":  {domain.NewKey{Kind: domain.InferenceKey, Workspace: "nowhere"}, domain.NotFound, "Workspace not found"},
	} {
		t.Run(name, func(t *testing.T) {
			_, secret, err := f.IssueKey(t.Context(), tc.in)
			wantKind(t, err, tc.kind, tc.says)
			if secret != "" {
				t.Error("a refused key has a secret")
			}
		})
	}
	_, err := f.RevokeKey(t.Context(), "no such key")
	wantKind(t, err, domain.NotFound, "Key not found")
}

func TestWorkspaceDefaults(t *testing.T) {
	f := newFixture(t)
	w := f.workspace(t, "team")
	want := domain.Workspace{
		ID: w.ID, Name: "team", Slug: "team",
		DefaultGuardrailID:           uuid.NewSHA1(uuid.MustParse(w.ID), []byte("default-guardrail")).String(),
		IOLoggingSamplingRate:        1,
		IsDataDiscountLoggingEnabled: true,
		CreatedAt:                    time.Date(2026, 11, 21, 9, 0, 0, 123000000, time.UTC),
		CreatedBy:                    "ann",
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("got  %+v\nwant %+v", w, want)
	}
	if v := uuid.MustParse(w.DefaultGuardrailID).Version(); v != 5 {
		t.Errorf("default_guardrail_id has version %d, want 5", v)
	}
	text, err := w.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"updated_at":null`) || !strings.Contains(string(text), `"created_at":"2026-11-21T09:00:00.123Z"`) {
		t.Errorf("got %s, want updated_at null and created_at in RFC 3339, UTC", text)
	}
}

func TestWorkspaceLookUp(t *testing.T) {
	f := newFixture(t)
	first := f.workspace(t, "first")
	shadow := f.workspace(t, first.ID) // a slug that is another workspace's id
	free := f.workspace(t, uuid.NewString())
	for ref, want := range map[string]string{first.ID: first.ID, "first": first.ID, shadow.ID: shadow.ID, free.Slug: free.ID} {
		if got, err := f.Workspace(t.Context(), admin, ref); got.ID != want || err != nil {
			t.Errorf("%q gives %s, %v, want %s", ref, got.ID, err, want)
		}
	}
	_, err := f.Workspace(t.Context(), admin, "nowhere")
	wantKind(t, err, domain.NotFound, "Workspace not found")
	_, err = f.Workspace(t.Context(), user, "first")
	wantKind(t, err, domain.Forbidden, "Only management keys can perform this operation")
	_, err = f.CreateWorkspace(t.Context(), user, domain.NewWorkspace{Name: "x", Slug: "x"})
	wantKind(t, err, domain.Forbidden, "Only management keys can perform this operation")
	_, err = f.CreateWorkspace(t.Context(), admin, domain.NewWorkspace{Name: "x", Slug: "first"})
	wantKind(t, err, domain.Invalid, "/slug: already in use")
	huge := strings.Repeat("m", domain.MaxStoredSize)
	_, err = f.CreateWorkspace(t.Context(), admin, domain.NewWorkspace{Name: "x", Slug: "x", DefaultTextModel: &huge})
	wantKind(t, err, domain.Invalid, "must be at most 262144 bytes")
}

func TestTheDefaultWorkspaceIsMadeOnce(t *testing.T) {
	f := newFixture(t)
	before, err := f.Workspace(t.Context(), admin, "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := f.Workspace(t.Context(), admin, "default"); err != nil || after.ID != before.ID {
		t.Errorf("got %s, %v, want %s still", after.ID, err, before.ID)
	}
}

// capture reads the members of a JSON object in order.
func capture(t *testing.T, body string) (domain.Capture, error) {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(body))
	return domain.CaptureResponses(func(yield func(string, jsontext.Value) bool) {
		if _, err := d.ReadToken(); err != nil {
			t.Fatal(err)
		}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				t.Fatal(err)
			}
			key := name.String()
			value, err := d.ReadValue()
			if err != nil {
				t.Fatal(err)
			}
			if !yield(key, value) {
				return
			}
		}
	})
}

func TestCaptureKeepsExactlyTheStoredSet(t *testing.T) {
	kept := []string{
		"model", "models", "provider", "route", "plugins", "tools", "tool_choice", "parallel_tool_calls",
		"max_tool_calls", "stop_server_tools_when", "temperature", "top_p", "top_k", "frequency_penalty",
		"presence_penalty", "top_logprobs", "max_output_tokens", "reasoning", "text", "modalities",
		"image_config", "include", "truncation", "service_tier", "cache_control", "prompt_cache_options",
		"cache_enabled", "cache_ttl_seconds",
	}
	dropped := []string{
		"input", "messages", "prompt", "prediction", "system", "stream", "stream_options", "background", "store",
		"debug", "previous_response_id", "user", "safety_identifier", "session_id", "metadata", "trace",
		"prompt_cache_key", "preset", "name", "workspace_id", "nonsense", "Model", "max_tokens", "seed", "stop",
		"verbosity", "thinking", "fallbacks",
	}
	for _, name := range kept {
		in, err := capture(t, `{"`+name+`": [0.70, 1e3 ,12345678901234567890, "\u00e9<>"]}`)
		if want := `{"` + name + `":[0.70, 1e3 ,12345678901234567890, "\u00e9<>"]}`; err != nil || string(in.Config) != want {
			t.Errorf("%s: got %s, %v, want %s", name, in.Config, err, want)
		}
		if in, err := capture(t, `{"`+name+`":null}`); err != nil || string(in.Config) != "{}" {
			t.Errorf("%s null: got %s, %v, want {}", name, in.Config, err)
		}
	}
	for _, name := range dropped {
		if in, err := capture(t, `{"`+name+`":1}`); err != nil || string(in.Config) != "{}" || in.SystemPrompt != nil {
			t.Errorf("%s: got %s, %v, want it dropped", name, in.Config, err)
		}
	}
	in, err := capture(t, `{"top_p":1,"input":"hi","temperature":0.70,"model":"m"}`)
	if want := `{"top_p":1,"temperature":0.70,"model":"m"}`; err != nil || string(in.Config) != want || in.Dialect != domain.Responses {
		t.Errorf("got %s, %v, want %s, in the order sent", in.Config, err, want)
	}
}

func TestCaptureOfInstructions(t *testing.T) {
	for body, want := range map[string]*string{
		`{}`:                                  nil,
		`{"instructions":null}`:               nil,
		`{"instructions":""}`:                 new(""),
		`{"instructions":"You \u00e9 <b>\n"}`: new("You é <b>\n"),
	} {
		if in, err := capture(t, body); err != nil || !reflect.DeepEqual(in.SystemPrompt, want) {
			t.Errorf("%s: got %v, %v, want %v", body, in.SystemPrompt, err, want)
		}
	}
}

func TestCaptureSizeLimit(t *testing.T) {
	room := domain.MaxStoredSize - len(`{"model":""}`) - len(`""`)
	body := func(n int) string {
		return `{"model":"` + strings.Repeat("m", n/2) + `","instructions":"` + strings.Repeat("p", n-n/2) + `"}`
	}
	if _, err := capture(t, body(room)); err != nil {
		t.Errorf("exactly the largest: %v", err)
	}
	_, err := capture(t, body(room+1))
	wantKind(t, err, domain.Invalid, "must be at most 262144 bytes, is 262145")
	if in, err := capture(t, `{"input":"`+strings.Repeat("i", 2*domain.MaxStoredSize)+`"}`); err != nil || string(in.Config) != "{}" {
		t.Errorf("a large input, which is not stored: %v", err)
	}
}

func TestPresetVersions(t *testing.T) {
	f := newFixture(t)
	first, err := capture(t, `{"model":"m","temperature":0.70,"instructions":"Be brief."}`)
	if err != nil {
		t.Fatal(err)
	}
	p1, v1, err := f.CreatePresetVersion(t.Context(), admin, "", "email", first)
	if err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(time.Hour)
	other := admin
	other.UserID = "dora"
	p2, v2, err := f.CreatePresetVersion(t.Context(), other, "", "email", domain.Capture{Dialect: domain.Responses, Config: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	wantP := p1
	wantP.DesignatedVersion, wantP.LatestVersion, wantP.DesignatedVersionID = 2, 2, v2.ID
	wantP.UpdatedAt = p1.UpdatedAt.Add(time.Hour)
	if !reflect.DeepEqual(p2, wantP) {
		t.Errorf("got  %+v\nwant %+v", p2, wantP)
	}
	if p1.Name != "email" || p1.Slug != "email" || p1.Status != domain.PresetActive || p1.CreatorUserID != "ann" || p1.DesignatedVersionID != v1.ID {
		t.Errorf("version 1 is of %+v", p1)
	}
	wantV := domain.PresetVersion{
		ID: v2.ID, PresetID: p1.ID, Version: 2, Dialect: domain.Responses, Config: json.RawMessage("{}"),
		CreatorID: "dora", CreatedAt: p2.UpdatedAt, UpdatedAt: p2.UpdatedAt,
	}
	if !reflect.DeepEqual(v2, wantV) {
		t.Errorf("got  %+v\nwant %+v", v2, wantV)
	}
	err = f.View(t.Context(), func(r domain.Reader) error {
		p, err := r.Preset(p1.WorkspaceID, "email")
		if err != nil || !reflect.DeepEqual(p, p2) {
			t.Errorf("stored: got %+v, %v, want %+v", p, err, p2)
		}
		for _, want := range []domain.PresetVersion{v1, v2} {
			if got, err := r.PresetVersion(p, want.Version); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("stored: got %+v, %v, want %+v", got, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	text, err := domain.PresetJSON(p1, v1)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"id":%q,"name":"email","slug":"email","description":null,"status":"active","status_updated_at":null,`+
		`"creator_user_id":"ann","workspace_id":%q,"designated_version_id":%q,"created_at":"2026-11-21T09:00:00.123Z","updated_at":"2026-11-21T09:00:00.123Z",`+
		`"designated_version":{"id":%q,"preset_id":%q,"version":1,"system_prompt":"Be brief.","creator_id":"ann",`+
		`"created_at":"2026-11-21T09:00:00.123Z","updated_at":"2026-11-21T09:00:00.123Z","config":{"model":"m","temperature":0.70}}}`,
		p1.ID, p1.WorkspaceID, v1.ID, v1.ID, p1.ID)
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestPresetSlugs(t *testing.T) {
	for slug, ok := range map[string]bool{
		"a": true, "A": true, "0": true, "email-copywriter": true, "a.b_c~d-e": true, strings.Repeat("x", 128): true,
		"": false, "-a": false, ".a": false, "_a": false, "~a": false, "a b": false, "a/b": false, "a%2Fb": false,
		"é": false, "a\n": false, "a\x00": false, "a@1": false, strings.Repeat("x", 129): false,
	} {
		err := domain.CheckPresetSlug(slug)
		if ok && err != nil {
			t.Errorf("%q: %v", slug, err)
		}
		if !ok {
			wantKind(t, err, domain.Invalid, "slug")
		}
	}
}

func TestPresetWorkspaces(t *testing.T) {
	f := newFixture(t)
	def, err := f.Workspace(t.Context(), admin, "default")
	if err != nil {
		t.Fatal(err)
	}
	a, b := f.workspace(t, "a"), f.workspace(t, "b")
	in := func(p domain.Principal, id, slug string) domain.Principal {
		p.WorkspaceID, p.WorkspaceSlug = id, slug
		return p
	}
	for i, tc := range []struct {
		who  domain.Principal
		ref  string
		want string
		kind domain.Kind
	}{
		{who: admin, want: def.ID},
		{who: admin, ref: "a", want: a.ID},
		{who: admin, ref: b.ID, want: b.ID},
		{who: admin, ref: "nowhere", kind: domain.NotFound},
		{who: in(admin, a.ID, ""), want: a.ID},
		{who: in(admin, a.ID, ""), ref: "b", want: b.ID},
		{who: in(admin, "", "b"), want: b.ID},
		{who: user, want: def.ID},
		{who: user, ref: "default", want: def.ID},
		{who: in(user, a.ID, ""), want: a.ID},
		{who: in(user, a.ID, ""), ref: a.ID, want: a.ID},
		{who: in(user, a.ID, ""), ref: "a", want: a.ID},
		{who: in(user, a.ID, ""), ref: "b", kind: domain.Forbidden},
		{who: in(user, a.ID, ""), ref: "nowhere", kind: domain.Forbidden},
		{who: in(user, "", "gone"), kind: domain.NotFound},
		{who: in(admin, uuid.NewString(), ""), kind: domain.NotFound},
	} {
		p, _, err := f.CreatePresetVersion(t.Context(), tc.who, tc.ref, fmt.Sprintf("p%d", i), domain.Capture{Config: json.RawMessage("{}")})
		if tc.want == "" {
			wantKind(t, err, tc.kind, "")
		} else if p.WorkspaceID != tc.want || err != nil {
			t.Errorf("case %d: got workspace %s, %v, want %s", i, p.WorkspaceID, err, tc.want)
		}
	}
	// One slug in two workspaces is two presets.
	pa, _, errA := f.CreatePresetVersion(t.Context(), admin, "a", "same", domain.Capture{Config: json.RawMessage("{}")})
	pb, vb, errB := f.CreatePresetVersion(t.Context(), admin, "b", "same", domain.Capture{Config: json.RawMessage("{}")})
	if errA != nil || errB != nil || pa.ID == pb.ID || vb.Version != 1 {
		t.Errorf("got %s and %s version %d, %v, %v, want two presets", pa.ID, pb.ID, vb.Version, errA, errB)
	}
}

func TestPresetThatIsNotActiveIsAConflict(t *testing.T) {
	f := newFixture(t)
	p, _, err := f.CreatePresetVersion(t.Context(), admin, "", "old", domain.Capture{Config: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	err = f.Update(t.Context(), func(tx domain.Tx) error {
		p.Status = "archived"
		return tx.PutPreset(p)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = f.CreatePresetVersion(t.Context(), admin, "", "old", domain.Capture{Config: json.RawMessage("{}")})
	wantKind(t, err, domain.Conflict, "Resource conflict. Please try again later.")
}

func TestManyWritersOfOneSlug(t *testing.T) {
	f := newFixture(t)
	const writers = 64
	var wg sync.WaitGroup
	versions := make([]int, writers)
	ids := make([]string, writers)
	for i := range writers {
		wg.Go(func() {
			p, v, err := f.CreatePresetVersion(t.Context(), admin, "", "hot", domain.Capture{Config: json.RawMessage("{}")})
			if err != nil {
				t.Error(err)
			}
			versions[i], ids[i] = v.Version, p.ID
		})
	}
	wg.Wait()
	seen := make(map[int]bool)
	for i, v := range versions {
		if v < 1 || v > writers || seen[v] || ids[i] != ids[0] {
			t.Fatalf("got versions %v, want 1 to %d once each, of one preset", versions, writers)
		}
		seen[v] = true
	}
}

// refusing is an engine that gives up on every change.
type refusing struct{ domain.Store }

func (refusing) Update(context.Context, func(domain.Tx) error) error {
	return fmt.Errorf("after 5 tries: %w", domain.ErrConflict)
}

func TestAnEngineThatGivesUpIsAConflict(t *testing.T) {
	s := domain.NewService(refusing{})
	_, _, err := s.CreatePresetVersion(t.Context(), admin, "", "x", domain.Capture{Config: json.RawMessage("{}")})
	wantKind(t, err, domain.Conflict, "Resource conflict. Please try again later.")
}

func TestInvalidIssues(t *testing.T) {
	err := domain.InvalidIssues(domain.Issue{Path: "/a", Message: "required"}, domain.Issue{Path: "/b", Message: "required"})
	if want := "Invalid request parameters: /a: required; /b: required"; err.Message != want {
		t.Errorf("got %q, want %q", err.Message, want)
	}
	if want := "Invalid request parameters: body: must be an object"; domain.InvalidAt("", "must be an object").Message != want {
		t.Errorf("got %q, want %q", domain.InvalidAt("", "must be an object").Message, want)
	}
}
