package caddymodule

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

const (
	foreignBearer = "sk-foreign-bearer-of-the-tests"
	foreignKey    = "sk-ant-foreign-key-of-the-tests"
)

// credentialCase is the credentials of an inference request.
type credentialCase struct {
	name    string
	headers []string

	// Statuses are 202 where the request passes. Then come the values left in Authorization
	// and X-Api-Key.
	required, optional int
	message            string // of the refusal
	left               [2][]string
	team               bool // whether it acts in the workspace team
}

// TestInferenceKeys sends every kind of credential in every mode to every route.
func TestInferenceKeys(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	live := s.issue(`{"kind":"inference","workspace":"team"}`)
	other := s.issue(`{"kind":"inference"}`)
	management := s.issue(`{"kind":"management"}`)
	revoked := s.issue(`{"kind":"inference"}`)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(t, 200)
	revokedManagement := s.issue(`{"kind":"management"}`)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revokedManagement.id, "").want(t, 200)
	expired := s.issue(`{"kind":"inference","expires_in":"1ms"}`)
	damaged := live.secret[:len(live.secret)-1] + "_"
	s.preset("p", `{"model":"home"}`)
	s.manage("POST", "/v1/presets/p/responses?workspace_id=team", `{"model":"team"}`).want(t, 200)
	if !s.eventually(func() bool { return s.do("GET", "/v1/presets", "", bearer(expired.secret)).status == 401 }) {
		t.Fatal("a key that expires in a millisecond does not")
	}

	const missing, invalid, forbidden, differ = "Missing Authentication header", "Invalid credentials", "Management keys cannot be used for inference", "Invalid request parameters: x-api-key: must be the same"
	const twice = "Invalid request parameters: authorization: given more than once"
	apiKey := func(secret string) string { return "X-Api-Key: " + secret }
	foreignLeft := [2][]string{{"Bearer " + foreignBearer}, nil}
	foreignKeyLeft := [2][]string{nil, {foreignKey}}
	cases := []credentialCase{
		{name: "none", required: 401, optional: 202, message: missing},
		{name: "configured", headers: []string{bearer(inferenceSecret)}, required: 202, optional: 202},
		{name: "live", headers: []string{bearer(live.secret)}, required: 202, optional: 202, team: true},
		{name: "lower case", headers: []string{"authorization: bearer " + live.secret}, required: 202, optional: 202, team: true},
		{name: "upper case", headers: []string{"AUTHORIZATION: BEARER  " + live.secret}, required: 202, optional: 202, team: true},
		{name: "tab", headers: []string{"Authorization: Bearer\t" + live.secret}, required: 202, optional: 202, team: true},
		{name: "other scheme", headers: []string{"Authorization: Token " + live.secret}, required: 202, optional: 202, team: true},
		{name: "no scheme", headers: []string{"Authorization: " + live.secret}, required: 202, optional: 202, team: true},
		{name: "x-api-key", headers: []string{apiKey(live.secret)}, required: 202, optional: 202, team: true},
		{name: "x-api-key with a scheme", headers: []string{apiKey("Bearer " + live.secret)}, required: 202, optional: 202, team: true},
		{name: "both the same", headers: []string{bearer(live.secret), apiKey(live.secret)}, required: 202, optional: 202, team: true},
		{name: "both, different", headers: []string{bearer(live.secret), apiKey(other.secret)}, required: 400, optional: 400, message: differ},
		{name: "both, one configured", headers: []string{bearer(inferenceSecret), apiKey(live.secret)}, required: 202, optional: 202, team: true},
		{name: "two Authorization, the same", headers: []string{bearer(live.secret), bearer(live.secret)}, required: 400, optional: 400, message: twice},
		{name: "two Authorization, different", headers: []string{bearer(live.secret), bearer(other.secret)}, required: 400, optional: 400, message: twice},
		{name: "two Authorization, one foreign", headers: []string{bearer(live.secret), bearer(foreignBearer)}, required: 400, optional: 400, message: twice},
		{name: "two Authorization, foreign first", headers: []string{bearer(foreignBearer), bearer(live.secret)}, required: 400, optional: 400, message: twice},
		{name: "two x-api-key", headers: []string{apiKey(foreignKey), apiKey(live.secret)}, required: 400, optional: 400, message: "Invalid request parameters: x-api-key: given more than once"},
		{name: "ours and a foreign x-api-key", headers: []string{bearer(live.secret), apiKey(foreignKey)}, required: 202, optional: 202, left: foreignKeyLeft, team: true},
		{name: "ours in x-api-key and a foreign bearer", headers: []string{apiKey(live.secret), bearer(foreignBearer)}, required: 202, optional: 202, left: foreignLeft, team: true},
		{name: "foreign bearer", headers: []string{bearer(foreignBearer)}, required: 401, optional: 202, message: invalid, left: foreignLeft},
		{name: "foreign x-api-key", headers: []string{apiKey(foreignKey)}, required: 401, optional: 202, message: invalid, left: foreignKeyLeft},
		{name: "foreign both", headers: []string{bearer(foreignBearer), apiKey(foreignKey)}, required: 401, optional: 202, message: invalid, left: [2][]string{foreignLeft[0], foreignKeyLeft[1]}},
		{name: "basic", headers: []string{"Authorization: Basic Z2F0ZXdheQ=="}, required: 401, optional: 202, message: invalid, left: [2][]string{{"Basic Z2F0ZXdheQ=="}, nil}},
		{name: "empty", headers: []string{"Authorization:"}, required: 401, optional: 202, message: invalid, left: [2][]string{{""}, nil}},
		{name: "revoked", headers: []string{bearer(revoked.secret)}, required: 401, optional: 401, message: invalid},
		{name: "expired", headers: []string{bearer(expired.secret)}, required: 401, optional: 401, message: invalid},
		{name: "revoked in x-api-key", headers: []string{apiKey(revoked.secret)}, required: 401, optional: 401, message: invalid},
		{name: "revoked beside a live one", headers: []string{bearer(live.secret), apiKey(revoked.secret)}, required: 400, optional: 400, message: differ},
		{name: "revoked beside a configured one", headers: []string{bearer(inferenceSecret), apiKey(revoked.secret)}, required: 401, optional: 401, message: invalid},
		{name: "revoked beside a foreign one", headers: []string{bearer(foreignBearer), apiKey(expired.secret)}, required: 401, optional: 401, message: invalid},
		{name: "revoked management", headers: []string{bearer(revokedManagement.secret)}, required: 401, optional: 401, message: invalid},
		{name: "management", headers: []string{bearer(management.secret)}, required: 403, optional: 403, message: forbidden},
		{name: "configured management", headers: []string{bearer(managementSecret)}, required: 403, optional: 403, message: forbidden},
		{name: "management in x-api-key", headers: []string{apiKey(management.secret)}, required: 403, optional: 403, message: forbidden},
		{name: "management beside a foreign one", headers: []string{apiKey(managementSecret), bearer(foreignBearer)}, required: 403, optional: 403, message: forbidden},
		{name: "damaged", headers: []string{bearer(damaged)}, required: 401, optional: 401, message: invalid},
	}
	ours := map[string]string{
		"configured": inferenceSecret, "configured management": managementSecret, "live": live.secret, "other": other.secret,
		"management": management.secret, "revoked": revoked.secret, "revoked management": revokedManagement.secret, "expired": expired.secret,
	}
	for _, mode := range []string{"required", "optional"} {
		s.reload(inferring("keys " + mode))
		for _, tc := range cases {
			status := tc.required
			if mode == "optional" {
				status = tc.optional
			}
			for _, path := range inferencePaths {
				where := fmt.Sprintf("keys %s, %s, %s", mode, tc.name, path)
				r := exchange(t, s.address, post(path, `{"model":"@preset/p","input":"PROMPT"}`, tc.headers...))
				if r.status != status {
					t.Errorf("%s: got %d %s, want %d", where, r.status, r.body, status)
					s.upstream.all()
					continue
				}
				if status != 202 {
					s.upstream.none(t)
					if !strings.Contains(r.body, tc.message) || r.header.Get("X-Gateway") != "" || (r.header.Get("WWW-Authenticate") == "Bearer") != (status == 401) {
						t.Errorf("%s: got %s with headers %v, want %s", where, r.body, r.header, tc.message)
					}
					cause := map[int]string{400: "invalid_prompt", 401: "invalid_api_key", 403: "insufficient_permissions"}[status]
					if envelope := map[string]string{chatPath: `{"error":{"code":4`, responsesPath: fmt.Sprintf(`{"error":{"code":%d,"type":"%s"`, status, cause), messagesPath: `{"type":"error","error":{"type":"`}[path]; !strings.HasPrefix(r.body, envelope) {
						t.Errorf("%s: got %s, want the route's envelope", where, r.body)
					}
					continue
				}
				got, want := s.upstream.one(t), "home"
				if tc.team {
					want = "team"
				}
				if !strings.Contains(got.body, `"model":"`+want+`"`) {
					t.Errorf("%s: got %s, want the preset of the workspace %s", where, got.body, want)
				}
				if !slices.Equal(got.header["Authorization"], tc.left[0]) || !slices.Equal(got.header["X-Api-Key"], tc.left[1]) {
					t.Errorf("%s: the gateway got %q and %q, want %q", where, got.header["Authorization"], got.header["X-Api-Key"], tc.left)
				}
			}
		}
		// On other routes our keys are always removed, and no request is refused.
		for _, tc := range cases {
			for _, request := range []string{
				"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + lines(tc.headers) + "\r\n",
				"GET /v1/responses/abc HTTP/1.1\r\nHost: x\r\n" + lines(tc.headers) + "\r\n",
				"OPTIONS /v1/responses HTTP/1.1\r\nHost: x\r\n" + lines(tc.headers) + "\r\n",
				post("/v1/embeddings", `{"model":"m"}`, tc.headers...),
				post("/v1/responses/abc", "", tc.headers...),
				post("/elsewhere", "x", tc.headers...),
			} {
				exchange(t, s.address, request).want(t, 202)
				got := s.upstream.one(t)
				left := leftOf(tc.headers)
				if !slices.Equal(got.header["Authorization"], left[0]) || !slices.Equal(got.header["X-Api-Key"], left[1]) || strings.HasPrefix(request, "POST /v1/e") && got.body != `{"model":"m"}` {
					t.Errorf("keys %s, %s: %.30s: the gateway got %+v, want %q", mode, tc.name, request, got, left)
				}
			}
		}
		for name, secret := range ours {
			if s.upstream.saw(secret) {
				t.Errorf("keys %s: the gateway saw the %s key", mode, name)
			}
		}
	}

	// No log at DEBUG and no metric contains a key.
	seen := s.logs() + send(t, "GET", "http://"+s.admin+"/metrics", "").body
	if strings.Count(seen, `"handled request"`) < 500 || !strings.Contains(seen, "upstream roundtrip") {
		t.Error("the log does not tell of the requests")
	}
	ours["foreign"], ours["prompt"] = foreignBearer, "PROMPT"
	for name, secret := range ours {
		if strings.Contains(seen, secret) {
			t.Errorf("the logs or metrics hold the %s key", name)
		}
	}

	// With keys off all other credentials pass, and no key's workspace is used.
	stock := s.beside(inferring("keys off"))
	for _, tc := range cases {
		for _, request := range []string{
			post(chatPath, `{"model":"m"}`, tc.headers...),
			post("/v1/embeddings", `{"model":"m"}`, tc.headers...),
			"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + lines(tc.headers) + "\r\n",
		} {
			exchange(t, s.address, request).want(t, 202)
			got := s.upstream.one(t)
			exchange(t, stock, request).want(t, 202)
			want, left := s.upstream.one(t), leftOf(tc.headers)
			for i, name := range ownkeys.CredentialHeaders {
				if delete(want.header, name); left[i] != nil {
					want.header[name] = left[i]
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("keys off, %s: the gateway got %v, want %v", tc.name, got, want)
			}
		}
		exchange(t, s.address, post(chatPath, `{"model":"@preset/p"}`, tc.headers...)).want(t, 202)
		if got := s.upstream.one(t).body; got != `{"model":"home"}` {
			t.Errorf("keys off, %s: the gateway got %s", tc.name, got)
		}
	}
}

