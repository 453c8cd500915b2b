//go:build faults

package faults

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestCanaries sends keys and prompts everywhere with logs at DEBUG, and searches all of
// the server's output for them. Keys appear nowhere. Prompts appear only in answers and in
// the store, unless the store is encrypted.
func TestCanaries(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "encrypted"}[encrypted], func(t *testing.T) { seekCanaries(t, encrypted) })
	}
}

// canary is a text, and the places where it may appear.
type canary struct {
	name, text string
	stored     bool // in a store that is not encrypted
	uri        bool // in the logs: it was in a URI
	control    bool // in the logs
}

// forms returns the encodings of a text.
func (c canary) forms() map[string][]byte {
	forms := map[string][]byte{
		"as it is": []byte(c.text), "in hexadecimal": []byte(hex.EncodeToString([]byte(c.text))),
		"in upper hexadecimal": []byte(strings.ToUpper(hex.EncodeToString([]byte(c.text)))),
		"escaped":              []byte(url.QueryEscape(c.text)),
	}
	// Base64 has three forms of a text: after zero, one or two bytes. Characters that
	// depend on neighbours are left out.
	for before := range 3 {
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + c.text))
		forms[fmt.Sprintf("in base64 after %d", before)] = []byte(whole[4 : len(whole)-4])
	}
	return forms
}

// canarySet is all canaries.
type canarySet struct {
	t   *testing.T
	all []*canary
}

// add makes a canary. Its caller sets the places where it may appear.
func (a *canarySet) add(name string) *canary {
	a.t.Helper()
	random := make([]byte, 12)
	if _, err := rand.Read(random); err != nil {
		a.t.Fatal(err)
	}
	return a.adopt(name, fmt.Sprintf("canary-%s-%x", strings.ReplaceAll(name, " ", "-"), random))
}

func (a *canarySet) adopt(name, text string) *canary {
	c := &canary{name: name, text: text}
	a.all = append(a.all, c)
	return c
}

