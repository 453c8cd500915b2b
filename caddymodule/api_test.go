package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/deadline"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/metrics"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

const minimalWorkspace = `{"name":"Team","slug":"team"}`

func TestWorkspaceAnswers(t *testing.T) {
	s := start(t, standard)
	full := `{"name":"Zoë & <Co>","slug":"full","description":"d","default_text_model":"openai/gpt-5","default_image_model":"m",
		"default_provider_sort":"price","io_logging_api_key_ids":["a",12345678901234567890,"<b>"],"io_logging_sampling_rate":0.5,
		"is_data_discount_logging_enabled":false,"is_observability_broadcast_enabled":true,"is_observability_io_logging_enabled":true,
		"created_by":"mallory","id":"mine","unknown":{"deep":[1]}}`
	nulls := `{"name":"n","slug":"nulls","description":null,"default_text_model":null,"default_image_model":null,"default_provider_sort":null,"io_logging_api_key_ids":null}`
	minimal := s.manage("POST", "/v1/workspaces", minimalWorkspace)
	golden(t, "workspace",
		minimal,
		s.manage("POST", "/v1/workspaces", full),
		s.manage("POST", "/v1/workspaces", nulls),
		s.manage("GET", "/v1/workspaces/team", ""),
		s.manage("GET", "/v1/workspaces/"+minimal.field(t, "id"), ""),
		s.manage("GET", "/v1/workspaces/default", ""),
		s.manage("POST", "/v1/workspaces", minimalWorkspace),
		s.manage("GET", "/v1/workspaces/nowhere", ""),
		s.manage("POST", "/v1/workspaces", `{"name":"","slug":"-"}`),
	)
	head := s.manage("HEAD", "/v1/workspaces/team", "")
	get := s.manage("GET", "/v1/workspaces/team", "")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(get.body)) {
		t.Errorf("HEAD gives %d with length %s and %q, want GET's without the body", head.status, head.header.Get("Content-Length"), head.body)
	}
}

func TestPresetAnswers(t *testing.T) {
	s := start(t, standard)
	const path = "/v1/presets/email-copywriter/responses"
	golden(t, "preset",
		s.manage("POST", path, `{"model":"openai/gpt-5","temperature":0.70,"instructions":"Write <b>short</b> mails.","input":"hi","stream":true,"user":"u"}`),
		s.manage("POST", path, `{}`),
		s.manage("POST", path, `{"temperature":null,"instructions":""}`),
		s.manage("POST", path, `{"tools":[{"type":"function"}],"provider":{"x":1},"metadata":{"a[0]":"b"}}`),
		s.manage("POST", "/v1/presets/bad%20slug/responses", `{}`),
		s.manage("POST", path+"?workspace_id=nowhere", `{}`),
		s.do("POST", path, `{}`, bearer(inferenceSecret)),
	)
}

func TestValuesAreKeptToTheByte(t *testing.T) {
	s := start(t, standard)
	for _, member := range []string{
		`"temperature":0.70`, `"temperature":1e3`, `"top_k":12345678901234567890`, `"top_p":-0.0`, `"top_logprobs":1.0`,
		`"model":"\u00e9\/<&>\u2028"`,
		"\"provider\":{ \"order\" : [\t\"a\",\n\"b\" ] }",
		`"reasoning":{"z":1,"a":2,"effort":"high"}`,
		`"image_config":{"n":1E-7}`,
	} {
		s.manage("POST", "/v1/presets/verbatim/responses", "{ "+member+" }").want(t, 200, `"config":{`+member+`}`)
	}
}

