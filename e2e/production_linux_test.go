package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// productionPage is the document that TestProductionPage runs.
const productionPage = "docs/production.md"

// productionCommands returns the commands of the page: those that install the server, and the
// others.
func productionCommands(t *testing.T) (install, others []documented) {
	t.Helper()
	all := documentedCommands(t, productionPage)
	last := slices.IndexFunc(all, func(c documented) bool { return c.command == "systemctl daemon-reload\n" })
	if last < 0 {
		t.Fatalf("%s installs nothing", productionPage)
	}
	return all[:last+1], all[last+1:]
}

// systemctl stands in for systemd, which does not run here. It does to one unit what its
// commands do: TestSystemdServer runs the unit's own command, and TestSystemdUnits checks the
// units by "systemd-analyze verify".
const systemctl = `#!/bin/sh
case "$*" in
'enable --now caddy-presets.socket caddy-presets.service caddy-presets-backup.timer') exec caddy start --config "$CONFIG" >>"$LOG" 2>&1 ;;
'restart caddy-presets')
	caddy stop >/dev/null 2>&1
	exec caddy start --config "$CONFIG" >>"$LOG" 2>&1
	;;
'reload caddy-presets') exec caddy reload --config "$CONFIG" --force >>"$LOG" 2>&1 ;;
esac
echo "systemctl $*: not known here"
exit 1
`

// runuser runs a command as the user of the test. The server's user does not exist here:
// TestSystemdInstall makes it below another root.
const runuser = `#!/bin/sh
[ "$1 $2 $3" = '-u caddy-presets --' ] && shift 3 && exec "$@"
`

// production is a machine as docs/production.md has it, in folders below one.
type production struct {
	home, caddyfile string
	site, metrics   string // addresses that the page calls by names
	ports           []*os.File
	script          *strings.Replacer
	shown           *strings.Replacer // the reverse
}

// fenced returns the only code block of a language in a document.
func fenced(t *testing.T, file, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(read(t, filepath.Join(root, filepath.FromSlash(file))), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks of %s, want one", file, len(found), language)
	}
	return found[0][1]
}

// write makes a file below home, which only the test's user can use.
func (p *production) write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.home, filepath.FromSlash(file)), []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// certify makes the certificate and the key of etcd's member, which are those of its client and
// of the authority, too.
func (p *production) certify(t *testing.T) {
	t.Helper()
	certificate, key := servertest.Certificate(t)
	for file, text := range map[string][]byte{"ca.pem": certificate, "presets.pem": certificate, "presets.key": key} {
		p.write(t, "etc/etcd/"+file, string(text))
	}
}