// seek searches the content of a place for all canaries. It returns how many were found
// where they may appear.
func (a *canarySet) seek(place string, text []byte, isAllowed func(canary) bool) (found int) {
	a.t.Helper()
	for _, c := range a.all {
		for form, want := range c.forms() {
			at := bytes.Index(text, want)
			switch {
			case at < 0:
			case isAllowed(*c):
				found++
			default:
				a.t.Errorf("%s has canary %q %s: …%q…", place, c.name, form, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	return found
}

func seekCanaries(t *testing.T, encrypted bool) {
	begun := time.Now()
	canaries := &canarySet{t: t}
	keyOf := map[string]*canary{}
	for _, name := range []string{"management env", "management file", "inference env", "inference file", "gateway", "wrong"} {
		keyOf[name] = canaries.add(name)
	}
	keyOf["management literal"] = canaries.adopt("management literal", managementKey)
	keyOf["inference literal"] = canaries.adopt("inference literal", inferenceKey)

	s := newServer(t, options{
		global: "debug\nmetrics\nlog {\nformat filter {\nrequest>headers>X-Api-Key delete\n}\n}",
		env: []string{
			"CANARY_MANAGEMENT=" + keyOf["management env"].text, "CANARY_INFERENCE=" + keyOf["inference env"].text,
			"CANARY_GATEWAY=" + keyOf["gateway"].text, "GOTRACEBACK=all",
		},
	})
	file := func(name, text string) string {
		path := filepath.Join(s.home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.ToSlash(path)
	}
	s.options.presets = fmt.Sprintf("management_key {env.CANARY_MANAGEMENT}\nmanagement_key {file.%s}\ninference_key {env.CANARY_INFERENCE}\ninference_key {file.%s}\nmax_body_size 64KiB\ninference {\nmax_body_size 64KiB\nlist_models on\n}",
		file("management.key", keyOf["management file"].text+"\n"), file("inference.key", keyOf["inference file"].text+"\n"))
	access := filepath.Join(s.home, "access.log")
	s.options.gateway = fmt.Sprintf("log {\noutput file %s\nformat filter {\nrequest>headers>X-Api-Key delete\n}\n}\nreverse_proxy /v1/dead 127.0.0.1:1\nreverse_proxy %s {\nheader_up X-Api-Key {env.CANARY_GATEWAY}\n}",
		filepath.ToSlash(access), newGateway(t))
	caddyfile := strings.Replace(s.caddyfile(), "persist_config off\n", "", 1)
	if encrypted {
		digits := make([]byte, 32)
		if _, err := rand.Read(digits); err != nil {
			t.Fatal(err)
		}
		secret := canaries.adopt("encryption key", hex.EncodeToString(digits))
		canaries.adopt("encryption key in bytes", string(digits))
		storage := fmt.Sprintf("storage badger %q", filepath.ToSlash(s.store))
		if !strings.Contains(caddyfile, storage) {
			t.Fatalf("no %s in %s", storage, caddyfile)
		}
		caddyfile = strings.Replace(caddyfile, storage, storage+" {\nencryption_key_file "+file("encryption.key", secret.text+"\n")+"\n}", 1)
	}
	s.write(caddyfile)
	s.mustStart()

	issue := func(name, kind string) (id string) {
		a, err := s.sendAdmin(http.MethodPost, "/presets/keys", "application/json", fmt.Sprintf(`{"kind":%q,"name":"canary"}`, kind))
		var issued struct{ ID, Key string }
		if err != nil || a.status != http.StatusCreated || json.Unmarshal(a.body, &issued) != nil {
			t.Fatal(a, err)
		}
		keyOf[name] = canaries.adopt(name, issued.Key)
		return issued.ID
	}
	issue("management issued", "management")
	issue("inference issued", "inference")
	revoked := issue("revoked", "management")
	if out, err := s.command("presets", "key", "revoke", "--address", s.admin, revoked); err != nil {
		t.Fatal(err, out)
	}
	out, err := s.command("presets", "key", "create", "--address", s.admin, "--kind", "inference")
	if err != nil {
		t.Fatal(err, out)
	}
	lines := strings.Fields(out)
	keyOf["inference of the command"] = canaries.adopt("inference of the command", lines[len(lines)-1])
	damaged := []byte(keyOf["inference issued"].text)
	damaged[len(damaged)-1] ^= 1
	keyOf["damaged"] = canaries.adopt("damaged", string(damaged))

	// Error answers with their headers, and other answers.
	refusals := new(bytes.Buffer)
	counts := map[int]int{}
	send := func(method, path, body string, headers ...string) answer {
		t.Helper()
		a, err := s.send(method, path, body, headers...)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		counts[a.status]++
		if a.status >= 400 {
			refusals.Write(a.body)
			_ = a.header.Write(refusals)
		}
		return a
	}
	bearer := func(name string) []string { return []string{"Authorization", "Bearer " + keyOf[name].text} }

	// Prompts, in stored parts and in others.
	p := func(name string) string { return canaries.add(name).text }
	kept := func(name string) string {
		c := canaries.add(name)
		c.stored = true
		return c.text
	}
	requests := []struct {
		path, body string
		want       int
	}{
		{"/presets/a/responses", fmt.Sprintf(`{"model":"m","instructions":%q,"input":%q,"user":%q,"metadata":{"k":%q},"tools":[{"type":"function","name":"f","description":%q,"parameters":{}}]}`,
			kept("instructions"), p("input"), p("user"), p("metadata"), kept("tool")), 200},
		{"/presets/a/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`, kept("system message"), p("message")), 200},
		{"/presets/a/messages", fmt.Sprintf(`{"model":"m","max_tokens":9,"system":%q,"messages":[{"role":"user","content":%q}]}`, kept("system"), p("message of messages")), 200},
		{"/presets/a/responses", fmt.Sprintf(`{"model":"m","instructions":%q,"temperature":%q}`, p("in an invalid body"), p("invalid number")), 400},
		{"/presets/a/responses", fmt.Sprintf(`{"model":"m","tools":[{%q:1}],%q:2}`, p("invalid tool"), p("member")), 400},
		{"/presets/a/responses", fmt.Sprintf(`{"instructions":%q`, p("cut short")), 400},
		{"/presets/a/responses", fmt.Sprintf(`{"instructions":%q}%s`, p("before rubbish"), p("rubbish")), 400},
		{"/presets/a/responses", fmt.Sprintf(`{"instructions":%q,"instructions":%q}`, p("twice"), p("twice again")), 400},
		{"/presets/a/responses", fmt.Sprintf(`{"instructions":%q}`, p("too large")+strings.Repeat("x", 70<<10)), 413},
		{"/presets/a/designate", fmt.Sprintf(`{"version":%q}`, p("number of a version")), 400},
		{"/presets/a/designate", `{"version":999}`, 404},
		{"/workspaces", fmt.Sprintf(`{"name":%q,"slug":"w","description":%q}`, kept("name of a workspace"), kept("description of a workspace")), 201},
		{"/workspaces", fmt.Sprintf(`{"name":%q,"slug":%q}`, p("name without"), p("slug with")+" "), 400},
	}
	for _, r := range requests {
		if a := send(http.MethodPost, "/v1"+r.path, r.body); a.status != r.want {
			t.Errorf("%s %.200s gives %s, want %d", r.path, r.body, a, r.want)
		}
	}
	want := func(a answer, status int) {
		t.Helper()
		if a.status != status {
			t.Errorf("got %s, want %d", a, status)
		}
	}
	want(send(http.MethodPost, "/v1/presets/a/responses", p("no JSON"), "Content-Type", "text/plain"), 415)
	want(send(http.MethodPatch, "/v1/presets/a", fmt.Sprintf(`{"name":%q,"description":%q}`, kept("name of a preset"), kept("description"))), 200)
	want(send(http.MethodPatch, "/v1/presets/a", fmt.Sprintf(`{"status":%q}`, p("status"))), 400)
	want(send(http.MethodPut, "/v1/presets/a/labels/l", `{"version":1}`), 200)
	want(send(http.MethodPut, "/v1/presets/a/labels/l", fmt.Sprintf(`{"split":%q}`, p("split"))), 400)
	want(send(http.MethodPost, "/v1/presets/i/responses", fmt.Sprintf(`{"model":"m","instructions":%q}`, kept("with an idempotency key")), "Idempotency-Key", "once"), 200)
	want(send(http.MethodPost, "/v1/presets/i/responses", fmt.Sprintf(`{"model":"m","instructions":%q}`, p("with the same")), "Idempotency-Key", "once"), 422)
	want(send(http.MethodPost, "/v1/presets/i/responses", fmt.Sprintf(`{"model":"m","instructions":%q}`, p("on a condition")), "If-Match", `"no"`), 412)
	want(send(http.MethodPost, "/v1/presets/x/responses", `{"model":"m"}`), 200)
	want(send(http.MethodDelete, "/v1/presets/x", ""), 200)
	want(send(http.MethodPost, "/v1/presets/x/responses", fmt.Sprintf(`{"model":"m","instructions":%q}`, p("archived"))), 409)
	want(send(http.MethodPut, "/v1/presets/a", fmt.Sprintf(`{"model":%q}`, p("of no method"))), 405)
	for _, path := range []string{"/presets", "/presets/a", "/presets/a/versions", "/presets/a/versions/1", "/presets/a/diff?from=1&to=2", "/presets/a/labels/l", "/workspaces"} {
		want(send(http.MethodGet, "/v1"+path, ""), 200)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		for _, model := range []string{"@preset/a", "m"} {
			body := fmt.Sprintf(`{"model":%q,"max_tokens":9,"input":%q,"messages":[{"role":"user","content":%q}]}`, model, p("inference input"), p("inference message"))
			want(send(http.MethodPost, path, body, bearer("inference env")...), 200)
			want(send(http.MethodPost, path, body, append(bearer("inference env"), "X-Preset-Dry-Run", "true")...), 200)
		}
		want(send(http.MethodPost, path, fmt.Sprintf(`{"model":"@preset/none","input":%q}`, p("for no preset")), bearer("inference env")...), 404)
		want(send(http.MethodPost, path, fmt.Sprintf(`{"model":"@preset/a","input":%q`, p("inference cut short")), bearer("inference env")...), 400)
		want(send(http.MethodPost, path, `{"model":"@preset/a","input":"`+p("inference too large")+strings.Repeat("x", 70<<10)+`"}`, bearer("inference env")...), 413)
	}
	want(send(http.MethodPost, "/v1/dead", fmt.Sprintf(`{"input":%q}`, p("for a gateway that is dead")), bearer("inference env")...), 502)

	// Keys, in all places where one may be sent.
	for name, key := range keyOf {
		if name == "gateway" {
			continue
		}
		for _, r := range [][2]string{{"GET", "/v1/presets/a"}, {"POST", "/v1/chat/completions"}, {"GET", "/v1/models"}, {"POST", "/v1/embeddings"}, {"POST", "/v1/dead"}} {
			body := ""
			if r[0] == http.MethodPost {
				body = fmt.Sprintf(`{"model":"@preset/a","messages":[],"user":%q,"api_key":%q}`, key.text, key.text)
			}
			for _, headers := range [][]string{
				{"Authorization", "Bearer " + key.text},
				{"Authorization", "", "X-Api-Key", key.text},
			} {
				send(r[0], r[1], body, headers...)
			}
		}
		send(http.MethodGet, "/v1/presets/a", "", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+key.text)))
		send(http.MethodPost, "/v1/presets/a/responses", fmt.Sprintf(`{"model":"m","user":%q,"metadata":{"key":%q}}`, key.text, key.text))
		send(http.MethodPost, "/v1/presets/a/responses", fmt.Sprintf(`{"model":"m","temperature":%q}`, key.text))
	}
	// An access log contains URIs. Handlers cannot hide them, and keys do not belong there.
	// Other logs must not contain them.
	inURI := canaries.add("in a URI")
	inURI.uri = true
	for _, path := range []string{"/v1/presets/" + inURI.text, "/v1/presets?workspace_id=" + inURI.text, "/v1/presets/a?api_key=" + inURI.text, "/v1/" + inURI.text, "/v1/models?key=" + inURI.text} {
		send(http.MethodGet, path, "")
	}
	// Caddy logs these, and they are not keys. The search must find them, or it is blind.
	control := canaries.add("control")
	control.control = true
	send(http.MethodGet, "/v1/presets/a", "", "X-Canary", control.text)
	send(http.MethodPost, "/v1/embeddings", "{}", append(bearer("inference env"), "X-Canary", control.text)...) // at DEBUG, Caddy logs requests to a gateway
	for _, status := range []int{200, 201, 400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 502} {
		if counts[status] == 0 {
			t.Errorf("no answer was a %d: %v", status, counts)
		}
	}

	// These are the answers that other clients may see.
	nowhere := func(canary) bool { return false }
	admin := func(path string) []byte {
		a, err := s.sendAdmin(http.MethodGet, path, "", "")
		if err != nil || a.status != http.StatusOK || len(a.body) == 0 {
			t.Fatalf("%s gives %s, %v", path, a, err)
		}
		return a.body
	}
	canaries.seek("an error", refusals.Bytes(), nowhere)
	for _, path := range []string{"/metrics", "/config/", "/presets/audit?limit=1000", "/presets/keys", "/debug/pprof/goroutine?debug=2"} {
		canaries.seek(path, admin(path), nowhere)
	}
	for _, command := range [][]string{{"audit", "--json"}, {"key", "list", "--json"}} {
		out, err := s.command(append(append([]string{"presets"}, command...), "--address", s.admin)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		canaries.seek(strings.Join(command, " "), []byte(out), nowhere)
	}
	adapted, err := s.command("adapt", "--config", s.config)
	if err != nil || !strings.Contains(adapted, "sha256:") {
		t.Fatalf("adapt: %v\n%s", err, adapted)
	}
	canaries.seek("the adapted configuration", []byte(adapted), nowhere)
	autosave, err := os.ReadFile(filepath.Join(s.home, "caddy", "autosave.json"))
	if err != nil {
		t.Fatal(err)
	}
	canaries.seek("autosave.json", autosave, nowhere)
	mayStore := func(c canary) bool { return c.stored && !encrypted }
	backup := filepath.Join(s.home, "backup")
	if out, err := s.command("presets", "backup", "--address", s.admin, backup); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	text, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	canaries.seek("a backup", text, mayStore)

	// Search the store, while it is open and after it is closed.
	inStore := func(when string) (found int) {
		err := filepath.WalkDir(s.store, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found += canaries.seek(when+" "+entry.Name(), text, mayStore)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	stored := inStore("open")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	stored = min(stored, inStore("closed"))
	if !encrypted && stored == 0 {
		t.Error("no prompt is found in the store: the search is blind")
	}

	// Search the logs. Some are from a process that dies during requests.
	s.mustStart()
	for path, keys := range map[string][2]string{
		"/v1/presets/a/responses": {managementKey, inferenceKey},
		"/v1/chat/completions":    {inferenceKey, managementKey},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.site, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Api-Key: %s\r\nContent-Length: 9999\r\n\r\n{\"model\":\"@preset/a\",\"input\":%q",
			path, strings.TrimPrefix(s.site, "http://"), keys[0], keys[1], p("in flight"))
	}
	const reading = "caddymodule.(*call).read("
	wait.Until(t, "the server reads both requests", func() bool { return bytes.Count(admin("/debug/pprof/goroutine?debug=2"), []byte(reading)) >= 2 })
	if err := s.process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	<-s.process.Ended()
	all, err := os.ReadFile(s.logFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, expected := range []string{"SIGABRT", reading, `"level":"debug"`, "upstream roundtrip", "X-Canary"} {
		if !bytes.Contains(all, []byte(expected)) {
			t.Errorf("the log has no %s: the run did not cover it", expected)
		}
	}
	mayLog := func(c canary) bool { return c.uri || c.control }
	requestLog, err := os.ReadFile(access)
	if err != nil {
		t.Fatal(err)
	}
	inLogs := canaries.seek("the log", all, mayLog)
	if n := canaries.seek("the access log", requestLog, mayLog); n == 0 || inLogs == 0 {
		t.Errorf("in the logs %d canaries are found, and %d in the access log: the search is blind", inLogs, n)
	}
	result(t, "canary", begun, "encrypted", encrypted, "canaries", len(canaries.all), "answers", fmt.Sprint(counts),
		"log-bytes", len(all)+len(requestLog), "found-in-store", stored)
}
