package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// apiKey is what tests read of a key of the API.
type apiKey struct {
	shownKey
	secret string
}

// createKey creates a key with a management key's secret.
func (s *server) createKey(by, body string) apiKey {
	s.t.Helper()
	return s.keyIn(s.do("POST", "/v1/keys", body, bearer(by)), 201)
}

// keyIn returns the key in a response.
func (s *server) keyIn(r reply, status int) apiKey {
	s.t.Helper()
	r.want(s.t, status)
	var shown struct {
		Data shownKey
		Key  string
	}
	if err := json.Unmarshal([]byte(r.body), &shown); err != nil {
		s.t.Fatalf("%s: %v", r.body, err)
	}
	return apiKey{shown.Data, shown.Key}
}

// TestKeyAPI creates, lists, changes, rotates and deletes a key.
func TestKeyAPI(t *testing.T) {
	s := start(t, standard+"\nkey_api\ninference {\nusage\n}")
	s.upstream.answers(replyWith(200, "application/json", `{"usage":{"prompt_tokens":10,"completion_tokens":5,"cost":0.25}}`))
	s.manage("POST", "/v1/workspaces", `{"name":"Team","slug":"team"}`).want(t, 201)
	issuer := s.issue(`{"kind":"management","workspace":"team","only_workspace":true,"may":["issue-keys"],"user_id":"lead"}`).secret
	do := func(method, path, body string, headers ...string) reply {
		return s.do(method, "/v1/"+path, body, append(headers, bearer(issuer))...)
	}
	infer := func(secret string) int {
		return s.do("POST", "/v1/chat/completions", `{"model":"m"}`, bearer(secret)).status
	}

	end := time.Now().UTC().Add(time.Hour).Truncate(time.Second)
	r := do("POST", "keys", fmt.Sprintf(`{"name":"Ann","limit":2,"limit_reset":"monthly","include_byok_in_limit":true,"expires_at":%q,"creator_user_id":"ann",
		"presets":["p"],"models":["m","n/*"],"limits":{"requests_per_minute":60.0},"limt":3}`, end.Format(time.RFC3339)))
	k := s.keyIn(r, 201)
	if got := r.header.Get("X-Preset-Ignored"); got != "limt" {
		t.Errorf("got X-Preset-Ignored %q, want limt", got)
	}
	beginning, ending, _ := strings.Cut(k.Label, "...")
	if k.Hash != domain.HashSecret(k.secret) || len(beginning) != 20 || len(ending) != 4 || !strings.HasPrefix(k.secret, beginning) || !strings.HasSuffix(k.secret, ending) {
		t.Errorf("got hash %x and label %s of another secret", k.Hash, k.Label)
	}
	var team struct{ Data struct{ ID string } }
	if err := json.Unmarshal([]byte(s.manage("GET", "/v1/workspaces/team", "").body), &team); err != nil {
		t.Fatal(err)
	}
	hash, _ := k.Hash.MarshalText()
	want := fmt.Sprintf(`{"data":{"hash":"%s","name":"Ann","disabled":false,"label":"%s","limit":2,"limit_remaining":2,"limit_reset":"monthly",`+
		`"include_byok_in_limit":true,"usage":0,"usage_daily":0,"usage_weekly":0,"usage_monthly":0,"byok_usage":0,"byok_usage_daily":0,"byok_usage_weekly":0,`+
		`"byok_usage_monthly":0,"expires_at":%q,"creator_user_id":"ann","workspace_id":%q,"limits":{"requests_per_minute":60},"created_at":%q,"updated_at":null,"last_used_at":null,"external_user":null,`+
		`"id":%q,"presets":["p"],"preset_required":false,"models":["m","n/*"],"grace_ends_at":null},"key":%q}`,
		hash, k.Label, end.Format(time.RFC3339), team.Data.ID, k.CreatedAt.Format(time.RFC3339Nano), k.ID, k.secret)
	if r.body != want {
		t.Errorf("got  %s\nwant %s", r.body, want)
	}
	path := "keys/" + string(hash)
	shown, list := do("GET", path, ""), do("GET", "keys", "")
	if object := strings.TrimSuffix(want, fmt.Sprintf(`,"key":%q}`, k.secret)); shown.body != object+"}" || list.body != `{"data":[`+strings.TrimPrefix(object, `{"data":`)+"]}" {
		t.Errorf("got %s and the list %s, want the same without the secret", shown.body, list.body)
	}
	if shown.header.Get("ETag") != "" {
		t.Error("a key has an entity tag, with which it cannot be changed")
	}

	if got := infer(k.secret); got != 200 {
		t.Errorf("the key gets %d, want 200", got)
	}
	s.storeUsage()
	used := s.keyIn(do("GET", path, ""), 200)
	if used.Usage != 0.25 || used.UsageDaily != 0.25 || used.UsageWeekly != 0.25 || used.UsageMonthly != 0.25 || *used.LimitRemaining != 1.75 {
		t.Errorf("got %+v, want a usage of 0.25 everywhere", used)
	}
	own := s.do("GET", "/v1/key", "", bearer(k.secret))
	own.want(t, 200)
	for _, part := range []string{
		`{"data":{"label":"` + k.Label + `","limit":2,"limit_remaining":1.75,`, `"usage_daily":0.25,`,
		`"is_management_key":false,"is_provisioning_key":false,"budgets":[{"scope":"key_limit","budget_id":null,"guardrail_id":null,"limit_usd":2,"spend_usd":0.25,"remaining_usd":1.75,"reset_interval":"monthly","resets_at":"20`,
		`"effective_budget":{"scope":"key_limit",`, `"rate_limit":{"requests":-1,"interval":"10s",`,
	} {
		if !strings.Contains(own.body, part) {
			t.Errorf("got %s, want %s in it", own.body, part)
		}
	}
	for _, secret := range []string{"hash", "name", "disabled", "created_at"} {
		if strings.Contains(own.body, `"`+secret+`"`) {
			t.Errorf("a key sees its own %s: %s", secret, own.body)
		}
	}
	s.manage("GET", "/v1/key", "").want(t, 200, `"label":"config-management-1"`, `"is_management_key":true`, `"limit":null`, `"expires_at":null`)

	disabled := s.keyIn(do("PATCH", path, `{"disabled":true,"limit":null,"presets":null,"limits":{"concurrent":3}}`), 200)
	if !disabled.Disabled || disabled.Limit != nil || disabled.LimitRemaining != nil || disabled.Presets != nil || disabled.Limits.Concurrent != 3 || disabled.UpdatedAt == nil || disabled.Usage != 0.25 {
		t.Errorf("got %+v after the change", disabled)
	}
	if got := infer(k.secret); got != 401 {
		t.Errorf("a disabled key gets %d, want 401", got)
	}
	do("GET", "keys", "").want(t, 200, `{"data":[]}`)
	do("GET", "keys?include_disabled=true", "").want(t, 200, k.ID)
	do("GET", "keys?include_disabled=true&offset=1", "").want(t, 200, `{"data":[]}`)
	do("PATCH", path, `{"disabled":false}`).want(t, 200)

	rotated := s.keyIn(do("POST", path+"/rotate", `{"grace":"24h"}`), 200)
	if rotated.ID != k.ID || rotated.Hash == k.Hash || rotated.GraceEndsAt == nil || rotated.GraceEndsAt.Before(time.Now().Add(23*time.Hour)) || rotated.Usage != 0.25 {
		t.Errorf("got %+v, want the same key with another secret", rotated)
	}
	if got := []int{infer(k.secret), infer(rotated.secret)}; !slices.Equal(got, []int{200, 200}) {
		t.Errorf("the secrets get %v, want 200 within the grace", got)
	}
	do("GET", path, "").want(t, 200, k.ID)
	last := s.keyIn(do("POST", path+"/rotate", ""), 200)
	if got := []int{infer(k.secret), infer(rotated.secret), infer(last.secret)}; !slices.Equal(got, []int{401, 401, 200}) {
		t.Errorf("the secrets get %v, want 200 for the last one only", got)
	}
	do("DELETE", "keys/"+k.ID, "").want(t, 200, `{"deleted":true}`)
	do("DELETE", "keys/"+k.ID, "").want(t, 404, "Key not found")
	do("GET", "keys?include_disabled=true", "").want(t, 200, `{"data":[]}`)
	if got := infer(last.secret); got != 401 {
		t.Errorf("a deleted key gets %d, want 401", got)
	}
	var history []string
	for _, r := range s.trail("?limit=100").Records {
		if r.Object.ID == k.ID {
			history = append(history, r.Operation+" "+r.UserID)
		}
	}
	if want := []string{"key.create lead", "key.update lead", "key.update lead", "key.rotate lead", "key.rotate lead", "key.delete lead"}; !slices.Equal(history, want) {
		t.Errorf("got %q, want %q", history, want)
	}
	do("GET", "workspaces/team/history", "").want(t, 200, `"operation":"key.rotate"`, `"operation":"key.create"`, `"changed_key_id":"`+k.ID+`"`)
	if text := s.logs(); strings.Contains(text, k.secret) || strings.Contains(text, last.secret) {
		t.Error("the log has a secret")
	}
}

