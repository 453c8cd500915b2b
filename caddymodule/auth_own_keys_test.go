package caddymodule

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestNoBranchPassesOwnKeys checks that no key of ours goes upstream or into a log. It
// tests all routes, headers and trailers, with any block inference and without one.
func TestNoBranchPassesOwnKeys(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	keys := []string{managementSecret, inferenceSecret, s.issue(`{"kind":"inference"}`).secret, s.issue(`{"kind":"management"}`).secret}
	revoked := s.issue(`{"kind":"inference"}`)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(t, 200)
	keys = append(keys, revoked.secret, keys[2][:30]) // damaged
	for turn, subdirectives := range []string{
		standard, inferring("keys off"), inferring("keys optional"), inferring("keys required"), inferring("keys everywhere"), inferring("list_models on"),
	} {
		s.reload(subdirectives)
		passed := 0
		for i, key := range keys {
			for j, place := range caddytest.PlacesOf(key, i > 1) {
				paths := []string{chatPath, "/v1/embeddings", "/v1/models", "/api/delete"}
				if !tier.EveryCase() { // another one in each configuration
					paths = paths[(turn+i+j)%len(paths):][:1]
				}
				for _, path := range paths {
					headers, trailers := []string{bearer(inferenceSecret)}, []string{"X-Checksum: 1"}
					if place.Trailer {
						trailers = append(trailers, place.Name+": "+place.Value)
					} else {
						headers = append(headers, place.Name+": "+place.Value)
					}
					if exchange(t, s.address, postChunked(path, `{"model":"m"}`, trailers, headers...)).status == 202 {
						passed++
					}
				}
			}
		}
		if passed < 25 || len(s.upstream.all()) != passed {
			t.Errorf("%s: %d requests passed", subdirectives, passed)
		}
		if text := caddytest.Leaked(s.upstream.wire.Take(), append(keys, string(secrets.Hidden))); text != "" {
			t.Errorf("%s: the gateway got %s", subdirectives, text)
		}
	}
	if text := caddytest.Leaked([]byte(s.logs()), keys); text != "" {
		t.Errorf("the log holds %s", text)
	}
}

// TestKeysThatTheSiteAdds has a site that gives a key to its clients. The guard does not see it, and
// the gateway does not get it.
func TestKeysThatTheSiteAdds(t *testing.T) {
	s := start(t, standard)
	issued := s.issue(`{"kind":"inference"}`).secret
	for _, key := range []string{inferenceSecret, issued} {
		if err := s.load(strings.Replace(s.site(inferring()), "presets {", "request_header Authorization \"Bearer "+key+"\"\npresets {", 1)); err != nil {
			t.Fatal(err)
		}
		s.do("POST", chatPath, `{"model":"m"}`).want(t, 202)
		if got := s.upstream.one(t).header.Get("Authorization"); got != "" {
			t.Errorf("the gateway got %q", got)
		}
	}
}

// TestOtherCredentialsPass sends other credentials. Some look like our keys. All pass
// unchanged.
func TestOtherCredentialsPass(t *testing.T) {
	s := start(t, standard)
	others := []string{
		"Authorization: Bearer " + foreignBearer, "X-Api-Key: " + foreignKey, "Api-Key: key:x", "X-Goog-Api-Key: <y>", "Cookie: _caddypresets=1; caddypresets_other_=2",
		"Sec-Websocket-Protocol: realtime, openai-insecure-api-key.sk-x", "X-Whatever: ____ presets_inf_x caddypresets-inf-x", "Proxy-Connection: x",
	}
	for _, subdirectives := range []string{standard, inferring("keys off"), inferring("keys optional"), inferring("keys required")} {
		s.reload(subdirectives)
		exchange(t, s.address, postChunked("/v1/embeddings", "{}", []string{"X-Trailer: " + foreignKey}, others...)).want(t, 202)
		got := s.upstream.one(t)
		for _, other := range others[:len(others)-1] {
			if name, value, _ := strings.Cut(other, ": "); got.header.Get(name) != value {
				t.Errorf("%s: got %s %q, want %q", subdirectives, name, got.header.Get(name), value)
			}
		}
		if got.trailer.Get("X-Trailer") != foreignKey {
			t.Errorf("%s: got trailers %v", subdirectives, got.trailer)
		}
	}
}

