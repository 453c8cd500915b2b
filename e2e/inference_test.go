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

// payloads returns the data of a stream's events, without the mark of its end.
func (s *service) payloads(t *testing.T, file, model string) []string {
	t.Helper()
	events, err := s.events(file, model)
	if err != nil {
		t.Fatal(err)
	}
	var payloads []string
	for _, event := range events {
		data := event[strings.LastIndex(event, "data: ")+len("data: "):]
		if data = strings.TrimSpace(data); data != "[DONE]" {
			payloads = append(payloads, data)
		}
	}
	if len(payloads) < 3 {
		t.Fatalf("testdata/%s/%s has %d events", s.flavour, file, len(payloads))
	}
	return payloads
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

// style is one way to refer to the preset copywriter, with the expected version and
// upstream request.
type style struct {
	name   string
	model  string // of the request, empty for none
	preset string // the request's preset field, empty for none
	runs   string
	header string // X-Preset of the answer
	v1     bool   // version 1 serves, else version 2
}

var styles = []style{
	{name: "direct", model: "@preset/copywriter", runs: "acme/large", header: "copywriter@2"},
	{name: "combined", model: "acme/other@preset/copywriter", runs: "acme/other", header: "copywriter@2"},
	{name: "field", preset: "copywriter", runs: "acme/large", header: "copywriter@2"},
	{name: "field and model", model: "acme/other", preset: "copywriter", runs: "acme/other", header: "copywriter@2"},
	{name: "field and reference", model: "acme/other@preset/copywriter", preset: "copywriter", runs: "acme/other", header: "copywriter@2"},
	{name: "direct, pinned", model: "@preset/copywriter@1", runs: "acme/small", header: "copywriter@1", v1: true},
	{name: "combined, pinned", model: "acme/other@preset/copywriter@1", runs: "acme/other", header: "copywriter@1", v1: true},
	{name: "field, pinned", preset: "copywriter@1", runs: "acme/small", header: "copywriter@1", v1: true},
	{name: "direct, labelled", model: "@preset/copywriter@staging", runs: "acme/small", header: "copywriter@1", v1: true},
	{name: "combined, labelled", model: "acme/other@preset/copywriter@staging", runs: "acme/other", header: "copywriter@1", v1: true},
	{name: "field, labelled", preset: "copywriter@staging", runs: "acme/small", header: "copywriter@1", v1: true},
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

// checkAnswer fails the test unless a client got the service's answer unchanged, with the
// preset's headers.
func checkAnswer(t *testing.T, response *http.Response, preset, dropped string) {
	t.Helper()
	if response == nil {
		t.Fatal("the client has no response")
	}
	for name, want := range map[string]string{
		"X-Preset": preset, "X-Preset-Dropped": dropped, "X-Request-Id": "req_of_the_service",
	} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("header %s of the answer: got %q, want %q", name, got, want)
		}
	}
}

// sseStream is the common interface of the clients' streams.
type sseStream interface {
	Next() bool
	Err() error
	Close() error
}

// readPaced reads a stream to its end, while the service pauses after each event. It
// compares each event's JSON with the sent event.
func readPaced(t *testing.T, s *service, stream sseStream, current func() string, want []string) {
	t.Helper()
	defer stream.Close()
	for i, event := range want {
		if i > 0 {
			if err := s.release(); err != nil {
				t.Fatalf("before event %d: %v", i, err)
			}
		}
		if !stream.Next() {
			t.Fatalf("event %d of %d did not arrive while the service paused behind it: %v", i, len(want), stream.Err())
		}
		if got := strings.TrimSpace(current()); got != event {
			t.Fatalf("event %d:\n got %s\nwant %s", i, got, event)
		}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() { // the end mark, if the service sends one
		select {
		case s.steps <- struct{}{}:
		case <-ended:
		}
	}()
	if stream.Next() {
		t.Fatalf("an event too many: %s", current())
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("at the end of the stream: %v", err)
	}
}

// image is a data URL of several MB.
func image(size int) (mediaType, data, url string) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := make([]byte, size/4*4)
	for i, x := 0, uint32(1); i < len(text); i++ {
		x = x*1664525 + 1013904223
		text[i] = letters[x>>26]
	}
	mediaType, data = "image/png", string(text)
	return mediaType, data, "data:" + mediaType + ";base64," + data
}

// dryRun has the fields of a dry run's answer that these tests read.
type dryRun struct {
	Data struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		Body   string `json:"body"`
		Fields map[string]struct {
			From    string  `json:"from"`
			Preset  *string `json:"preset"`
			Version *int    `json:"version"`
		} `json:"fields"`
		Dropped []string `json:"dropped"`
	} `json:"data"`
}

// checkDryRun compares a dry run with the request that went up without it.
func checkDryRun(t *testing.T, dry dryRun, sent received) {
	t.Helper()
	if dry.Data.Method != sent.Method || dry.Data.Path != sent.URI {
		t.Errorf("dry run: got %s %s, want %s %s", dry.Data.Method, dry.Data.Path, sent.Method, sent.URI)
	}
	if dry.Data.Body != sent.Body {
		t.Errorf("the body of the dry run is not what goes up:\n got %s\nwant %s", dry.Data.Body, sent.Body)
	}
	if f := dry.Data.Fields["temperature"]; f.From != "preset" || f.Preset == nil || *f.Preset != "copywriter" || f.Version == nil || *f.Version != 2 {
		t.Errorf("dry run: temperature comes from %+v, want version 2 of the preset", f)
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