// leftOf returns the values of Authorization and X-Api-Key that pass upstream. A header
// with a key of ours is removed whole.
func leftOf(headers []string) (left [2][]string) {
	for i, name := range ownkeys.CredentialHeaders {
		for _, h := range headers {
			field, value, _ := strings.Cut(h, ":")
			value = strings.TrimSpace(value)
			if !strings.EqualFold(field, name) {
				continue
			}
			if slices.ContainsFunc([]string{"_inf_", "_mgmt_", inferenceSecret, managementSecret}, func(mark string) bool { return strings.Contains(value, mark) }) {
				left[i] = nil
				break
			}
			left[i] = append(left[i], value)
		}
	}
	return left
}

// TestKeysWithSomethingAroundThem sends keys of ours inside other text, such as Basic credentials, quotes
// from a file or a second credential. The gateway gets none of them. Which texts hold a key is the subject
// of internal/ownkeys.
func TestKeysWithSomethingAroundThem(t *testing.T) {
	tier.NoRace(t)
	for _, mode := range []string{"required", "optional"} {
		s := start(t, inferring("keys "+mode))
		live := s.issue(`{"kind":"inference"}`).secret
		for _, secret := range []string{live, inferenceSecret} {
			values := []string{`"%s"`, "%s,", "%s x", "key=%s", "%s, Bearer " + foreignBearer, "%s;v=1"}
			// The text has characters that base64url lacks, and padding.
			credentials := "a??>>>nn:" + secret
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", (4-len(credentials)%3)%3) + credentials))
			for _, form := range []string{text, strings.TrimRight(text, "="), strings.NewReplacer("+", "-", "/", "_").Replace(text)} {
				values = append(values, "Basic "+form, "basic\t"+form, "Basic \t "+form+",", `"Basic `+form+`"`, "Bearer x, Basic "+form)
			}
			for _, value := range values {
				for _, header := range []string{"Authorization: ", "Authorization: Bearer ", "X-Api-Key: "} {
					header += strings.ReplaceAll(value, "%s", secret)
					for _, request := range []string{
						post(chatPath, `{"model":"m"}`, header), post("/v1/embeddings", `{"model":"m"}`, header), "GET /v1/models HTTP/1.1\r\nHost: x\r\n" + header + "\r\n\r\n",
					} {
						exchange(t, s.address, request)
						for _, got := range s.upstream.all() {
							if left := got.header.Get("Authorization") + got.header.Get("X-Api-Key"); strings.Contains(left, secret) || strings.Contains(left, "asic") {
								t.Errorf("keys %s: the gateway saw our key of %.40q", mode, strings.ReplaceAll(header, secret, "KEY"))
							}
						}
					}
				}
			}
		}
		other := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("ann:of-another"))
		exchange(t, s.address, post("/v1/embeddings", `{"model":"m"}`, other)).want(t, 202)
		if got := "Authorization: " + s.upstream.one(t).header.Get("Authorization"); got != other {
			t.Errorf("keys %s: the gateway got %s", mode, got)
		}
	}
}

