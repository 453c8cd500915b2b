package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// patience is how long a test waits for an immediate event. It only ends what hangs.
const patience = wait.Limit

// service is an AI service behind Caddy. It records its requests, and answers like a real
// service with the files of testdata. A stream pauses after each event until the test
// releases it.
type service struct {
	flavour string // the folder in testdata
	server  *httptest.Server
	steps   chan struct{} // each lets a stream send its next event
	left    chan struct{} // one for each client that left in a stream

	mu       sync.Mutex
	requests []received
}

// received is a request as it reached the service.
type received struct {
	Method string      `json:"method"`
	URI    string      `json:"uri"` // the path with the query
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

// overloaded is a model for which the service answers with an error.
const overloaded = "acme/overloaded"

// unstreamed is a model that calls a tool, and does not stream.
const unstreamed = "acme/unstreamed"

// streams are the models whose streams are not like those of the others.
var streams = map[string]string{"acme/tools": ".tools", "acme/refused": ".refused", "acme/cut": ".cut", "acme/empty": ".empty"}

// overloadedStatus is the status of that error at each service.
var overloadedStatus = map[string]int{
	"openai": http.StatusTooManyRequests, "anthropic": 529, "openrouter": http.StatusBadGateway,
}

func newService(t *testing.T, flavour string) *service {
	t.Helper()
	s := &service{flavour: flavour, steps: make(chan struct{}), left: make(chan struct{}, 16)}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

// directives returns the directives of a site whose gateway is s.
func (s *service) directives() string {
	return `reverse_proxy ` + s.server.Listener.Addr().String() + ` {
		header_up Authorization "Bearer {env.E2E_GATEWAY_KEY}"
	}`
}

// ServeHTTP answers a request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, received{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
	s.mu.Unlock()

	name := path.Base(r.URL.Path)
	if name == "completions" {
		name = "chat"
	}
	var sent struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []any  `json:"tools"`
		Text   struct {
			Format struct {
				Type string `json:"type"`
			} `json:"format"`
		} `json:"text"` // of POST /responses
	}
	_ = json.Unmarshal(body, &sent)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "req_of_the_service") // OpenAI's
	w.Header().Set("Request-Id", "req_of_the_service")   // Anthropic's
	switch {
	case sent.Model == overloaded:
		w.WriteHeader(overloadedStatus[s.flavour])
		s.send(w, "error.json", sent.Model)
	case sent.Stream && sent.Model == unstreamed:
		s.send(w, name+".tools.json", sent.Model)
	case sent.Stream:
		s.stream(w, r, name+streams[sent.Model]+".sse", sent.Model)
	case len(sent.Tools) > 0:
		s.send(w, name+".tools.json", sent.Model)
	case sent.Text.Format.Type == "json_schema":
		s.send(w, name+".schema.json", sent.Model)
	default:
		s.send(w, name+".json", sent.Model)
	}
}

func (s *service) send(w io.Writer, file, model string) {
	text, err := s.file(file, model)
	if err != nil {
		text = err.Error() // no client can parse it
	}
	_, _ = io.WriteString(w, text)
}

// file returns an answer of the service, with model as the model that ran.
func (s *service) file(name, model string) (string, error) {
	text, err := os.ReadFile(filepath.Join("testdata", s.flavour, name))
	return strings.ReplaceAll(string(text), "{{model}}", model), err
}

func (s *service) stream(w http.ResponseWriter, r *http.Request, file, model string) {
	events, err := s.events(file, model)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	for i, event := range events {
		if i > 0 {
			select {
			case <-s.steps:
			case <-r.Context().Done():
				select {
				case s.left <- struct{}{}:
				default: // the test does not wait for it
				}
				return
			}
		}
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
	}
}

// events returns the events of a stream. Pings and comments, which clients do not report,
// belong to the event after them.
func (s *service) events(file, model string) ([]string, error) {
	text, err := s.file(file, model)
	if err != nil {
		return nil, err
	}
	var events []string
	hidden := ""
	for _, event := range strings.SplitAfter(text, "\n\n") {
		switch {
		case event == "":
		case strings.HasPrefix(event, ":"), strings.HasPrefix(event, "event: ping\n"):
			hidden += event
		default:
			events = append(events, hidden+event)
			hidden = ""
		}
	}
	return events, nil
}