// productionCaddyfile returns the Caddyfile of the page with changes, and with an authority of Caddy's
// own.
func productionCaddyfile(t *testing.T, changes [][2]string) string {
	t.Helper()
	text := fenced(t, productionPage, "caddyfile")
	for _, change := range append(changes, [2]string{"{\n\temail", "{\n\tskip_install_trust\n\tpersist_config off\n\temail"}, [2]string{"\ttls {\n", "\ttls internal {\n"}) {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("the Caddyfile has %q %d times, want once", change[0], strings.Count(text, change[0]))
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text
}

// newProduction makes the folders, the tools and the configuration. The certificate comes from
// an authority of Caddy's own, since no public one can reach the test.
func newProduction(t *testing.T, gateway, etcd string) *production {
	t.Helper()
	p := &production{home: t.TempDir(), metrics: freeAddress(t)}
	p.ports, p.site = holdPorts(t)
	for _, folder := range []string{"etc/etcd", "state", "backups", "bin", "run", "ops/systemd"} {
		if err := os.MkdirAll(filepath.Join(p.home, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.write(t, "bin/systemctl", systemctl)
	p.write(t, "bin/runuser", runuser)
	// The binaries of two releases, and one with both engines.
	for file, build := range map[string]struct{ folder, version string }{
		"bin/caddy":                     {"", "v1.0.0"},
		"caddy_v1.1.0_linux_amd64":      {"", "v1.1.0"},
		"caddy-etcd_v1.0.0_linux_amd64": {"caddymodule/etcd", "v1.0.0"},
	} {
		given := "-X github.com/caddy-presets/caddy-presets/caddymodule/internal/version.given=" + build.version
		run(t, filepath.Join(root, build.folder), nil, "go", "build", "-ldflags", given, "-o", filepath.Join(p.home, file), "./cmd/caddy")
	}
	_, port, _ := net.SplitHostPort(p.site)
	_, metrics, _ := net.SplitHostPort(p.metrics)
	p.caddyfile = filepath.Join(p.home, "etc", "Caddyfile")
	rehearsal := freeAddress(t)
	pairs := [][2]string{
		{"https://presets.example.com", "https://presets.example.com:" + port},
		{"/etc/caddy-presets", filepath.Join(p.home, "etc")},
		{"/var/lib/caddy-presets", filepath.Join(p.home, "state")},
		{"/var/backups/caddy-presets", filepath.Join(p.home, "backups")},
		{"/run/caddy-presets", filepath.Join(p.home, "run")},
		{"/usr/local/bin", filepath.Join(p.home, "bin")},
		{"127.0.0.1:9180", p.metrics},
		{"127.0.0.1:8080", rehearsal},
		{"https://10.0.0.1:2379 https://10.0.0.2:2379 https://10.0.0.3:2379", "https://" + etcd},
	}
	var here, there []string
	for _, pair := range pairs {
		here, there = append(here, pair[0], pair[1]), append(there, pair[1], pair[0])
	}
	p.script, p.shown = strings.NewReplacer(here...), strings.NewReplacer(there...)
	p.write(t, "etc/etcd.conf", p.script.Replace(fenced(t, productionPage, "text")))
	// A second server beside the first has ports of its own.
	p.write(t, "ops/systemd/Caddyfile", strings.NewReplacer("/var/lib/caddy-presets", filepath.Join(p.home, "state"),
		"http://:8080", "http://"+rehearsal, "http://:9180", "http://"+freeAddress(t)).Replace(read(t, filepath.Join(systemdFolder, "Caddyfile"))))

	p.certify(t)
	p.write(t, "etc/Caddyfile", p.script.Replace(productionCaddyfile(t, [][2]string{
		{"presets.example.com {\n", "presets.example.com:" + port + " {\n"},
		{"http://:9180", "http://:" + metrics},
		{"reverse_proxy 127.0.0.1:8000", "reverse_proxy " + gateway},
	})))
	p.write(t, ".curlrc", fmt.Sprintf("resolve = presets.example.com:%s:127.0.0.1\ncacert = %s\n", port, p.authority()))
	return p
}

// authority is the file of the authority that signs the site's certificate.
func (p *production) authority() string {
	return filepath.Join(p.home, "caddy", "pki", "authorities", "local", "root.crt")
}

// env are the variables of the unit, and those of the stand-in for systemctl.
func (p *production) env() []string {
	return []string{
		"HOME=" + p.home, "XDG_DATA_HOME=" + p.home, "XDG_CONFIG_HOME=" + p.home, "CADDY_ADMIN=unix/" + filepath.Join(p.home, "run", "admin.sock"),
		"PATH=" + filepath.Join(p.home, "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"CONFIG=" + p.caddyfile, "LOG=" + filepath.Join(p.home, "log"),
	}
}

// varying are the parts of outputs that differ between runs, and what both sides get instead.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`presets-\d{8}T\d{6}\.\d{3}Z`), "presets-<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`sha256:[0-9a-f]+…?`), "<digest>"},
	{regexp.MustCompile(`in [0-9.]+m?s\b`), "in <duration>"},
	{regexp.MustCompile(`[0-9.]+ ([KM]i)?B\b`), "<size>"},
	{regexp.MustCompile(`go_version="[^"]*"`), "<version of Go>"},
	{regexp.MustCompile(`commit \d+`), "commit <number>"},
	{regexp.MustCompile(`\d+ (records|tables|rows of usage)\b`), "<number> $1"}, // usage is stored every ten seconds
}

// comparable replaces what varies.
func comparable(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// TestProductionPage runs every command of docs/production.md behind the installation in one
// shell, in the order of the page. It compares their output with the page. Folders, ports and the
// gateway are those of the test. The server and etcd are real.
//
// Replaced are systemctl and runuser, for reasons that their stand-ins tell, and the public
// certificate. The Caddyfile as it is on the page is adapted, too: it gets its certificate by
// ACME.
func TestProductionPage(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		servertest.Tool(t, tool, tool)
	}
	etcd := freeAddress(t)
	gateway := newUpstream(t)
	p := newProduction(t, gateway.address(), etcd)
	folder := filepath.Join(p.home, "etc", "etcd")
	servertest.Serve(t, exec.CommandContext(wait.Command(t), servertest.Etcd(t), "--data-dir", t.TempDir(), "--listen-client-urls", "https://"+etcd, "--advertise-client-urls", "https://"+etcd,
		"--listen-peer-urls", "http://"+freeAddress(t), "--client-cert-auth", "--trusted-ca-file", filepath.Join(folder, "ca.pem"),
		"--cert-file", filepath.Join(folder, "presets.pem"), "--key-file", filepath.Join(folder, "presets.key")), etcd)
	t.Cleanup(func() { _, _, _ = try(t, p.home, p.env(), filepath.Join(p.home, "bin", "caddy"), "stop") }) // before etcd
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(p.home, "log")); err == nil && t.Failed() {
			t.Logf("caddy said:\n%s", log)
		}
	})
	p.checkAdapted(t)

	_, commands := productionCommands(t) // TestSystemdInstall runs the first ones
	if len(commands) < 40 {
		t.Fatalf("found %d commands", len(commands))
	}
	const separator = "\x1f"
	script := "exec 2>&1\ntrap 'echo \"exit code $?\"' ERR\n" // so a failure is a part of the output
	for _, c := range commands {
		script += "printf '" + separator + "'\n" + p.script.Replace(c.command)
	}
	script += "printf '" + separator + "%s %s' \"$KEY\" \"$IKEY\"\n"
	cmd := exec.CommandContext(wait.Command(t), "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = p.home, append(os.Environ(), p.env()...), p.ports // the servers inherit them
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	printed := string(output)
	outputs := strings.Split(printed, separator)[1:]
	if len(outputs) != len(commands)+1 {
		t.Fatalf("got %d outputs of %d commands:\n%s", len(outputs), len(commands), printed)
	}
	for i, c := range commands {
		if got := p.shown.Replace(outputs[i]); comparable(got) != comparable(c.output) {
			t.Errorf("$ %s got\n%swant\n%s", c.command, got, c.output)
		}
	}
	management, inference, _ := strings.Cut(outputs[len(commands)], " ")
	p.checkBrowser(t, gateway, management, inference)
}

// checkAdapted adapts the Caddyfile as it is on the page, and as it says without web pages. Its
// site gets a certificate by ACME.
func (p *production) checkAdapted(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	adapt := func(caddyfile string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(caddyfile), 0o600); err != nil {
			t.Fatal(err)
		}
		adapted, said, err := try(t, p.home, p.env(), filepath.Join(p.home, "bin", "caddy"), "adapt", "--config", file)
		if err != nil || said != "" {
			t.Errorf("the Caddyfile of the page: %v\n%s\n%s", err, said, caddyfile)
		}
		return adapted
	}
	page := fenced(t, productionPage, "caddyfile")
	without := page
	for _, part := range []string{`(?s)\t@browser .*respond @preflight[^\n]*\n`, `(?s)\t@keyed not \{.*?\n\t\}\n`, ` @keyed\b`} {
		without = regexp.MustCompile(part).ReplaceAllString(without, "")
	}
	if left := adapt(without); !strings.Contains(left, `"handler":"presets"`) || strings.Contains(left, "app.example.com") || strings.Contains(left, "OPTIONS") {
		t.Errorf("without web pages, the Caddyfile leads to:\n%s", left)
	}
	adapted := adapt(page)
	for _, part := range []string{`"host":["presets.example.com"]`, `"module":"acme"`, `"email":"admin@example.com"`, `"folder":"/var/lib/caddy-presets/presets"`, `"dial":"127.0.0.1:8000"`} {
		if !strings.Contains(adapted, part) {
			t.Errorf("the Caddyfile of the page lacks %s, adapted:\n%s", part, adapted)
		}
	}
}

// checkBrowser sends requests as a browser does: a preflight, and the request with a key. It
// checks what the browser's page may read.
func (p *production) checkBrowser(t *testing.T, gateway *upstream, management, inference string) {
	t.Helper()
	text, err := os.ReadFile(p.authority())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	_, port, _ := net.SplitHostPort(p.site)
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.site)
		},
	}
	defer transport.CloseIdleConnections()
	const allowed, other = "https://app.example.com", "https://evil.example.com"
	for _, tc := range []struct {
		name, method, path, origin, key, body string
		preflight                             bool
		status                                int
		allow                                 string // the origin that the answer allows
	}{
		{"preflight of the API", "PATCH", "/v1/presets/greeting", allowed, "", "", true, 204, allowed},
		{"preflight of inference", "POST", "/v1/chat/completions", allowed, "", "", true, 204, allowed},
		{"preflight of another route", "GET", "/v1/models", allowed, "", "", true, 204, allowed},
		{"request of the API", "PATCH", "/v1/presets/greeting", allowed, management, `{"description":"Hello"}`, false, 200, allowed},
		{"request of inference", "POST", "/v1/chat/completions", allowed, inference, `{"model":"@preset/greeting","messages":[]}`, false, 200, allowed},
		{"request of the API without a key", "GET", "/v1/presets/greeting", allowed, "", "", false, 401, allowed},
		{"request of inference without a key", "POST", "/v1/chat/completions", allowed, "", `{}`, false, 401, allowed},
		{"OPTIONS that is no preflight", "OPTIONS", "/v1/models", allowed, "", "", false, 401, allowed},
		{"preflight of another origin", "POST", "/v1/chat/completions", other, "", "", true, 401, ""},
		{"preflight of another origin to the API", "PATCH", "/v1/presets/greeting", other, "", "", true, 405, ""},
		{"request of another origin", "GET", "/v1/presets/greeting", other, management, "", false, 200, ""},
	} {
		before := len(gateway.received())
		method := tc.method
		if tc.preflight {
			method = http.MethodOptions
		}
		request, err := http.NewRequestWithContext(t.Context(), method, "https://presets.example.com:"+port+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Origin", tc.origin)
		if tc.preflight {
			request.Header.Set("Access-Control-Request-Method", tc.method)
			request.Header.Set("Access-Control-Request-Headers", "authorization,content-type,if-match,x-stainless-os")
		}
		if tc.body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		if tc.key != "" {
			request.Header.Set("Authorization", "Bearer "+tc.key)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		header := response.Header
		if got := header.Values("Access-Control-Allow-Origin"); response.StatusCode != tc.status || strings.Join(got, " ") != tc.allow {
			t.Errorf("%s: got %d %.200s for the origins %q, want %d for %q", tc.name, response.StatusCode, answer, got, tc.status, tc.allow)
		}
		if vary := strings.Join(header.Values("Vary"), ","); tc.allow != "" && !strings.Contains(vary, "Origin") {
			t.Errorf("%s: got Vary %q, want Origin", tc.name, vary)
		}
		if tc.preflight && tc.status == 204 &&
			(!strings.Contains(header.Get("Access-Control-Allow-Methods"), tc.method) || !strings.Contains(header.Get("Access-Control-Allow-Headers"), "x-stainless-os")) {
			t.Errorf("%s: got %v, which allows too little", tc.name, header)
		}
		reached := len(gateway.received()) - before
		if want := map[bool]int{true: 1}[tc.key == inference && inference != ""]; reached != want {
			t.Errorf("%s: %d requests reached the gateway, want %d", tc.name, reached, want)
		}
	}
}