// TestKeysOfOtherSites checks that a configured key works on every site of its store, on
// other servers too. It works as long as any configuration has it.
func TestKeysOfOtherSites(t *testing.T) {
	const theirs = "inference-secret-of-another-site"
	s := start(t, standard)
	other := freeAddress(t)
	load := func(ours, others string) {
		t.Helper()
		site := s.presets(others)
		if err := s.load(s.site(ours) + s.siteAt(other, site)); err != nil {
			t.Fatal(err)
		}
	}
	passes := func(key string) bool {
		t.Helper()
		exchange(t, s.address, post("/v1/embeddings", "{}", "X-Api-Key: "+key)).want(t, 202)
		return s.upstream.one(t).header.Get("X-Api-Key") != ""
	}
	with, without := standard+"\ninference_key "+theirs, standard
	for _, ours := range []string{standard, inferring("keys off"), inferring("keys required")} {
		load(ours, with)
		if passes(theirs) || !passes(foreignKey) {
			t.Errorf("%s: the key of another site passed, or one of nobody did not", ours)
		}
		load(ours, with) // the old configuration is withdrawn after the new one is loaded
		if passes(theirs) {
			t.Errorf("%s: the key of another site passed after a reload", ours)
		}
		if err := s.load(s.site(ours) + s.siteAt(other, "presets {\nbase_path nothing\n}")); err == nil {
			t.Fatal("the configuration was not rejected")
		}
		if passes(theirs) {
			t.Errorf("%s: the key of another site passed after a rejected reload", ours)
		}
		load(ours, without)
		if !passes(theirs) {
			t.Errorf("%s: a key that no configuration has is no key", ours)
		}
	}
	// The log of the site without the key does not show it either.
	load(standard, with)
	before := len(s.logs())
	if s.logged(func() { passes(theirs) }) == nil || strings.Contains(s.logs()[before:], theirs) {
		t.Error("the log holds the key of another site")
	}
}

// TestMasksOfKeys checks where keys are masked. Earlier handlers, other sites and logs with
// log_credentials see masks. Our handler sees the keys, also after another handler moved
// them.
func TestMasksOfKeys(t *testing.T) {
	s := start(t, standard)
	s.options = "servers {\nprotocols h1 h2c\nlog_credentials\n}"
	_, port, _ := net.SplitHostPort(s.address)
	upstream := s.upstream.Listener.Addr().String()
	site := fmt.Sprintf(`http://ours.test:%[1]s {
		bind 127.0.0.1
		log
		@moved header Api-Key *
		request_header @moved Authorization "Bearer {http.request.header.Api-Key}"
		log_append seen {http.request.header.Authorization}
		presets {
			storage badger %[2]s
			%[3]s
			inference
		}
		reverse_proxy %[4]s
	}
	http://other.test:%[1]s {
		bind 127.0.0.1
		log
		@bearer header Authorization "Bearer *"
		header @bearer X-Matched yes
		reverse_proxy %[4]s
	}
	`, port, s.folder, standard, upstream)
	if err := s.load(site); err != nil {
		t.Fatal(err)
	}
	issued, another := s.issue(`{"kind":"inference"}`).secret, s.issue(`{"kind":"inference"}`).secret
	ask := func(host, path string, headers ...string) (reply, []received) {
		t.Helper()
		request := strings.Replace(post(path, `{"model":"m"}`, headers...), "Host: gateway.test", "Host: "+host, 1)
		return exchange(t, s.address, request), s.upstream.all()
	}
	for _, secret := range []string{issued, inferenceSecret} {
		for _, headers := range [][]string{{bearer(secret)}, {"X-Api-Key: " + secret}, {"Api-Key: " + secret}, {"Authorization: bearer  " + secret}} {
			r, got := ask("ours.test", chatPath, headers...)
			r.want(t, 202)
			if len(got) != 1 || got[0].header.Get("Authorization")+got[0].header.Get("X-Api-Key")+got[0].header.Get("Api-Key") != "" {
				t.Errorf("%q: the gateway got %v", headers, got)
			}
		}
	}
	r, _ := ask("ours.test", "/v1/presets", bearer(issued)) // answered by us
	r.want(t, 405)
	r = s.do("GET", "/v1/presets", "", bearer(issued))
	if r.header.Get("X-Gateway") != "" {
		t.Error("the host is not looked at")
	}

	masks := make(map[string]bool)
	for _, secret := range []string{issued, issued, inferenceSecret, another} {
		r, got := ask("other.test", chatPath, bearer(secret), "Cookie: key="+issued)
		mask, isMask := strings.CutPrefix(got[0].header.Get("Authorization"), "Bearer "+string(secrets.Hidden))
		if r.header.Get("X-Matched") != "yes" || !isMask || len(mask) != 16 || !strings.HasPrefix(got[0].header.Get("Cookie"), string(secrets.Hidden)) {
			t.Errorf("another site got %v", got)
		}
		masks[mask] = true
	}
	if len(masks) != 3 {
		t.Errorf("got %d masks of three keys", len(masks))
	}
	// A mask is not accepted as a key.
	for mask := range masks {
		r, _ := ask("ours.test", chatPath, bearer(string(secrets.Hidden)+mask))
		r.want(t, 401, "Invalid credentials")
	}
	r, got := ask("other.test", chatPath, bearer(foreignBearer))
	if r.header.Get("X-Matched") != "yes" || got[0].header.Get("Authorization") != "Bearer "+foreignBearer {
		t.Errorf("another site got %v, want the credential of another's as it is", got)
	}
	logs := s.logs()
	if text := caddytest.Leaked([]byte(logs), []string{issued, another, inferenceSecret}); text != "" {
		t.Errorf("the log holds %s", text)
	}
	if !strings.Contains(logs, string(secrets.Hidden)) || !strings.Contains(logs, foreignBearer) {
		t.Error("the log shows no credentials, though it is told to")
	}
}