// TestKeysEverywhere requires keys on all routes to a gateway whose own key Caddy adds.
// This holds for every spelling of a route, and guesses are limited on all of them.
func TestKeysEverywhere(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	upstream := "reverse_proxy " + s.upstream.Listener.Addr().String()
	guarded := func(subdirectives string) {
		t.Helper()
		site := strings.Replace(s.site(subdirectives+"\ninference {\nkeys everywhere\nlist_models on\n}"), upstream, upstream+" {\nheader_up Authorization \"Bearer the-operators\"\n}", 1)
		if err := s.load(site); err != nil {
			t.Fatal(err)
		}
	}
	guarded(standard)
	revoked := s.issue(`{"kind":"inference"}`)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(t, 200)
	for _, path := range []string{
		chatPath, "/v1/embeddings", "/chat/completions", "/V1/chat/completions", "/v1/Chat/Completions", "/v1/chat/completions/", "/v1//chat/completions",
		"/v1/chat/completions;x", "/v1/chat%2fcompletions", "/v1/models", "/",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS"} {
			for _, tc := range []struct {
				status  int
				message string
				headers []string
			}{
				{401, "Missing Authentication header", nil},
				{401, "Invalid credentials", []string{bearer(foreignBearer)}},
				{401, "Invalid credentials", []string{"X-Api-Key: x"}},
				{401, "Invalid credentials", []string{bearer(revoked.secret)}},
				{403, "Management keys cannot be used for inference", []string{bearer(managementSecret)}},
				{400, "Invalid request parameters: authorization: given more than once", []string{bearer(inferenceSecret), bearer(inferenceSecret)}},
			} {
				r := s.do(method, path, "{}", tc.headers...)
				if method == "HEAD" && r.status != tc.status {
					t.Errorf("HEAD %s %.20q gives %d, want %d", path, tc.headers, r.status, tc.status)
				} else if method != "HEAD" {
					r.wantError(t, tc.status, tc.message)
				}
			}
			s.upstream.none(t)
			s.do(method, path, "{}", bearer(inferenceSecret), "X-Api-Key: "+foreignKey).want(t, 202)
			if got := s.upstream.one(t).header; got.Get("Authorization") != "Bearer the-operators" || got.Get("X-Api-Key") != foreignKey {
				t.Errorf("%s %s: the gateway got %v", method, path, got)
			}
		}
	}
	exchange(t, s.address, postChunked("/v1/embeddings", "x", []string{"X-Api-Key: " + inferenceSecret}, bearer(inferenceSecret))).want(t, 202)
	if s.upstream.saw(inferenceSecret) {
		t.Error("the gateway saw our key")
	}
	s.manage("GET", "/v1/presets", "").want(t, 200)

	guarded(limited("3 24h"))
	for _, path := range []string{"/v1/embeddings", "/v1/models", "/"} {
		s.do("GET", path, "", bearer("a-guess")).wantError(t, 401, "Invalid credentials")
	}
	s.do("GET", "/v1/embeddings", "", bearer("a-guess")).wantError(t, 429, "Rate limit exceeded")
	s.do("GET", "/v1/presets", "", bearer("a-guess")).wantError(t, 429, "Rate limit exceeded")
}

