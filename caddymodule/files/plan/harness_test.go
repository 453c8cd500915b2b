package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	_ "github.com/caddy-presets/caddy-presets/caddymodule"
	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }

// server is a test server, with a folder of files.
type server struct {
	*caddytest.Server
	dir string
}

func start(t *testing.T) *server {
	t.Helper()
	return &server{caddytest.Start(t, caddytest.Standard), t.TempDir()}
}

// transport returns a transport to the server.
func (s *server) transport() http.RoundTripper {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 16,
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return caddytest.Dial(ctx, s.Address) },
	}
	s.T.Cleanup(transport.CloseIdleConnections)
	return transport
}

// client returns a client of the server, through a transport of its own.
func (s *server) client(through http.RoundTripper) *client.Client {
	return &client.Client{Origin: "http://presets.test", Key: caddytest.ManagementSecret, Transport: through}
}

// write writes files below the folder, by their names. An empty text removes one.
func (s *server) write(texts map[string]string) {
	s.T.Helper()
	caddytest.WriteFiles(s.T, s.dir, texts)
}

// read reads the folder.
func (s *server) read() *files.Set {
	s.T.Helper()
	set, err := files.Read(s.dir)
	if err != nil {
		s.T.Fatal(err)
	}
	return set
}

// plan plans the folder.
func (s *server) plan(o plan.Options) *plan.Plan {
	s.T.Helper()
	if o.Owner == "" {
		o.Owner = "files"
	}
	p, err := plan.New(s.T.Context(), s.client(s.transport()), s.read(), o)
	if err != nil {
		s.T.Fatal(err)
	}
	return p
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// planThrough plans the folder. send sends each request of the plan and of its application.
func (s *server) planThrough(send func(through http.RoundTripper, r *http.Request) (*http.Response, error)) *plan.Plan {
	s.T.Helper()
	p, err := s.tryPlanThrough(send)
	if err != nil {
		s.T.Fatal(err)
	}
	return p
}

func (s *server) tryPlanThrough(send func(through http.RoundTripper, r *http.Request) (*http.Response, error)) (*plan.Plan, error) {
	through := s.transport()
	c := s.client(roundTrip(func(r *http.Request) (*http.Response, error) { return send(through, r) }))
	return plan.New(s.T.Context(), c, s.read(), plan.Options{Owner: "files"})
}

// forbidden is a response that no repetition changes.
func forbidden() (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody}, nil
}

// applyWithFailure applies a plan, of which one change fails.
func (s *server) applyWithFailure(p *plan.Plan) plan.Failure {
	s.T.Helper()
	result, err := p.Apply(s.T.Context(), "")
	if err != nil || len(result.Failed) != 1 {
		s.T.Fatalf("got %+v, %v, want one failure", result, err)
	}
	return result.Failed[0]
}

// apply plans and applies the folder, and checks that another plan is then empty.
func (s *server) apply(o plan.Options) plan.Result {
	s.T.Helper()
	result, err := s.plan(o).Apply(s.T.Context(), "test")
	if err != nil || len(result.Failed) > 0 {
		s.T.Fatalf("apply: %v, failed: %+v", err, result.Failed)
	}
	if again := s.plan(o); !again.IsEmpty() || len(again.Adopt) > 0 {
		s.T.Fatalf("another plan after applying: %s", describe(again))
	}
	return result
}

// describe returns the JSON of a plan.
func describe(p *plan.Plan) string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// actions returns the changes of a plan, such as "change default/mail".
func actions(p *plan.Plan) string {
	var all []string
	for _, w := range p.Workspaces {
		all = append(all, fmt.Sprintf("%s %s", w.Action, w.Slug))
	}
	for _, c := range p.Changes {
		text := fmt.Sprintf("%s %s/%s", c.Action, c.Workspace, c.Slug)
		if c.Drift {
			text += " drift"
		}
		all = append(all, text)
	}
	for _, a := range p.Adopt {
		all = append(all, fmt.Sprintf("adopt %s/%s", a.Workspace, a.Slug))
	}
	for _, problem := range p.Notes {
		all = append(all, fmt.Sprintf("note %s/%s", problem.Workspace, problem.Slug))
	}
	for _, problem := range p.Errors {
		all = append(all, fmt.Sprintf("error %s/%s", problem.Workspace, problem.Slug))
	}
	return strings.Join(all, ", ")
}

// versions returns how many versions a preset has.
func (s *server) versions(workspace, slug string) int {
	s.T.Helper()
	r := s.Manage("GET", "/v1/presets/"+slug+"/versions?fields=summary&limit=100&workspace_id="+workspace, "")
	var response struct {
		Total int `json:"total_count"`
	}
	if err := json.Unmarshal([]byte(r.Body), &response); err != nil || r.Status != 200 {
		s.T.Fatalf("versions of %s: %d %s", slug, r.Status, r.Body)
	}
	return response.Total
}