// TestGuardOfFirstConnections checks that the guard is installed before the first request,
// on each listener and protocol. The race detector covers this, too.
func TestGuardOfFirstConnections(t *testing.T) {
	s := start(t, standard)
	s.options = "servers {\nprotocols h1 h2c\n}"
	for range 5 {
		folder := t.TempDir()
		sockets := []string{folder + "/a", folder + "/b"}
		var sites strings.Builder
		for i, host := range []string{"one.test", "two.test"} {
			fmt.Fprintf(&sites, "http://%s {\nbind unix/%s unix/%s\nlog\npresets {\nstorage badger %s%d\n%s\n}\nrespond 202\n}\n", host, sockets[0], sockets[1], s.folder, i, standard)
		}
		if err := s.load(sites.String()); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i, socket := range slices.Concat(sockets, sockets, sockets) {
			for _, client := range caddytest.UnixClients(socket) {
				wg.Go(func() {
					request, _ := http.NewRequest("GET", []string{"http://one.test", "http://two.test"}[i/2%2], nil)
					request.Header.Set("X-Api-Key", inferenceSecret)
					response, err := client.Do(request)
					if err != nil {
						t.Error(err)
						return
					}
					response.Body.Close()
				})
			}
		}
		wg.Wait()
	}
	if !s.eventually(func() bool { return strings.Count(s.logs(), `"handled request"`) >= 60 }) {
		t.Error("the requests are not in the log")
	}
	if strings.Contains(s.logs(), inferenceSecret) {
		t.Error("the log holds a key")
	}
}