// TestGuessesBesideAKey sends guesses beside a valid key. Beside an issued key no value is
// checked, and the answer reveals nothing about it. If both are configured keys, the
// one in Authorization acts. No guess counts as a failure.
func TestGuessesBesideAKey(t *testing.T) {
	tier.NoRace(t)
	const limit = 3
	for _, mode := range []string{"required", "optional", "everywhere"} {
		s := start(t, limited("3 24h")+"\ninference {\nkeys "+mode+"\n}")
		issued, other := s.issue(`{"kind":"inference"}`).secret, s.issue(`{"kind":"inference"}`).secret
		unknown := other[:len(other)-1] + "_"
		apiKey := func(secret string) string { return "X-Api-Key: " + secret }
		ask := func(status int, message string, headers ...string) {
			t.Helper()
			r := exchange(t, s.address, post(chatPath, `{"model":"m"}`, headers...))
			if r.status != status || !strings.Contains(r.body, message) {
				t.Errorf("keys %s: %.60q gives %d %s, want %d %s", mode, headers, r.status, r.body, status, message)
			}
		}
		// Each key is in the right header once, and in the wrong one once.
		for _, own := range []string{issued, inferenceSecret} {
			for range 2 * limit {
				for _, guess := range []string{"a-guess", managementSecret} {
					many := []string{bearer(own)}
					for n := range 20 {
						many = append(many, apiKey(fmt.Sprint("another-", n)))
					}
					ask(400, "x-api-key: given more than once", append(many, apiKey(guess))...)
					ask(400, "authorization: given more than once", bearer(own), bearer(guess))
					ask(202, "", bearer(own), apiKey(guess))
					if own == inferenceSecret && guess == managementSecret {
						ask(403, "Management keys cannot be used for inference", apiKey(own), bearer(guess))
					} else {
						ask(202, "", apiKey(own), bearer(guess))
					}
				}
			}
		}
		for range 2 * limit {
			for _, guess := range []string{unknown, other} {
				ask(400, "x-api-key: must be the same key as in authorization", bearer(issued), apiKey(guess))
				ask(400, "x-api-key: must be the same key as in authorization", bearer(guess), apiKey(issued))
			}
		}
		if s.upstream.saw(managementSecret) || s.upstream.saw(issued) || s.upstream.saw(inferenceSecret) {
			t.Errorf("keys %s: the gateway saw a key of ours", mode)
		}
		// No guess counted as a failure.
		for _, want := range []int{401, 401, 401, 429} {
			ask(want, "", bearer(unknown))
		}
	}
}