// release lets the stream that is under way send its next event.
func (s *service) release() error {
	select {
	case s.steps <- struct{}{}:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("no stream was waiting at the service within %v", patience)
	}
}

// hungUp waits until a client has left in the middle of a stream.
func (s *service) hungUp() error {
	select {
	case <-s.left:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the service's request did not end within %v of the client's", patience)
	}
}

// last returns the latest request and how many there were.
func (s *service) last() (r received, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if count = len(s.requests); count > 0 {
		r = s.requests[count-1]
	}
	return r, count
}

// checkSecrets fails the test if a request showed the service a secret of ours, or lacked
// the operator's credentials.
func (s *service) checkSecrets(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Error("nothing reached the service")
	}
	for _, r := range s.requests {
		what := r.Method + " " + r.URI
		if got := r.Header.Values("Authorization"); !reflect.DeepEqual(got, []string{"Bearer " + gatewayKey}) {
			t.Errorf("%s: the service got %d Authorization headers, want the operator's alone", what, len(got))
		}
		if got := r.Header.Values("X-Api-Key"); len(got) > 0 {
			t.Errorf("%s: the service got %d X-Api-Key headers, want none", what, len(got))
		}
		all, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{inferenceKey, managementKey, "caddypresets_"} {
			if bytes.Contains(all, []byte(secret)) {
				t.Errorf("%s: the service got a secret of ours", what)
			}
		}
	}
}

// control lets the clients in other languages direct the service and read its requests.
func (s *service) control(t *testing.T) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
		}
	}
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.release()) })
	mux.HandleFunc("POST /hung-up", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.hungUp()) })
	mux.HandleFunc("GET /last", func(w http.ResponseWriter, _ *http.Request) {
		last, count := s.last()
		_ = json.NewEncoder(w).Encode(struct {
			Count int      `json:"count"`
			Last  received `json:"last"`
		}{count, last})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// The presets of these tests, captured from requests to /responses.
const (
	copywriterV1 = `{"model": "acme/small", "instructions": "Be brief.", "temperature": 0.1}`
	copywriterV2 = `{"model": "acme/large", "instructions": "You are a copywriter.", "temperature": 0.2,
		"max_output_tokens": 512, "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}`
	assistantV1 = `{"model": "acme/large", "instructions": "Use the tools.", "tool_choice": "required", "tools": [
		{"type": "function", "name": "find_customer", "description": "Finds a customer.", "strict": true,
		 "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false}},
		{"type": "function", "name": "send_mail", "description": "The preset's.", "parameters": {"type": "object"}}]}`
)

// makePresets stores the presets copywriter and assistant. copywriter has two versions.
// The label staging points to the first one.
func (s *server) makePresets(t *testing.T) {
	t.Helper()
	for _, preset := range []struct{ slug, body string }{
		{"copywriter", copywriterV1}, {"copywriter", copywriterV2}, {"assistant", assistantV1},
	} {
		if status, answer := s.post(t, "/v1/presets/"+preset.slug+"/responses", managementKey, preset.body); status != http.StatusOK {
			t.Fatalf("preset %s: got %d %s, want 200", preset.slug, status, answer)
		}
	}
	s.manage(t, http.MethodPut, "/v1/presets/copywriter/labels/staging", `{"version": 1}`)
}

// deadline returns a context for steps that should end at once.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx := wait.Context(t)
	return ctx
}

// checkJSON fails the test unless two JSON texts are equal. Numbers are compared as text.
func checkJSON(t *testing.T, what, got, want string) {
	t.Helper()
	decode := func(text string) (value any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v\n%.2000s", what, err, text)
		}
		return value
	}
	if !reflect.DeepEqual(decode(got), decode(want)) {
		t.Errorf("%s:\n got %.4000s\nwant %.4000s", what, got, want)
	}
}

// member returns the JSON of a top-level field.
func member(t *testing.T, body, name string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	if fields[name] == nil {
		t.Fatalf("%s is not in %.2000s", name, body)
	}
	return string(fields[name])
}