func TestQueryPicksTheWorkspace(t *testing.T) {
	s := start(t, standard+"\npreset_creators any\ninference_key team-inference-secret carl team")
	team := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id")
	home := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	const path = "/v1/presets/p/responses"
	s.manage("POST", path, `{}`).want(t, 200, `"workspace_id":"`+home+`"`, `"version":1`)
	s.manage("POST", path+"?workspace_id=team", `{}`).want(t, 200, `"workspace_id":"`+team+`"`, `"version":1`)
	s.manage("POST", path+"?workspace_id="+team, `{}`).want(t, 200, `"workspace_id":"`+team+`"`, `"version":2`)
	s.manage("POST", path+"?workspace_id=", `{}`).wantError(t, 400, "Invalid request parameters: workspace_id: must not be empty")
	s.manage("POST", path+"?workspace=team", `{}`).wantError(t, 400, "Invalid request parameters: workspace: is no parameter of this request")
	s.manage("POST", path, `{}`).want(t, 200, `"workspace_id":"`+home+`"`, `"version":2`)
	s.do("POST", path, `{}`, bearer("team-inference-secret")).want(t, 200, `"workspace_id":"`+team+`"`, `"version":3`, `"creator_id":"carl"`)
	s.do("POST", path, `{}`, bearer(inferenceSecret)).want(t, 200, `"workspace_id":"`+home+`"`, `"version":3`)
	s.do("POST", path+"?workspace_id=default", `{}`, bearer("team-inference-secret")).wantError(t, 403, "Only management keys can perform this operation")
	s.manage("POST", path+"?workspace_id=nowhere", `{}`).wantError(t, 404, "Workspace not found")
	s.manage("POST", path+"?workspace_id=a&workspace_id=b", `{}`).wantError(t, 400, "Invalid request parameters: workspace_id")
	s.manage("POST", path+"?workspace_id=%zz", `{}`).wantError(t, 400, "Invalid request parameters: query")
}

func TestRouting(t *testing.T) {
	s := start(t, standard)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/presets/", 404, ""},
		{"GET", "/v1/presets/a", 404, ""},
		{"POST", "/v1/presets/a/nothing", 404, ""},
		{"POST", "/v1/presets/a/responses/", 404, ""},
		{"POST", "/v1/presets//responses", 404, ""},
		{"POST", "/v1/presets/a/chat", 404, ""},
		{"POST", "/v1/presets/a/chat/completions/b", 404, ""},
		{"POST", "/v1/presets/a/chat%2Fcompletions", 404, ""},
		{"GET", "/v1/presets/a/versions/1/x", 404, ""},
		{"GET", "/v1/presets/a/versions/", 404, ""},
		{"GET", "/v1/presets/a/labels", 404, ""},
		{"PUT", "/v1/presets/a/labels/", 404, ""},
		{"GET", "/v1/presets/a/responses", 405, "POST"},
		{"PUT", "/v1/workspaces/a", 405, "DELETE, GET, HEAD, PATCH"},
		{"POST", "/v1/workspaces/", 404, ""},
		{"GET", "/v1/workspaces/a/b", 404, ""},
		{"GET", "/v1/workspaces/a/b/c/d/e/f", 404, ""},
		{"POST", "/v1/%70resets/a/other", 404, ""},
		{"GET", "/v1/%70resets/a/%72esponses", 405, "POST"},
		{"GET", "/v1%2F../v1/workspaces/default", 400, ""},
		{"GET", "/v1//workspaces/a", 404, ""},
		{"GET", "/v1/./workspaces/a", 400, ""},
		{"GET", "/v1/x/../workspaces/a", 400, ""},
		{"GET", "/v1/workspaces/../models", 400, ""},
		{"GET", "/v1/presets/a/../b", 400, ""},
		{"GET", "/v1/presets%2Fa", 404, ""},
		{"GET", "/v1%2Fpresets/a", 404, ""},
		{"POST", "/v1/workspaces/a%2Fb", 405, "DELETE, GET, HEAD, PATCH"},
	} {
		r := s.manage(tc.method, tc.path, "")
		r.wantError(t, tc.status, "")
		if got := r.header.Get("Allow"); got != tc.allow {
			t.Errorf("%s %s: got Allow %q, want %q", tc.method, tc.path, got, tc.allow)
		}
	}
	if got := s.upstream.taken(); got != nil {
		t.Errorf("the gateway got %q", got)
	}
	// A decoded slash belongs to the slug or id and does not split the path.
	s.manage("GET", "/v1/workspaces/a%2Fb", "").wantError(t, 404, "Workspace not found")
	s.manage("POST", "/v1/presets/a%2Fb/responses", "{}").wantError(t, 400, "Invalid request parameters: slug")
	s.manage("POST", "/%761/presets/%61bc/responses", "{}").want(t, 200, `"slug":"abc"`)
}