// TestKeyIDOfOneKey uses a site that reads key_id itself. A request still counts as one
// guess.
func TestKeyIDOfOneKey(t *testing.T) {
	s := start(t, standard)
	site := s.siteAt(s.address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}\n@stranger vars {http.presets.key_id} \"\"\nrespond @stranger 401", s.folder, inferring("keys required")))
	if err := s.load(site); err != nil {
		t.Fatal(err)
	}
	guess := func(n int) string { return fmt.Sprint("X-Api-Key: another-", n) }
	for _, tc := range []struct {
		status  int
		headers []string
	}{
		{401, nil},
		{401, []string{guess(1)}},
		{401, []string{bearer(managementSecret)}},
		{401, []string{guess(1), guess(2), "X-Api-Key: " + inferenceSecret}},
		{202, []string{bearer(inferenceSecret)}},
		{202, []string{bearer(inferenceSecret), guess(1)}},
	} {
		exchange(t, s.address, post("/v1/embeddings", "{}", tc.headers...)).want(t, tc.status)
	}
}

// TestKeysInTheSessionAndTheHost checks that no key of ours goes upstream or into a log from
// there.
func TestKeysInTheSessionAndTheHost(t *testing.T) {
	s := start(t, inferring("keys off"))
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"m"}`).want(t, 200)
	for _, kind := range []string{"inference", "management"} {
		secret := s.issue(`{"kind":"` + kind + `"}`).secret
		session := func(rest string) string { return `{"session_id":"` + secret + `","messages":[],` + rest + `}` }
		s.manage("POST", "/v1/presets/q/chat/completions", session(`"model":"m"`)).want(t, 200)
		for name, request := range map[string]string{
			"a session":               post(chatPath, session(`"model":"m"`)),
			"a session with a preset": post(chatPath, session(`"model":"@preset/p"`)),
			"a host":                  strings.Replace(post(chatPath, `{"model":"m"}`), "Host: ", "Host: "+secret+".", 1),
			"a host of another route": strings.Replace(post("/v1/embeddings", `{"model":"m"}`), "Host: ", "Host: "+strings.ToUpper(secret), 1),
		} {
			exchange(t, s.address, request).want(t, 202)
			got := s.upstream.one(t)
			for header, values := range got.header {
				if secrets.AreIn(strings.Join(values, " ")) && !strings.Contains(strings.Join(values, " "), string(secrets.Hidden)) {
					t.Errorf("a key as %s: the gateway got %s: %s", name, header, values)
				}
			}
			if strings.Contains(strings.ToLower(got.host), strings.ToLower(secret)) {
				t.Errorf("a key as %s: the gateway got the host %s", name, got.host)
			}
			if got.header.Get("X-Session-Id") != "" {
				t.Errorf("a key as %s: the gateway got it as session", name)
			}
		}
		if strings.Contains(strings.ToLower(s.logs()), strings.ToLower(secret)) {
			t.Errorf("a log has an %s key", kind)
		}
	}
}

// TestLoggedKeysAreWarnedOf checks that a start warns of logs that would show keys sent
// over HTTP/3. The warning names the headers. No log shows keys sent over HTTP/1 or 2.
func TestLoggedKeysAreWarnedOf(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	const warning = "the log shows keys that clients send over HTTP/3"
	const access, failed = `"http.log.access"`, `"http.log.error"`
	const every = `["Api-Key","Sec-Websocket-Protocol","X-Api-Key","X-Goog-Api-Key","X-Inference-Key"]`
	const filter = "format filter {\nrequest>headers>X-Api-Key delete\nrequest>headers>Api-Key delete\nrequest>headers>X-Goog-Api-Key delete\nrequest>headers>X-Inference-Key delete\nrequest>headers>Sec-Websocket-Protocol delete\n}"
	own := func(format string) string { // the site's own log
		return strings.Replace(s.siteWithTLS(inferring()), "\nlog\n", "\nlog {\noutput file "+s.logFile+".own\n"+format+"\n}\n", 1)
	}
	const http12 = "servers {\nprotocols h1 h2\n}"
	for _, tc := range []struct {
		name, format, options, site string
		headers                     string
		loggers                     []string // nil for no warning
	}{
		{"without TLS", "", "", s.site(inferring()), "", nil},
		{"without TLS, credentials in the log", "", "servers {\nlog_credentials\n}", s.site(inferring()), "", nil},
		{"unfiltered", "", "", s.siteWithTLS(inferring()), every, []string{access, failed}},
		{"keys optional", "", "", s.siteWithTLS(inferring("keys optional")), every, []string{access, failed}},
		{"console", "format console", "", s.siteWithTLS(inferring()), every, []string{access, failed}},
		{"another filter", "format filter {\nrequest>headers>Cookie delete\n}", "", s.siteWithTLS(inferring()), every, []string{access, failed}},
		{"half a filter", "format filter {\nrequest>headers>X-Api-Key delete\n}", "", s.siteWithTLS(inferring()), `["Api-Key","Sec-Websocket-Protocol","X-Goog-Api-Key","X-Inference-Key"]`, []string{access, failed}},
		{"credentials in the log", filter, "servers {\nlog_credentials\n}", s.siteWithTLS(inferring()), `["Authorization","Cookie"]`, []string{access, failed}},
		{"without an access log", "", "", strings.Replace(s.siteWithTLS(inferring()), "\nlog\n", "\n", 1), every, []string{failed}},
		{"filtered", filter, "", s.siteWithTLS(inferring()), "", nil},
		{"hashed", strings.ReplaceAll(filter, " delete", " hash"), "", s.siteWithTLS(inferring()), "", nil},
		{"no headers", "format filter {\nrequest>headers delete\n}", "", s.siteWithTLS(inferring()), "", nil},
		{"no requests", "format filter {\nwrap console\nfields {\nrequest delete\n}\n}", "", s.siteWithTLS(inferring()), "", nil},
		{"the site's own", filter, "", own(""), every, []string{access, `"http.log.access.log0"`}}, // Caddy uses this encoder for the parent, too
		{"the site's own, filtered", filter, "", own(filter), "", nil},
		{"without HTTP/3", "", http12, s.siteWithTLS(inferring()), "", nil},
		{"keys off", "", "", s.siteWithTLS(inferring("keys off")), every, []string{access, failed}},
		{"no inference", "", "", s.siteWithTLS(standard), every, []string{access, failed}},
	} {
		before := len(s.logs())
		s.logFormat, s.options = tc.format, "auto_https disable_redirects\n"+tc.options
		if err := s.load(tc.site); err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(s.logs()[before:]) {
			if strings.Contains(line, warning) {
				got += line
			}
		}
		if strings.Contains(s.logs(), "a-key-of-nobody") {
			t.Errorf("%s: the look at the log is in it", tc.name)
		}
		if tc.loggers == nil && got != "" || strings.Count(got, warning) > 1 {
			t.Errorf("%s: got %s, want no warning", tc.name, got)
		}
		_, fields, _ := strings.Cut(got, `"headers"`)
		want := `:` + tc.headers + `,"loggers":[` + strings.Join(tc.loggers, ",") + "]}"
		if tc.loggers != nil && !strings.HasSuffix(strings.Join(strings.Fields(fields), ""), want) {
			t.Errorf("%s: got %q, want a warning of %s", tc.name, got, want)
		}
	}
}

// TestInferenceKeysAreCheckedBeforeABodyIsRead sends inference requests without a valid
// key. The server neither requests their bodies nor waits for them.
func TestInferenceKeysAreCheckedBeforeABodyIsRead(t *testing.T) {
	s := start(t, inferring())
	for _, path := range inferencePaths {
		for header, status := range map[string]int{"X-Nothing: here": 401, bearer(foreignBearer): 401, "X-Api-Key: " + foreignKey: 401, bearer(managementSecret): 403, bearer(inferenceSecret) + "\r\nX-Preset-Dry-Run: x": 400} {
			for _, framing := range []string{
				"Content-Length: 1000", "Content-Length: 1000000000", "Transfer-Encoding: chunked", "Content-Length: 1000\r\nExpect: 100-continue",
			} {
				conn := s.dial()
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\n\r\n", path, header, framing)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil) // the first answer: no 100
				if err != nil {
					t.Fatal(err)
				}
				r := readResponse(t, response)
				if r.status != status || !response.Close {
					t.Errorf("%s, %s, %s: got %d, closing %t, want %d and the end of the connection", path, header, framing, r.status, response.Close, status)
				}
				conn.Close()
			}
		}
	}
	s.upstream.none(t)
}