func TestKeyAPIRefuses(t *testing.T) {
	s := start(t, standard+"\nkey_api")
	k := s.createKey(managementSecret, `{"name":"n"}`)
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "keys", `{}`, 400, "/name"},
		{"POST", "keys", `{"name":""}`, 400, "/name"},
		{"POST", "keys", `{"name":"n","expires_at":"2027-12-31T23:59:59+01:00"}`, 400, "/expires_at: must be a time in UTC"},
		{"POST", "keys", `{"name":"n","expires_at":"soon"}`, 400, "/expires_at: must be a time in UTC"},
		{"POST", "keys", `{"name":"n","expires_at":"2020-01-01T00:00:00Z"}`, 400, "/expires_at: must be in the future"},
		{"POST", "keys", `{"name":"n","limit":-1}`, 400, "/limit"},
		{"POST", "keys", `{"name":"n","limit":"5"}`, 400, "/limit"},
		{"POST", "keys", `{"name":"n","limit_reset":"hourly"}`, 400, "/limit_reset"},
		{"POST", "keys", `{"name":"n","limits":{"requests_per_min":1}}`, 400, "/limits/requests_per_min: unknown field"},
		{"POST", "keys", `{"name":"n","limits":{"concurrent":0}}`, 400, "/limits/concurrent"},
		{"POST", "keys", `{"name":"n","presets":[]}`, 400, "/presets"},
		{"POST", "keys", `{"name":"n","presets":null}`, 400, "/presets"},
		{"POST", "keys", `{"name":"n","models":["a b"]}`, 400, "/models/0"},
		{"POST", "keys?workspace_id=default", `{"name":"n"}`, 400, "workspace_id"},
		{"PATCH", "keys/{}", `{"presets":[]}`, 400, "/presets"},
		{"PATCH", "keys/{}", `{"disabled":null}`, 400, "/disabled"},
		{"PATCH", "keys/{}", `{"name":null}`, 400, "/name"},
		{"POST", "keys/{}/rotate", `{"grace":"a day"}`, 400, "/grace"},
		{"POST", "keys/{}/rotate", `{"grace":"999999999d"}`, 400, "/grace"},
		{"GET", "keys?offset=-1", "", 400, "offset"},
		{"GET", "keys?limit=101", "", 400, "limit"},
		{"GET", "keys?include_disabled=maybe", "", 400, "include_disabled"},
		{"GET", "keys/" + strings.Repeat("0", 64), "", 404, "Key not found"},
		{"GET", "keys/{}/usage", "", 404, "Resource not found"},
		{"GET", "key/generate", "", 404, "Resource not found"},
		{"DELETE", "key", "", 405, "Method not allowed"},
	} {
		s.manage(tc.method, "/v1/"+strings.ReplaceAll(tc.path, "{}", k.ID), tc.body).wantError(t, tc.status, "")
		if r := s.manage(tc.method, "/v1/"+strings.ReplaceAll(tc.path, "{}", k.ID), tc.body); !strings.Contains(r.body, tc.says) {
			t.Errorf("%s %s %s: got %s, want %s", tc.method, tc.path, tc.body, r.body, tc.says)
		}
	}
	for path, body := range map[string]string{"keys": `{"name":"n"}`, "keys/" + k.ID + "/rotate": ""} {
		s.manage("POST", "/v1/"+path, body, "Idempotency-Key: a").want(t, 400, "idempotency-key")
		s.manage("POST", "/v1/"+path, body, "If-Match: *").want(t, 412)
	}
	if got := s.upstream.taken(); got != nil {
		t.Errorf("the gateway got %q", got)
	}
}

// TestKeyAPIOff checks that the paths are the gateway's without key_api.
func TestKeyAPIOff(t *testing.T) {
	s := start(t, standard)
	for _, path := range []string{"/v1/key", "/v1/keys", "/v1/keys/x"} {
		s.do("GET", path, "").want(t, http.StatusAccepted, "from the gateway")
	}
}