func TestOtherRoutesGoToTheGatewayUntouched(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	body := "{\"not\": json, \xff\x00" + strings.Repeat("x", 5<<20) // larger than the limit, and not valid JSON
	for _, tc := range []struct{ method, path string }{
		{"GET", "/"},
		{"GET", "/v1/models"},
		{"POST", "/v1/presetsfoo"},
		{"POST", "/v1/workspaces-x/y"},
		{"POST", "/v1/chat/completions?x=%zz"},
		{"POST", "/v1/responses"},
		{"DELETE", "/presets/a"},
		{"POST", "/v2/presets/a/responses"},
		{"POST", "/V1/Presets/a"},
		{"POST", "/v1/a%2Fb/%E9"},
	} {
		sent := ""
		if tc.method == "POST" {
			sent = body
		}
		r := s.do(tc.method, tc.path, sent, "Authorization: Basic Z2F0ZXdheQ==", "X-Session-Id: "+strings.Repeat("s", 300))
		r.want(t, http.StatusAccepted, "from the gateway")
		want := fmt.Sprintf("%s %s\nAuthorization: Basic Z2F0ZXdheQ==\nX-Session-Id: %s\n\n%s", tc.method, tc.path, strings.Repeat("s", 300), sent)
		if got := s.upstream.taken(); len(got) != 1 || got[0] != want {
			t.Errorf("%s %s reached the gateway %d times, or changed", tc.method, tc.path, len(got))
		}
	}
}

func TestBasePath(t *testing.T) {
	s := start(t, standard+"\nbase_path /ai/api/")
	s.manage("GET", "/ai/api/workspaces/default", "").want(t, 200)
	s.manage("GET", "/v1/workspaces/default", "").want(t, http.StatusAccepted)
	s.reload(standard + "\nbase_path /kü/v1")
	s.manage("GET", "/k%C3%BC/v1/workspaces/default", "").want(t, 200)
	s.manage("POST", "/k%c3%bc/v1/presets/p/responses", "{}").want(t, 200)
	s.reload(standard + "\nbase_path /")
	s.manage("GET", "/workspaces/default", "").want(t, 200)
	s.manage("GET", "/v1/workspaces/default", "").want(t, http.StatusAccepted)
}

