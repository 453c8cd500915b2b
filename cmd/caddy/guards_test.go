package main_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// certify writes a certificate of localhost, its authority and its client in one, and the key of all.
func certify(t *testing.T, folder string) tls.Certificate {
	t.Helper()
	certificate, key := servertest.Certificate(t)
	for name, text := range map[string][]byte{"clients.pem": certificate, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// with returns a configuration whose client has a certificate. It sends the certificate even if
// the server asks for those of another authority.
func with(config *tls.Config, certificate tls.Certificate) *tls.Config {
	config = config.Clone()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	return config
}

// guarded is a site of docs/guard.md that the test serves.
type guarded struct {
	address string
	config  *tls.Config // nil for a site without TLS
}

// status returns the status of the answer, or 0 for an aborted connection. target is sent as it is.
func (g guarded) status(t *testing.T, method, target string, headers ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if g.config != nil {
		conn = tls.Client(conn, g.config)
	}
	_, port, _ := net.SplitHostPort(g.address)
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\n", method, target, port)
	body := ""
	if method == http.MethodPost {
		body = `{"model":"m","messages":[]}`
		request += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	for _, header := range headers {
		request += header + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"+body); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// TestGuards serves the sites of docs/guard.md. Strangers with the right key do not reach the API and
// the console, in whatever form they write the path. They reach inference.
func TestGuards(t *testing.T) {
	tier.Slow(t)
	page, err := os.ReadFile("../../docs/guard.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, block[1])
	}
	if len(blocks) != 5 {
		t.Fatalf("the page has %d sites, want 5", len(blocks))
	}
	var forwarded sync.Map // the headers that the gateway got last
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded.Store("header", r.Header)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer gateway.Close()
	const management, inference, session = "management-key-of-the-tests", "inference-key-of-the-tests", "Cookie: session=1"
	logins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(fmt.Sprint(r.Header), "-key-of-the-tests") {
			t.Error("the service of logins gets a key")
		}
		switch {
		case r.URL.Path == "/oauth2/sign_in":
		case r.URL.Path == "/oauth2/auth" && r.Header.Get("Cookie") == "session=1":
			w.Header().Set("X-Auth-Request-User", "4711")
			w.Header().Set("X-Auth-Request-Email", "ann@example.com")
			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path == "/oauth2/auth" && r.Header.Get("Cookie") == "session=nameless":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer logins.Close()

	home, admin := t.TempDir(), freeAddress(t)
	sockets, err := os.MkdirTemp("", "guards") // whose path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	pair := certify(t, home)
	sites := make(map[string]guarded)
	options, caddyfile := "protocols h1 h2\n", ""
	proxied := freeAddress(t)
	serve := func(names, block string, changes ...string) {
		t.Helper()
		hosts := regexp.MustCompile(`(?m)^(?:\w+\.)example\.com \{\n`).FindAllString(block, -1)
		for i, name := range strings.Fields(names) {
			address := freeAddress(t)
			if name == "proxied" {
				address = proxied
			}
			_, port, _ := net.SplitHostPort(address)
			sites[name] = guarded{address: address}
			scheme := "http"
			if name == "certificates" || name == "required" {
				scheme = "https"
			}
			changes = append(changes, hosts[i], scheme+"://localhost:"+port+" {\nbind 127.0.0.1\n")
		}
		changes = append(changes, "presets {\n", fmt.Sprintf("presets {\nstorage badger %s\nmanagement_key %s\ninference_key %s\n", filepath.ToSlash(filepath.Join(home, "store")), management, inference))
		if strings.Contains(block, "127.0.0.1:8000") {
			changes = append(changes, "127.0.0.1:8000", gateway.Listener.Addr().String())
		}
		for i := 0; i < len(changes); i += 2 {
			if !strings.Contains(block, changes[i]) {
				t.Fatalf("the site has no %q:\n%s", changes[i], block)
			}
		}
		caddyfile += strings.NewReplacer(changes...).Replace(block)
	}
	serve("login", blocks[1])
	serve("outside", blocks[0])
	serve("inside", blocks[0], "10.0.0.0/8", "127.0.0.0/8")
	serve("proxied", blocks[0], "remote_ip 10", "client_ip 10")
	global, sso, _ := strings.Cut(blocks[2], "\n}\n\n")
	if inner := strings.Split(sso, "\n\n"); len(inner) != 2 || !strings.Contains(global, "\n\t\ttrusted_proxies_unix\n") {
		t.Fatalf("the login has the sites\n%s", blocks[2])
	} else {
		// The page tells how one site is made of them.
		_, last, _ := strings.Cut(inner[1], "\tpresets {")
		last = strings.Replace("\tpresets {"+last, "\t\tactor_header X-Auth-Request-Email\n", "", 1)
		one := strings.Replace(inner[0], "\t\treverse_proxy unix//run/caddy-presets/people.sock\n\t}\n}", last[:strings.LastIndex(last, "}")]+"}\n}", 1)
		serve("forward", one+"\n", "127.0.0.1:4180", logins.Listener.Addr().String())
	}
	if runtime.GOOS != "windows" {
		options += "trusted_proxies_unix\n"
		serve("sso", sso, "127.0.0.1:4180", logins.Listener.Addr().String(), "/run/caddy-presets", filepath.ToSlash(sockets))
	}
	certified := []string{
		"/etc/caddy-presets/clients.pem", filepath.ToSlash(filepath.Join(home, "clients.pem")),
		"\ttls {\n", fmt.Sprintf("\ttls %s %s {\n", filepath.ToSlash(filepath.Join(home, "clients.pem")), filepath.ToSlash(filepath.Join(home, "key.pem"))),
	}
	serve("certificates", blocks[3], certified...)
	serve("required", blocks[3], append(certified, "verify_if_given", "require_and_verify")...)
	serve("api console llm", blocks[4])
	caddyfile = fmt.Sprintf("{\nadmin %s\nauto_https off\npersist_config off\nservers {\n%s}\nservers %s {\nprotocols h1 h2\ntrusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict\n}\n}\n", admin, options, proxied) + caddyfile
	at := place{home: home, address: sites["login"].address, admin: admin}
	p := at.start(t, at.file(t, "Caddyfile", caddyfile))
	if strings.Contains(p.Log(), "do not guard the API and the console") {
		t.Errorf("the log warns:\n%s", p.Log())
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	site := sites["certificates"]
	site.config = &tls.Config{RootCAs: roots, ServerName: "localhost"}
	sites["certificates"] = site
	required := guarded{address: sites["required"].address, config: site.config}
	for _, config := range []*tls.Config{site.config, with(site.config, certify(t, t.TempDir()))} {
		required.config = config
		if got := required.status(t, http.MethodPost, "/v1/chat/completions", "Authorization: Bearer "+inference); got != 0 {
			t.Errorf("a site that requires a certificate gives %d to a stranger", got)
		}
		site.config = config
	}
	if got := site.status(t, http.MethodPost, "/v1/chat/completions", "Authorization: Bearer "+inference); got != 0 {
		t.Errorf("a certificate of another authority gives %d", got)
	}
	site.config = with(sites["certificates"].config, pair)
	sites["certificates, with one"] = site
	required.config = site.config
	sites["required"] = required

	key := "Authorization: Bearer " + management
	const email = "X-Auth-Request-Email: mallory@example.com"
	for _, tc := range []struct {
		site      string
		headers   []string
		want      int // of the API
		ofConsole int
	}{
		{"outside", nil, 0, 0},
		{"inside", nil, 200, 200},
		{"proxied", nil, 0, 0},
		{"proxied", []string{"X-Forwarded-For: 10.1.2.3"}, 200, 200},
		{"proxied", []string{"X-Forwarded-For: 10.1.2.3, 192.0.2.1"}, 0, 0},
		{"forward", nil, 401, 302},
		{"forward", []string{"Cookie: session=2"}, 401, 302},
		{"forward", []string{session}, 200, 200},
		{"sso", nil, 401, 302},
		{"sso", []string{"Cookie: session=2", email}, 401, 302},
		{"sso", []string{session}, 200, 200},
		{"certificates", nil, 0, 0},
		{"certificates, with one", nil, 200, 200},
		{"required", nil, 200, 200},
		{"llm", nil, 404, 403}, // the console's path is the gateway's, for inference keys
	} {
		site, ok := sites[tc.site]
		if !ok {
			continue
		}
		for path, want := range map[string]int{"/v1/presets": tc.want, "/v1/workspaces/default": tc.want, "/console": tc.ofConsole, "/console/": tc.ofConsole} {
			if got := site.status(t, http.MethodGet, path, append(tc.headers, key)...); got != want {
				t.Errorf("%s %v: GET %s gives %d, want %d", tc.site, tc.headers, path, got, want)
			}
		}
		for _, path := range []string{
			"/v1//presets", "//v1/presets", "/v1/./presets", "/v1/x/../presets", "/V1/Presets", "/v1/%70resets", "/%76%31/presets", "/v1/presets/",
			"/v1/presets%3fx", "/v1/presets/..%2fpresets", "/v1%2fpresets", "/Console", "//console", "/%63onsole", "/console%2f", "/x/../console/",
		} {
			got := site.status(t, http.MethodGet, path, append(tc.headers, key)...)
			isConsole := strings.Contains(strings.ToLower(path), "onsole")
			if tc.want != 200 && got >= 200 && got < 400 && (!isConsole || got != tc.ofConsole) {
				t.Errorf("%s %v: GET %s gives %d to a stranger", tc.site, tc.headers, path, got)
			}
		}
		if got := site.status(t, http.MethodPost, "/v1/chat/completions", "Authorization: Bearer "+inference); got != http.StatusAccepted {
			t.Errorf("%s: inference gives %d, want that of the gateway", tc.site, got)
		}
		if header, _ := forwarded.Load("header"); strings.Contains(fmt.Sprint(header), "-key-of-the-tests") {
			t.Errorf("%s: the gateway gets a key", tc.site)
		}
	}
	for _, tc := range []struct {
		site, path, header string
		want               int
	}{
		{"login", "/console", key, 401},
		{"login", "/console/", "X-Nothing: 1", 401},
		{"login", "/console", "Authorization: Basic YW5uOmhpY2N1cA==", 200}, // ann:hiccup
		{"login", "/console", "Authorization: Basic YW5uOmhpY2N1cQ==", 401},
		{"login", "/v1/presets", key, 200},
		{"login", "/v1/presets", "Authorization: Basic YW5uOmhpY2N1cA==", 401},
		{"forward", "/oauth2/sign_in?rd=/console", "X-Nothing: 1", 200},
		{"sso", "/oauth2/sign_in?rd=/console", "X-Nothing: 1", 200},
		{"sso", "/v1/presets", session, 401}, // a login is no key
		{"api", "/v1/presets", key, 200},
		{"api", "/v1/keys", key, 200},
		{"api", "/console", key, 404},
		{"api", "/v1/models", key, 404},
		{"console", "/console", "X-Nothing: 1", 200},
		{"console", "/v1/presets", key, 200},
	} {
		if site, ok := sites[tc.site]; ok {
			if got := site.status(t, http.MethodGet, tc.path, tc.header); got != tc.want {
				t.Errorf("%s: GET %s with %s gives %d, want %d", tc.site, tc.path, tc.header, got, tc.want)
			}
		}
	}
	for _, site := range []string{"api", "llm"} {
		if got := sites[site].status(t, http.MethodPost, "/v1/presets/greeting/chat/completions", "Authorization: Bearer "+management); (got == 200) != (site == "api") {
			t.Errorf("%s: a new version gives %d", site, got)
		}
	}
	if site, ok := sites["sso"]; ok {
		checkActors(t, admin, site, key, filepath.Join(sockets, "people.sock"))
	}
}

// checkActors makes changes as people with and without a name, who all write a name of their own. The
// audit trail has those of the login alone.
func checkActors(t *testing.T, admin string, site guarded, key, socket string) {
	t.Helper()
	const email = "X-Auth-Request-Email: mallory@example.com"
	for name, headers := range map[string][]string{
		"named": {"Cookie: session=1"}, "forged": {"Cookie: session=1", email}, "twice": {"Cookie: session=1", email, email},
		"small": {"Cookie: session=1", "x-auth-request-email: mallory@example.com"}, "nameless": {"Cookie: session=nameless", email},
	} {
		if got := site.status(t, http.MethodPost, "/v1/presets/"+name+"/chat/completions", append(headers, key)...); got != http.StatusOK {
			t.Errorf("%s: a change gives %d", name, got)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	response, err := http.Get("http://" + admin + "/presets/audit?limit=1000")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var trail struct{ Records []domain.AuditRecord }
	if err := json.NewDecoder(response.Body).Decode(&trail); err != nil {
		t.Fatal(err)
	}
	for _, r := range trail.Records {
		want := ""
		switch r.Object.Slug {
		case "named", "forged", "twice", "small":
			want = "ann@example.com"
		}
		if r.Actor != want || r.Operation == "preset.create_version" && r.KeyID != "config-management-1" {
			t.Errorf("%s %s has the actor %q and the key %q, want %q and the key", r.Operation, r.Object.Slug, r.Actor, r.KeyID, want)
		}
	}
	if len(trail.Records) < 6 {
		t.Errorf("the trail has %d records", len(trail.Records))
	}
}
