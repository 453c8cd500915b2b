package main_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

// guarded is a site of docs/configuration.md that the test serves.
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
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// TestGuards serves the sites of docs/configuration.md that guard the API and the console. Strangers
// with the right key do not reach these, in whatever form they write the path. They reach inference.
func TestGuards(t *testing.T) {
	tier.Slow(t)
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Guards\n")
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	if len(blocks) != 4 {
		t.Fatalf("the section has %d sites, want 4", len(blocks))
	}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer gateway.Close()
	const management, inference, session = "management-key-of-the-tests", "inference-key-of-the-tests", "Cookie: session=1"
	logins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(fmt.Sprint(r.Header), "-key-of-the-tests") {
			t.Error("the service of logins gets a key")
		}
		if r.URL.Path != "/api/authz/forward-auth" || r.Header.Get("Cookie") != "session=1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer logins.Close()

	home, admin := t.TempDir(), freeAddress(t)
	pair := certify(t, home)
	sites := make(map[string]guarded)
	caddyfile := fmt.Sprintf("{\nadmin %s\nauto_https off\npersist_config off\nservers {\nprotocols h1 h2\n}\n}\n", admin)
	serve := func(name, block, scheme string, changes ...string) {
		t.Helper()
		address := freeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		sites[name] = guarded{address: address}
		changes = append(changes,
			"presets.example.com {\n", scheme+"://localhost:"+port+" {\nbind 127.0.0.1\n",
			"127.0.0.1:8000", gateway.Listener.Addr().String(),
			"presets {\n", fmt.Sprintf("presets {\nstorage badger %s\nmanagement_key %s\ninference_key %s\n", filepath.ToSlash(filepath.Join(home, "store")), management, inference))
		for i := 0; i < len(changes); i += 2 {
			if strings.Count(block, changes[i]) != 1 {
				t.Fatalf("the site has %q %d times, want once:\n%s", changes[i], strings.Count(block, changes[i]), block)
			}
		}
		caddyfile += strings.NewReplacer(changes...).Replace(block)
	}
	serve("login", blocks[2], "http")
	serve("outside", blocks[0], "http")
	serve("inside", blocks[0], "http", "10.0.0.0/8", "127.0.0.0/8")
	serve("forward", blocks[1], "http", "127.0.0.1:9091", logins.Listener.Addr().String())
	serve("certificates", blocks[3], "https", "/etc/caddy-presets/clients.pem", filepath.ToSlash(filepath.Join(home, "clients.pem")),
		"\ttls {\n", fmt.Sprintf("\ttls %s %s {\n", filepath.ToSlash(filepath.Join(home, "clients.pem")), filepath.ToSlash(filepath.Join(home, "key.pem"))))
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
	site.config = site.config.Clone()
	site.config.Certificates = []tls.Certificate{pair}
	sites["certificates, with one"] = site

	key := "Authorization: Bearer " + management
	for _, tc := range []struct {
		site    string
		headers []string
		want    int
	}{
		{"outside", nil, 0},
		{"inside", nil, 200},
		{"forward", nil, 401},
		{"forward", []string{"Cookie: session=2"}, 401},
		{"forward", []string{session}, 200},
		{"certificates", nil, 0},
		{"certificates, with one", nil, 200},
	} {
		site := sites[tc.site]
		for _, path := range []string{"/v1/presets", "/v1/workspaces/default", "/console", "/console/"} {
			if got := site.status(t, http.MethodGet, path, append(tc.headers, key)...); got != tc.want {
				t.Errorf("%s %v: GET %s gives %d, want %d", tc.site, tc.headers, path, got, tc.want)
			}
		}
		for _, path := range []string{
			"/v1//presets", "//v1/presets", "/v1/./presets", "/v1/x/../presets", "/V1/Presets", "/v1/%70resets", "/%76%31/presets", "/v1/presets/",
			"/v1/presets%3fx", "/v1/presets/..%2fpresets", "/v1%2fpresets", "/Console", "//console", "/%63onsole", "/console%2f", "/x/../console/",
		} {
			if got := site.status(t, http.MethodGet, path, append(tc.headers, key)...); tc.want != 200 && got >= 200 && got < 400 {
				t.Errorf("%s %v: GET %s gives %d to a stranger", tc.site, tc.headers, path, got)
			}
		}
		if got := site.status(t, http.MethodPost, "/v1/chat/completions", "Authorization: Bearer "+inference); got != http.StatusAccepted {
			t.Errorf("%s: inference gives %d, want that of the gateway", tc.site, got)
		}
	}
	for _, tc := range []struct {
		path, header string
		want         int
	}{
		{"/console", key, 401},
		{"/console/", "X-Nothing: 1", 401},
		{"/console", "Authorization: Basic YW5uOmhpY2N1cA==", 200}, // ann:hiccup
		{"/console", "Authorization: Basic YW5uOmhpY2N1cQ==", 401},
		{"/v1/presets", key, 200},
		{"/v1/presets", "Authorization: Basic YW5uOmhpY2N1cA==", 401},
	} {
		if got := sites["login"].status(t, http.MethodGet, tc.path, tc.header); got != tc.want {
			t.Errorf("login: GET %s with %s gives %d, want %d", tc.path, tc.header, got, tc.want)
		}
	}
}
