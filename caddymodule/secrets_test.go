package caddymodule

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(panicking{})
	httpcaddyfile.RegisterHandlerDirective("panicking", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return panicking{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("panicking", httpcaddyfile.Before, "reverse_proxy")
}

// panicking is a later handler that panics after it has read the request.
type panicking struct{}

func (panicking) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.panicking", New: func() caddy.Module { return panicking{} }}
}

func (panicking) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path == "/settle" {
		return next.ServeHTTP(w, r)
	}
	var body [100]byte
	_, _ = r.Body.Read(body[:])
	panic("of the tests")
}

// TestSecretsAreNowhere searches for secrets and prompts, after any outcome of a request,
// also a later handler's panic. They are in no log, metric, configuration or answer, and in
// no file that need not have them.
func TestSecretsAreNowhere(t *testing.T) {
	s := start(t, standard)
	site := s.site(limited("20 24h") + "\ninference")
	if err := s.load(site); err != nil {
		t.Fatal(err)
	}
	manager, caller := s.issue(`{"kind":"management"}`), s.issue(`{"kind":"inference"}`)
	revoked := s.issue(`{"kind":"inference"}`)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(t, 200)
	const prompt, guess = "a-prompt-of-the-tests", "a-guess-of-the-tests"
	secrets := map[string]string{
		"configured management key": managementSecret, "configured inference key": inferenceSecret, "issued management key": manager.secret,
		"issued inference key": caller.secret, "revoked key": revoked.secret, "guess": guess, "prompt": prompt,
	}
	var responses strings.Builder
	ask := func(method, path, body string) {
		for _, secret := range secrets {
			if secret == prompt {
				continue
			}
			everywhere := [][]string{{bearer(secret)}, {"Authorization: Basic " + secret}, {"X-Api-Key: " + secret}, {"Api-Key: " + secret}, {"X-Goog-Api-Key: key:" + secret}}
			if secret == guess { // Caddy logs other headers with foreign keys
				everywhere = everywhere[:2]
			}
			for _, headers := range everywhere {
				r := s.do(method, path, body, headers...)
				responses.WriteString(r.body)
				for name, values := range r.header {
					responses.WriteString(name + strings.Join(values, " "))
				}
			}
		}
	}
	everything := func() {
		ask("POST", chatPath, `{"model":"@preset/absent","messages":[{"role":"user","content":"`+prompt+`"}]}`)
		ask("POST", messagesPath, `{"model":"m","messages":["`+prompt+`"`)
		ask("POST", "/v1/presets/p/responses", `{"input":"`+prompt+`","temperature":"`+prompt+`"}`)
		ask("POST", "/v1/presets/p/responses", `{"input":"`+prompt+`"}`)
		ask("POST", responsesPath, `{"prompt":{"id":"absent","variables":{"x":"`+prompt+`"}}}`)
		ask("POST", responsesPath, `{"prompt":{"variables":{"x":["`+prompt+`"]}},"preset":"p"}`)
		ask("GET", "/v1/presets/p", "")
		ask("PUT", "/v1/presets/p/labels/x", `{"`+prompt+`":1,"version":"`+prompt+`"}`)
	}
	everything() // and beyond the limit from some point on
	if err := s.load(strings.Replace(site, "reverse_proxy "+s.upstream.Listener.Addr().String(), "reverse_proxy "+freeAddress(t), 1)); err != nil {
		t.Fatal(err)
	}
	everything()
	// The panic ends the connection.
	if err := s.load(strings.Replace(site, "reverse_proxy ", "panicking\nreverse_proxy ", 1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{chatPath, "/v1/embeddings"} {
		r := newRequest(t, "POST", s.url+path, strings.NewReader(`{"model":"m","input":"`+prompt+`"}`), bearer(caller.secret), "X-Api-Key: "+caller.secret)
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			response.Body.Close()
			t.Errorf("%s: got %d, want a panic", path, response.StatusCode)
		}
	}
	if !s.eventually(func() bool { return strings.Count(s.logs(), ": of the tests") == 2 }) {
		t.Fatal("the log does not tell of the panics")
	}

	places := map[string]string{
		"the answers": responses.String(), "the log": s.logs(),
		"the metrics":       send(t, "GET", "http://"+s.admin+"/metrics", "").body,
		"the configuration": send(t, "GET", "http://"+s.admin+"/config/", "").body,
		"the list of keys":  send(t, "GET", "http://"+s.admin+"/presets/keys", "").body,
		"the audit trail":   send(t, "GET", "http://"+s.admin+"/presets/audit", "").body,
	}
	var stored bytes.Buffer
	if err := filepath.WalkDir(s.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		stored.Write(text)
		if errors.Is(err, fs.ErrNotExist) { // an open store removes files
			return nil
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	places["the store"] = stored.String()
	for place, mark := range map[string]string{ // the place is as intended
		"the answers": "Rate limit exceeded", "the log": "handled request", "the metrics": "caddy_presets_auth_failures_total", "the configuration": sha256Of(managementSecret),
		"the list of keys": manager.id, "the audit trail": "key.create", "the store": manager.id,
	} {
		if !strings.Contains(places[place], mark) {
			t.Errorf("%s: does not hold %s: %.300q", place, mark, places[place])
		}
	}
	for place, text := range places {
		for name, secret := range secrets {
			if strings.Contains(text, secret) {
				at := strings.Index(text, secret)
				t.Errorf("%s: holds the %s: %q", place, name, text[max(0, at-200):at])
			}
		}
	}
}
