package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	_ "github.com/caddy-presets/caddy-presets/caddymodule"
	"github.com/caddy-presets/caddy-presets/caddymodule/cli"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { caddytest.Main(m) }

// server is the real Caddy with a gateway behind it. Commands reach it at an origin.
type server struct {
	*caddytest.Server
	origin string
	// intercept answers a request in the place of the server, if it is set and returns true.
	intercept atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

// start runs the server until the test ends. It sets the variables of the environment with
// its origin and its keys. gateway may be nil for one that echoes.
func start(t *testing.T, gateway http.HandlerFunc) *server {
	t.Helper()
	if gateway == nil {
		gateway = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, r.Body)
		}
	}
	s := &server{Server: caddytest.Start(t, caddytest.Standard)}
	s.Upstream = httptest.NewServer(gateway)
	t.Cleanup(s.Upstream.Close)
	s.Reload(caddytest.Standard + "\ninference\n")
	s.origin = s.front(t, s.Address)
	t.Setenv("PRESETS_SERVER", s.origin)
	t.Setenv("PRESETS_KEY", caddytest.ManagementSecret)
	t.Setenv("PRESETS_INFERENCE_KEY", caddytest.InferenceSecret)
	return s
}

// front makes a Unix socket reachable at an origin.
func (s *server) front(t *testing.T, address string) string {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "presets"}) },
		Transport:     &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return caddytest.Dial(ctx, address) }},
		FlushInterval: -1,
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // or an early answer ends the request's body
		if intercept := s.intercept.Load(); intercept == nil || !(*intercept)(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		front.Close()
		proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	return front.URL
}

// before calls do before each request, until the test ends. If do returns true, it has
// answered.
func (s *server) before(do func(http.ResponseWriter, *http.Request) bool) { s.intercept.Store(&do) }

// run runs "caddy presets ..." with nothing on standard input.
func run(args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	err = runTo(&stdout, &stderr, strings.NewReader(""), append([]string{"presets"}, args...)...)
	return stdout.String(), stderr.String(), err
}

// runTo runs "caddy ..." with streams.
func runTo(stdout, stderr io.Writer, stdin io.Reader, args ...string) error {
	presets := &cobra.Command{Use: "presets"}
	presets.AddGroup(cli.Groups()...)
	presets.AddCommand(cli.Commands()...)
	caddy := &cobra.Command{Use: "caddy", SilenceUsage: true, SilenceErrors: true}
	caddy.AddCommand(presets)
	caddy.SetArgs(args)
	caddy.SetIn(stdin)
	caddy.SetOut(stdout)
	caddy.SetErr(stderr)
	return caddy.Execute()
}

// mustRun is run of a command that succeeds.
func mustRun(t *testing.T, args ...string) (out string) {
	t.Helper()
	out, errOut, err := run(args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errOut)
	}
	return out
}

// wantError runs a command that fails with a text, and prints no key.
func wantError(t *testing.T, want string, args ...string) {
	t.Helper()
	out, errOut, err := run(args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v: got %q, %v, want an error with %q", args, out, err, want)
		return
	}
	for _, key := range []string{caddytest.ManagementSecret, caddytest.InferenceSecret} {
		if strings.Contains(out+errOut+err.Error(), key) {
			t.Errorf("%v: a key is shown", args)
		}
	}
}

// fill makes presets that have all there is to show.
func (s *server) fill() {
	s.T.Helper()
	const mail = "/v1/presets/email-copywriter"
	for _, r := range [][3]string{
		{"POST", mail + "/responses", `{"model":"openai/gpt-5","temperature":1.0,"instructions":"Write emails."}`},
		{"POST", mail + "/responses?message=shorter", `{"model":"openai/gpt-5-mini","temperature":0.70,"instructions":"Write short emails.\nBe friendly.\n"}`},
		{"POST", mail + "/responses?designate=false&label=staging", `{"model":"openai/gpt-5-mini","instructions":"Write short emails.\nBe very friendly.\n","tools":[{"type":"web_search"}]}`},
		{"PUT", mail + "/labels/canary", `{"split":[{"version":2,"weight":90},{"version":3,"weight":10}]}`},
		{"PATCH", mail, `{"description":"Used by the newsletter","policy":{"lock":["model"]}}`},
		{"POST", "/v1/presets/summary/chat/completions", `{"model":"acme/large","messages":[{"role":"system","content":"Sum up."}]}`},
		{"PATCH", "/v1/presets/summary", `{"managed_by":"files"}`},
		{"POST", "/v1/presets/tour-guide/messages?template=true", `{"model":"acme/large","max_tokens":100,"system":"You know {{city}}.","messages":[{"role":"user","content":"Name three sights in {{city}}."}]}`},
		{"POST", "/v1/presets/old/responses", `{"model":"acme/small"}`},
		{"PATCH", "/v1/presets/old", `{"status":"disabled"}`},
		{"POST", "/v1/workspaces", caddytest.Workspace},
	} {
		if got := s.Manage(r[0], r[1], r[2]); got.Status > 201 {
			s.T.Fatalf("%v: got %d %s", r, got.Status, got.Body)
		}
	}
}

var (
	times   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	elapsed = regexp.MustCompile(`\d+\.\d\d s`)
)

// normal replaces what differs between runs.
func (s *server) normal(text string) string {
	text = strings.ReplaceAll(text, s.origin, "http://127.0.0.1:8080")
	text = times.ReplaceAllString(text, "2026-11-25T08:30:00Z")
	text = uuids.ReplaceAllString(text, "<uuid>")
	return elapsed.ReplaceAllString(text, "0.12 s")
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	caddytest.Golden(t, file, text, *update)
}

// data decodes JSON that a command prints.
func data[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// session runs commands, and returns them with all that they print.
func (s *server) session(commands ...[]string) string {
	var text strings.Builder
	for _, args := range commands {
		out, errOut, err := run(args...)
		fmt.Fprintf(&text, "$ caddy presets %s\n%s%s", strings.Join(args, " "), out, errOut)
		if err != nil {
			fmt.Fprintf(&text, "Error: %v\n", err)
		}
		text.WriteByte('\n')
	}
	return s.normal(text.String())
}