// TestOwnKeysOverHTTP3 checks that keys work and are removed over HTTP/3, where no guard
// runs before Caddy. Therefore logs need the filter of docs/keys.md.
func TestOwnKeysOverHTTP3(t *testing.T) {
	tier.NoRace(t) // Caddy's app for TLS may start behind the listener, and the detector does not see that packets come later
	s := start(t, standard)
	issued := s.issue(`{"kind":"inference"}`).secret
	s.options = "auto_https disable_redirects"
	const theirs = "inference-secret-of-another-site"
	other := s.siteAt(freeAddress(t), fmt.Sprintf("presets {\nstorage badger %s\ninference_key %s\n}", s.folder, theirs))
	if err := s.load(s.siteWithTLS(inferring("keys required")) + other); err != nil {
		t.Fatal(err)
	}
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "example.com"},
		QUICConfig:      &quic.Config{HandshakeIdleTimeout: patience},
	}
	defer transport.Close()
	ask := func(path string, headers ...string) (int, error) {
		request, err := http.NewRequestWithContext(context.Background(), "POST", "https://"+s.datagrams+path, strings.NewReader(`{"model":"m"}`))
		if err != nil {
			return 0, err
		}
		request.Host = "example.com"
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			request.Header.Add(name, value)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, err
	}
	for _, secret := range []string{issued, inferenceSecret} {
		for _, path := range []string{chatPath, "/v1/embeddings"} {
			for _, header := range []string{bearer(secret), "X-Api-Key: " + secret} {
				if status, err := ask(path, header, "Api-Key: key:"+secret, "X-Goog-Api-Key: <"+secret+">"); status != 202 || err != nil {
					t.Errorf("%s with %.20q: got %d, %v", path, header, status, err)
				}
				s.upstream.one(t)
			}
		}
	}
	if status, err := ask("/v1/embeddings", "X-Api-Key: "+theirs, "Api-Key: "+theirs); status != 202 || err != nil {
		t.Errorf("with the key of another site: got %d, %v", status, err)
	}
	if text := caddytest.Leaked(s.upstream.wire.Take(), []string{issued, inferenceSecret, theirs}); text != "" || s.upstream.one(t).body == "" {
		t.Errorf("the gateway saw a key: %s", text)
	}

	// Caddy's access and error log show the keys, unless the filter of docs/keys.md deletes the headers.
	page, err := os.ReadFile("../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	filter := regexp.MustCompile(`(?s)format filter \{.*?\}`).FindString(string(page))
	for _, format := range []string{"", filter} {
		s.logFormat = format
		before := len(s.logs())
		if err := s.load(strings.Replace(s.siteWithTLS(inferring("keys required")), "presets {", "error /broken 500\npresets {", 1)); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{chatPath, "/broken"} {
			if status, err := ask(path, bearer(issued), "X-Api-Key: "+issued); status == 401 || err != nil {
				t.Errorf("%s: got %d, %v", path, status, err)
			}
		}
		if !s.eventually(func() bool { return strings.Count(s.logs()[before:], `"handled request"`) == 2 }) {
			t.Fatal("the requests are not in the log")
		}
		shown := map[string]bool{}
		for line := range strings.Lines(s.logs()[before:]) {
			for _, logger := range []string{"http.log.access", "http.log.error"} {
				if strings.Contains(line, `"logger":"`+logger) {
					shown[logger] = shown[logger] || strings.Contains(line, issued)
				}
			}
			if format != "" && strings.Contains(line, issued) {
				t.Errorf("the filtered log has a key: %s", line)
			}
		}
		if want := format == ""; len(shown) != 2 || shown["http.log.access"] != want || shown["http.log.error"] != want {
			t.Errorf("with the format %q the loggers show keys: %v, want %t for both", format, shown, want)
		}
	}
}

// siteWithTLS is site with TLS, and so with HTTP/2 and 3, for example.com. It sets s.datagrams, and can be loaded once.
func (s *server) siteWithTLS(subdirectives string) string {
	s.t.Helper()
	file, _ := certificate(s.t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.datagrams = datagrams.LocalAddr().String()
	name := fmt.Sprint("n", time.Now().UnixNano())
	handed.Store("handed/"+name, listener)
	handed.Store("handedgram/"+name, datagrams)
	_, port, _ := net.SplitHostPort(s.address)
	return strings.Replace(s.site(subdirectives), "http://:"+port+" {\nbind 127.0.0.1\n", "https://example.com:"+port+" {\nbind handed/"+name+"\ntls "+file+" "+file+"\n", 1)
}

// TestBareInferenceIsClosed checks that a bare inference directive does not let strangers
// through.
func TestBareInferenceIsClosed(t *testing.T) {
	s := start(t, standard+"\ninference")
	for _, request := range []string{"DELETE /api/delete", "POST /api/generate", "GET /v1/models", "POST /v1/embeddings", "POST " + chatPath, "GET /"} {
		method, path, _ := strings.Cut(request, " ")
		s.do(method, path, "").want(t, 401)
		s.do(method, path, "", bearer(foreignBearer)).want(t, 401)
		s.upstream.none(t)
		s.do(method, path, "{}", bearer(inferenceSecret)).want(t, 202)
		s.upstream.one(t)
	}
}