func TestBodies(t *testing.T) {
	s := start(t, standard+"\nmax_body_size 10KB")
	const path = "/v1/presets/p/responses"
	filled := func(size int) string {
		return `{"input":"` + strings.Repeat("x", size-len(`{"input":""}`)) + `"}`
	}
	chunked := func(body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", path, bearer(managementSecret), len(body), body)
	}
	s.manage("POST", path, filled(10000)).want(t, 200)
	s.manage("POST", path, filled(10001)).wantError(t, 413, "Request payload too large")
	for _, expect := range []string{"", "Expect: 100-continue\r\n"} { // the server reads nothing and allocates no buffer
		s.raw("POST "+path+" HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\nContent-Length: 9000000000000\r\n"+expect+"\r\n", 1)[0].
			wantError(t, 413, "Request payload too large")
	}
	s.raw(chunked(filled(10000)), 1)[0].want(t, 200)
	s.raw(chunked(filled(10001)), 1)[0].wantError(t, 413, "Request payload too large")

	for media, status := range map[string]int{
		"": 200, "application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200, "application/vnd.x+json": 200,
		"text/plain": 415, "application/x-www-form-urlencoded": 415, "text/json": 415, "application/jsonp": 415, "json": 415, "multipart/form-data; boundary=x": 415,
	} {
		if r := s.manage("POST", path, "{}", "Content-Type: "+media); r.status != status {
			t.Errorf("Content-Type %q: got %d, want %d", media, r.status, status)
		}
	}
	s.manage("POST", path, "{}", "Content-Encoding: gzip").wantError(t, 415, "Unsupported media type")
	s.manage("POST", path, "").wantError(t, 400, "Invalid request parameters: body: ")
	s.manage("POST", path, "[]").wantError(t, 400, "Invalid request parameters: body: ")
	s.manage("POST", path, `{"model":"a","model":"b"}`).wantError(t, 400, "Invalid request parameters: /model: ")
	s.raw("POST "+path+" HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 1)[0].
		wantError(t, 400, "Invalid request parameters: body: ")
}

func TestOuterLimitKeepsIts413(t *testing.T) {
	s := start(t, standard)
	s.reloadBehind("request_body {\nmax_size 100\n}", standard)
	body := `{"input":"` + strings.Repeat("x", 200) + `"}`
	r := s.raw(fmt.Sprintf("POST /v1/presets/p/responses HTTP/1.1\r\nHost: x\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", bearer(managementSecret), len(body), body), 1)
	r[0].wantError(t, 413, "Request payload too large")
}

func TestSlowBodiesEnd(t *testing.T) {
	s := start(t, standard)
	s.handler().deadlines.Body = 50 * time.Millisecond
	r := s.raw("POST /v1/workspaces HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\nContent-Length: 1000\r\n\r\n{", 1)
	r[0].wantError(t, 408, "The request body took too long to arrive")
}

// TestDeadlineEndsWithTheBody checks that the deadline ends with the body. Later delays of
// the connection or the request do not cause a timeout.
func TestDeadlineEndsWithTheBody(t *testing.T) {
	s := start(t, standard)
	for _, timeout := range []time.Duration{100 * time.Millisecond, 2 * time.Second, 30 * time.Second} {
		s.handler().deadlines.Body = timeout
		time.AfterFunc(5*timeout, s.holdWrites())
		if r := s.manage("POST", "/v1/presets/p/responses", "{}"); r.status != 408 || timeout == 30*time.Second {
			r.want(t, 200)
			return
		} // on a slow machine the body may arrive too late
	}
}

// holdWrites blocks the store's writes until release is called. release returns when the
// writes continue.
func (s *server) holdWrites() (release func()) {
	held, released, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := liveUse(s.canonicalFolder()).Store.Update(context.Background(), func(domain.Tx) error {
			close(held)
			<-released
			return nil
		})
		if err != nil {
			s.t.Error(err)
		}
	}()
	<-held
	return func() {
		close(released)
		<-done
	}
}

// TestClientsThatLeave checks that a client that leaves does not count as a failure.
func TestClientsThatLeave(t *testing.T) {
	s := start(t, standard)
	release := s.holdWrites()
	metrics := func() string { return send(t, "GET", "http://"+s.admin+"/metrics", "").body }
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := newRequest(t, "POST", s.url+"/v1/presets/left/responses", strings.NewReader("{}"), bearer(managementSecret)).WithContext(ctx)
	result := make(chan error)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			response.Body.Close()
		}
		result <- err
	}()
	inFlight := regexp.MustCompile(`caddy_http_requests_in_flight\{handler="presets",[^}]*\} 1\n`)
	if !s.eventually(func() bool { return inFlight.MatchString(metrics()) }) {
		t.Error("the request does not begin")
	}
	leave()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the client to give up", err)
	}
	if !s.eventually(func() bool {
		return strings.Contains(metrics(), `caddy_presets_requests_total{code="499",operation="preset_create_responses"} 1`)
	}) {
		t.Error("the request is not counted with code 499")
	}
	release()
	s.manage("POST", "/v1/presets/left/responses", "{}").want(t, 200, `"version":1`) // a cancelled change was not made
	if strings.Contains(metrics(), `result="error"`) {
		t.Error("the client's leaving counts as a failure of the store")
	}
	if strings.Contains(s.logs(), "request failed") {
		t.Error("the client's leaving is logged as an error")
	}
}

