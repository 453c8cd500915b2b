package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/events"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

const webhookSecret = "webhook-secret-of-the-tests"

// receiver is a real receiver of webhooks.
type receiver struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	// status answers a request. If it is 0 or 2xx, the event is taken.
	status func(slug string) int
	// secret, if set, must have signed a request. Others get 503.
	secret string
	taken  []hook
	asked  int
}

// hook is a request that a receiver took.
type hook struct {
	header http.Header
	body   string
	ID     string
	Type   string
	Time   time.Time
	Data   map[string]any
}

// receives starts a receiver with a webhook's secret in the environment. Call it before start:
// a server takes the limits of its webhooks then.
func receives(t *testing.T) *receiver {
	t.Helper()
	t.Setenv("PRESETS_WEBHOOK", webhookSecret)
	usual := webhookLimits
	webhookLimits.First, webhookLimits.Longest, webhookLimits.Tries = time.Millisecond, 50*time.Millisecond, 1_000_000
	t.Cleanup(func() { webhookLimits = usual })
	r := &receiver{t: t, status: func(string) int { return 200 }}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	h := hook{header: request.Header.Clone(), body: string(body)}
	if err != nil || json.Unmarshal(body, &h) != nil || request.Method != "POST" {
		r.t.Errorf("got %s %s, %v", request.Method, body, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	status := r.status(fmt.Sprint(h.Data["slug"]))
	if r.secret != "" && !h.isSigned(r.secret) {
		status = http.StatusServiceUnavailable
	}
	if status/100 == 2 {
		r.taken = append(r.taken, h)
	}
	w.WriteHeader(status)
}

// answers sets the status of the answers.
func (r *receiver) answers(status func(slug string) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// takesOnly refuses requests that another secret signed.
func (r *receiver) takesOnly(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = secret
}

// await returns the taken requests as soon as there are n, and fails without them.
func (r *receiver) await(n int) (all []hook) {
	r.t.Helper()
	if !wait.Eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		all = slices.Clone(r.taken)
		return len(all) >= n
	}) {
		r.t.Fatalf("the receiver took %d events, want %d", len(all), n)
	}
	return all
}

// requests returns how many requests were made, also in vain.
func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// directive returns the receiver's subdirective.
func (r *receiver) directive() string {
	return fmt.Sprintf("\nwebhook %s/token-of-the-tests {\nsecret {env.PRESETS_WEBHOOK}\n}", r.URL)
}

// wantSigned checks the signature of a request.
func (h hook) wantSigned(t *testing.T, secret string) {
	t.Helper()
	got := h.header.Get("X-Presets-Signature")
	var at int64
	if _, err := fmt.Sscanf(got, "t=%d,v1=", &at); err != nil {
		t.Fatalf("got signature %q: %v", got, err)
	}
	if age := time.Since(time.Unix(at, 0)); age < -time.Second || age > time.Minute {
		t.Errorf("got a signature of %v ago", age)
	}
	if !h.isSigned(secret) {
		t.Errorf("got signature %s, which the newest secret did not make", got)
	}
}

// isSigned reports whether a secret signed the request.
func (h hook) isSigned(secret string) bool {
	got := h.header.Get("X-Presets-Signature")
	var at int64
	_, err := fmt.Sscanf(got, "t=%d,v1=", &at)
	return err == nil && got == webhook.Sign([]byte(secret), time.Unix(at, 0), []byte(h.body))
}

// TestSignature checks a signature that openssl made.
func TestSignature(t *testing.T) {
	// printf '%s.%s' 1767225600 '{"id":"1"}' | openssl dgst -sha256 -hmac webhook-secret-of-the-tests
	const want = "t=1767225600,v1=1d144f77571d36984d116baa16b16668c8f508f9e3866690aaf2666d16bff35e"
	if got := webhook.Sign([]byte(webhookSecret), time.Unix(1767225600, 999), []byte(`{"id":"1"}`)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDocumentedSignature runs the command of the documents that computes a signature.
func TestDocumentedSignature(t *testing.T) {
	for _, tool := range []string{"sh", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	_, command, found := strings.Cut(eventsDocument(t), "```console\n$ { printf")
	command, _, ended := strings.Cut("{ printf"+command, "\n```")
	if !found || !ended {
		t.Fatal("docs/events.md has no such command")
	}
	const body = `{"id":"1","data":{"slug":"é %s \n"}}`
	run := exec.Command("sh", "-c", command)
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "t=1767225600", "SECRET="+webhookSecret)
	if err := os.WriteFile(filepath.Join(run.Dir, "body.json"), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run.CombinedOutput()
	_, want, _ := strings.Cut(webhook.Sign([]byte(webhookSecret), time.Unix(1767225600, 0), []byte(body)), "v1=")
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%s gives %s, %v, want %s", command, out, err, want)
	}
}

// eventsDocument returns the document of events.
func eventsDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentedEvents checks that the document's table has all events, and no other.
func TestDocumentedEvents(t *testing.T) {
	text := eventsDocument(t)
	for operation, kind := range events.Types {
		if row := fmt.Sprintf("| `%s` | `%s` |", kind, operation); strings.Count(text, row) != 1 {
			t.Errorf("the document has no row %s", row)
		}
	}
	if rows := strings.Count(text, "\n| `preset.") + strings.Count(text, "\n| `workspace.") + strings.Count(text, "\n| `key."); rows != len(events.Types) {
		t.Errorf("the document has %d events, want %d", rows, len(events.Types))
	}
}

// TestDocumentedLog checks that the documented log of stock Caddy has the events.
func TestDocumentedLog(t *testing.T) {
	_, block, _ := strings.Cut(eventsDocument(t), "```\nlog presets_events")
	block, _, found := strings.Cut("log presets_events"+block, "```")
	const output = "/var/log/caddy/events.log"
	if !found || !strings.Contains(block, output) {
		t.Fatal("docs/events.md has no such log")
	}
	s := start(t, standard)
	file := filepath.Join(t.TempDir(), "events.log")
	s.options = strings.Replace(block, output, file, 1)
	s.reload(standard)
	s.manage("POST", "/v1/presets/p/responses", `{"instructions":"PROMPT-of-the-team"}`).want(t, 200)
	if !s.eventually(func() bool {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			var entry struct {
				Name string
				Data map[string]any
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Name == "presets.version_created" && entry.Data["slug"] == "p" {
				return !strings.Contains(string(text), "PROMPT-of-the-team") && !strings.Contains(string(text), managementSecret)
			}
		}
		return false
	}) {
		t.Error("the log does not have the event alone")
	}
}

// TestWebhook checks what a receiver gets of each change: one signed request, without keys,
// prompts and settings. All receivers get it.
func TestWebhook(t *testing.T) {
	r, other := receives(t), receives(t)
	s := start(t, standard+r.directive()+other.directive())
	const prompt, setting = "PROMPT-of-the-team", "MODEL-of-the-team"
	s.manage("POST", "/v1/presets/p/responses?label=l", fmt.Sprintf(`{"instructions":%q,"model":%q,"input":"i"}`, prompt, setting)).want(t, 200)
	s.manage("PUT", "/v1/presets/p/labels/l", `{"split":[{"version":1,"weight":1}]}`).want(t, 200)
	s.manage("DELETE", "/v1/presets/p", "").want(t, 200)
	s.manage("POST", "/v1/workspaces", `{"name":"n","slug":"w"}`).want(t, 201)
	for _, to := range []*receiver{r, other} {
		types, ids := []string{}, map[string]bool{}
		for _, h := range to.await(5) {
			h.wantSigned(t, webhookSecret)
			types = append(types, h.Type)
			ids[h.ID] = true
			if got := h.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("got Content-Type %s", got)
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal([]byte(h.body), &members); err != nil || len(members) != 4 || !uuids.MatchString(h.ID) || time.Since(h.Time) > time.Hour || len(h.Data) != 18 || h.Data["user_id"] != "ann" {
				t.Errorf("got %s, %v", h.body, err)
			}
			for _, secret := range []string{prompt, setting, managementSecret, webhookSecret} {
				if strings.Contains(h.body+fmt.Sprint(h.header), secret) {
					t.Errorf("the request has %s", secret)
				}
			}
		}
		if len(ids) != 5 {
			t.Errorf("got ids %v", ids)
		}
		ofPreset := slices.DeleteFunc(slices.Clone(types), func(kind string) bool { return kind == "workspace.created" })
		if want := []string{"preset.version_created", "preset.label_set", "preset.label_split", "preset.archived"}; !slices.Equal(ofPreset, want) || len(types) != 5 {
			t.Errorf("got %q, want %q and a workspace", types, want)
		}
	}
	s.awaitMetric(`caddy_presets_webhook_requests_total{result="delivered"}`, "10")
}

// TestWebhookSecretIsNowhere checks that no log has a webhook's secret or its path, at any
// level. No configuration and no metric has its secret.
func TestWebhookSecretIsNowhere(t *testing.T) {
	r := receives(t)
	s := start(t, standard+r.directive())
	var mu sync.Mutex
	tries := 0
	r.answers(func(string) int {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries < 3 {
			return 500
		}
		return 200
	})
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	r.await(1)
	r.Close()
	s.manage("POST", "/v1/presets/q/responses", `{}`).want(t, 200)
	if !s.eventually(func() bool { return strings.Contains(s.logs(), "connection refused") }) {
		t.Error("no failed request is logged")
	}
	config := send(t, "GET", "http://"+s.admin+"/config/", "").body
	if !strings.Contains(config, "{env.PRESETS_WEBHOOK}") {
		t.Errorf("got %s", config)
	}
	for place, text := range map[string]string{"log": s.logs(), "configuration": config, "metrics": send(t, "GET", "http://"+s.admin+"/metrics", "").body} {
		if strings.Contains(text, webhookSecret) {
			t.Errorf("the %s has the secret", place)
		}
	}
	for line := range strings.Lines(s.logs()) {
		// Caddy logs its configuration itself.
		if strings.Contains(line, "token-of-the-tests") && strings.Contains(line, "http.handlers.presets") && !strings.Contains(line, `"handle":`) {
			t.Errorf("the log has the path of the webhook: %s", line)
		}
	}
}

// TestWebhookSurvivesReloads checks that events that wait are sent once, after any number of
// reloads, and signed with the newest secret. A rejected configuration changes nothing.
func TestWebhookSurvivesReloads(t *testing.T) {
	r := receives(t)
	s := start(t, standard+r.directive())
	r.answers(func(string) int { return 503 })
	const presets, changes = 5, 4
	for n := range presets * changes {
		s.manage("POST", fmt.Sprintf("/v1/presets/p%d/responses", n%presets), `{}`).want(t, 200)
	}
	if !s.eventually(func() bool { return r.requests() > presets }) {
		t.Fatal("nothing is repeated")
	}
	t.Setenv("PRESETS_WEBHOOK", "another-secret-of-the-tests")
	for range 3 {
		s.reload(standard + r.directive())
	}
	t.Setenv("PRESETS_WEBHOOK", "rejected-secret-of-the-tests")
	if err := s.load(s.site(standard+r.directive()) + s.site("base_path /{")); err == nil {
		t.Fatal("the configuration is taken")
	}
	if took := r.await(0); len(took) != 0 {
		t.Errorf("took %d, want none so far", len(took))
	}
	// A request that the old secret signed may still be on its way.
	r.takesOnly("another-secret-of-the-tests")
	r.answers(func(string) int { return 200 })
	all := r.await(presets * changes)
	s.manage("POST", "/v1/presets/end/responses", `{}`).want(t, 200)
	all = r.await(len(all) + 1)
	if len(all) != presets*changes+1 {
		t.Errorf("took %d events, want %d", len(all), presets*changes+1)
	}
	next := map[any]float64{}
	for _, h := range all {
		h.wantSigned(t, "another-secret-of-the-tests")
		if version := h.Data["version"].(float64); version != next[h.Data["slug"]]+1 {
			t.Errorf("got version %v of %v after %v", version, h.Data["slug"], next[h.Data["slug"]])
		}
		next[h.Data["slug"]]++
	}
}

// TestRemovedWebhook checks that a removed webhook gets what waits, and nothing new. Sites
// with one store share their webhooks.
func TestRemovedWebhook(t *testing.T) {
	r := receives(t)
	s := start(t, standard+r.directive())
	r.answers(func(string) int { return 500 })
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	if !s.eventually(func() bool { return r.requests() > 0 }) {
		t.Fatal("nothing is sent")
	}
	s.reload(standard)
	r.answers(func(string) int { return 200 })
	r.await(1)
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	// Another site of the store has the webhook.
	other := freeAddress(t)
	if err := s.load(s.site(standard) + s.siteAt(other, s.presets(standard+r.directive()))); err != nil {
		t.Fatal(err)
	}
	s.manage("POST", "/v1/presets/p/responses", `{}`).want(t, 200)
	if all := r.await(2); len(all) != 2 || all[1].Data["version"] != 3. {
		t.Errorf("got %v", all)
	}
}