// TestInternalErrorsAreMasked checks that a failure of the store gets a plain 500 with an
// id. The log has its cause once.
func TestInternalErrorsAreMasked(t *testing.T) {
	store, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	h := newBareHandler(t, store)
	core, logged := observer.New(zap.DebugLevel)
	h.logger = zap.New(core)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	w := serveBare(t, h, "GET", "/v1/workspaces/default", "")
	if want := `{"error":{"code":500,"message":"Internal Server Error"},"user_id":"ann"}`; w.Code != 500 || w.Body.String() != want {
		t.Errorf("got %d %s, want 500 %s", w.Code, w.Body, want)
	}
	entries := logged.FilterMessage("request failed").All()
	if len(entries) != 1 {
		t.Fatalf("got %d log entries, want one", len(entries))
	}
	fields := entries[0].ContextMap()
	if id := w.Header().Get("X-Request-Id"); id == "" || fields["request_id"] != id || fields["operation"] != "workspace_get" || fields["error"] != domain.ErrClosed.Error() {
		t.Errorf("logged %v, want the operation, the cause and the id %q of the answer", fields, id)
	}
}

// newBareHandler returns a handler over store without Caddy around it.
func newBareHandler(t testing.TB, store domain.Store) *Handler {
	t.Helper()
	h := &Handler{
		BasePath: defaultBasePath, MaxBodySize: defaultMaxBodySize, PresetCreators: creatorsManagement,
		logger: zap.NewNop(), service: domain.NewService(store), deadlines: deadline.Default,
		keys: map[domain.KeyHash]domain.Principal{
			domain.HashSecret(managementSecret): {KeyID: "k", UserID: "ann", Kind: domain.ManagementKey},
		},
	}
	h.finder = ownkeys.Finder{Own: h.keys}
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	h.schemas, h.router = schemas, newRouter(h.BasePath, h.routes(schemas), false)
	h.events = &events.Announcer{Wanted: func(string) bool { return false }}
	if h.metrics, err = metrics.New(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	if err := h.service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// serveBare sends a request with the management key to a bare handler.
func serveBare(t *testing.T, h *Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := caddyhttp.PrepareRequest(httptest.NewRequest(method, path, strings.NewReader(body)), caddy.NewReplacer(), w, new(caddyhttp.Server))
	r.Header.Set("Authorization", "Bearer "+managementSecret)
	if err := h.ServeHTTP(w, r, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// storePreset stores a version of a preset, and returns a new inference key.
func storePreset(tb testing.TB, h *Handler, slug string, c domain.Capture) (secret string) {
	tb.Helper()
	_, err := h.service.ReleasePresetVersion(tb.Context(), operator, "", slug, c, domain.Release{})
	if err == nil {
		_, secret, err = h.service.IssueKey(tb.Context(), operator, domain.NewKey{Kind: domain.InferenceKey})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return secret
}

// newInferringHandler returns a bare handler with the settings of inference.
func newInferringHandler(t testing.TB, store domain.Store, i *Inference) *Handler {
	t.Helper()
	h := newBareHandler(t, store)
	h.Inference = i
	if err := i.provision(store, domain.NewMemory(domain.DefaultMemory)); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestUnknownOutcome checks the answer to a change whose outcome is unknown.
func TestUnknownOutcome(t *testing.T) {
	store := openInMemory(t)
	h := newBareHandler(t, store)
	h.service = domain.NewService(&told{Store: store, err: fmt.Errorf("%w: the engine is away", domain.ErrUnknown)})
	w := serveBare(t, h, "POST", "/v1/presets/p/responses", `{"model":"m"}`)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "The change may have been made, or not") || strings.Contains(w.Body.String(), "engine") {
		t.Errorf("got %d %s, want 500 that says so", w.Code, w.Body)
	}
}
