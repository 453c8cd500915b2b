package etcd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// document returns a file of the documents.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// issue makes the certificates of docs/cluster.md in a folder, with its script, and those of more users.
func issue(t *testing.T, folder string, users ...string) {
	t.Helper()
	servertest.Tool(t, "openssl", "openssl")
	cmd := exec.CommandContext(wait.Command(t), "../../docs/cluster/certificates", folder, "127.0.0.1")
	cmd.Env = append(os.Environ(), "USERS=presets root "+strings.Join(users, " "))
	out, err := cmd.CombinedOutput()
	for _, suffix := range []string{".pem", ".key"} {
		err = errors.Join(err, os.Rename(filepath.Join(folder, "member-127.0.0.1"+suffix), filepath.Join(folder, "member"+suffix)))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	secrets, err := filepath.Glob(filepath.Join(folder, "*.key"))
	if err != nil || len(secrets) != 4+len(users) {
		t.Fatalf("got the keys %q, %v", secrets, err)
	}
	for _, file := range secrets {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want a file for its owner", file, info, err)
		}
	}
}

// startUnits starts three members with the command of docs/cluster/etcd.service, on
// loopback addresses and with certificates in a folder. It returns the members, the
// addresses for clients and those of their metrics.
func startUnits(t *testing.T, folder string) (members []*exec.Cmd, clients, monitored []string) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/etcd ((?:.*\\\n)*.*)$`).FindStringSubmatch(document(t, "cluster/etcd.service"))
	if found == nil {
		t.Fatal("etcd.service does not start etcd")
	}
	args := strings.Fields(strings.ReplaceAll(found[1], "\\\n", " "))
	var peers, all []string
	for _, name := range []string{"a", "b", "c"} {
		clients, peers, monitored = append(clients, freeAddress(t)), append(peers, freeAddress(t)), append(monitored, freeAddress(t))
		all = append(all, name+"=https://"+peers[len(peers)-1])
	}
	for i, name := range []string{"a", "b", "c"} {
		replace := strings.NewReplacer("${NAME}", name, "${ADDRESS}:2379", clients[i], "${ADDRESS}:2380", peers[i], "${CLUSTER}", strings.Join(all, ","),
			"127.0.0.1:2381", monitored[i], "/var/lib/etcd/presets", filepath.Join(folder, name), "/etc/etcd", folder)
		var own []string
		for _, arg := range args {
			own = append(own, replace.Replace(arg))
		}
		log, err := os.Create(filepath.Join(folder, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, own...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		members = append(members, cmd)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			log.Close()
			if text, _ := os.ReadFile(log.Name()); t.Failed() {
				t.Logf("%s: %s", name, text[max(0, len(text)-2000):])
			}
		})
	}
	return members, clients, monitored
}

// administrate makes the users of docs/cluster.md. It acts as the user root, with the
// certificate in folder.
func administrate(t *testing.T, folder string, clients []string) {
	t.Helper()
	config, err := (&TLS{CAFile: filepath.Join(folder, "ca.pem"), CertFile: filepath.Join(folder, "root.pem"), KeyFile: filepath.Join(folder, "root.key")}).config()
	if err != nil {
		t.Fatal(err)
	}
	var endpoints []string
	for _, address := range clients {
		endpoints = append(endpoints, "https://"+address)
	}
	admin, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	ctx := wait.Context(t)
	noPassword := &clientv3.UserAddOptions{NoPassword: true}
	_, err1 := admin.RoleAdd(ctx, "presets")
	_, err2 := grant(ctx, admin)
	_, err3 := admin.UserAddWithOptions(ctx, "presets", "", noPassword)
	_, err4 := admin.UserGrantRole(ctx, "presets", "presets")
	_, err5 := admin.UserAddWithOptions(ctx, "root", "", noPassword)
	_, err6 := admin.UserGrantRole(ctx, "root", "root")
	_, err7 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentedUnits runs a cluster as docs/cluster.md describes it for machines: with its
// unit, its users and its Caddyfile.
func TestDocumentedUnits(t *testing.T) {
	if program == "" {
		t.Skip(servertest.NoEtcd)
	}
	folder := t.TempDir()
	issue(t, folder, "stranger")
	members, clients, monitored := startUnits(t, folder)
	administrate(t, folder, clients)

	s := newServer(t, 1)
	watched := caddytest.Address(t)
	t.Setenv("PRESETS_ETCD", "https://"+strings.Join(clients, " https://"))
	t.Setenv("PRESETS_UPSTREAM", s.Upstream.Listener.Addr().String())
	_, sites, _ := strings.Cut(document(t, "cluster/Caddyfile"), "\n}\n") // the global options are the server's
	text := strings.NewReplacer("/etc/caddy-presets/etcd", filepath.ToSlash(folder),
		"http://:8080 {", "http:// {\n\tbind "+s.Address, "http://:9180 {", "http:// {\n\tbind "+watched).Replace(sites)
	if err := s.Load(text); err != nil {
		t.Fatal(err)
	}
	s.want(200, 0, "", "GET", "/alive", "")
	s.want(200, 0, "", "GET", "/healthz", "")
	key, inference := s.Issue(`{"kind":"management"}`).Secret, s.Issue(`{"kind":"inference"}`).Secret
	for n := range 2 {
		model := fmt.Sprintf("acme/m%d", n)
		if n > 0 { // one member is away
			if err := members[0].Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		wait.Until(t, "no version is made", func() bool {
			return s.Do("POST", "/v1/presets/p/chat/completions", `{"model":"`+model+`","messages":[]}`, caddytest.Bearer(key)).Status == 200
		})
		if got := s.want(202, 0, inference, "POST", "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`); !strings.Contains(got, model) {
			t.Errorf("got %s, want %s in it", got, model)
		}
	}

	// The metrics have the names and values that the page describes.
	page := document(t, "cluster.md")
	shown := caddytest.Send(t, watched, "GET", "/metrics", "").Body
	described := make(chan *prometheus.Desc, 100)
	ours := regexp.MustCompile("`(caddy_presets_etcd_[a-z_]+)`")
	(metrics{}).Describe(described)
	if want, got := len(described), len(unique(ours.FindAllString(page, -1))); got != want {
		t.Errorf("cluster.md has %d metrics, there are %d", got, want)
	}
	for _, name := range ours.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(shown, "\n"+name[1]+"{") {
			t.Errorf("there is no metric %s", name[1])
		}
	}
	theirs := get(t, "http://"+monitored[1]+"/metrics")
	for _, name := range regexp.MustCompile("`(etcd_[a-z_]+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(theirs, "\n# TYPE "+name[1]+" ") {
			t.Errorf("etcd has no metric %s", name[1])
		}
	}

	// Another certificate of the same authority may not read the store.
	if err := s.Load(strings.ReplaceAll(text, "/presets.", "/stranger.")); err != nil {
		t.Fatal(err)
	}
	s.want(503, 0, "", "GET", "/healthz", "")
}

// get returns the answer to a GET.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: got %d, %v, %s", url, response.StatusCode, err, text)
	}
	return string(text)
}

func unique(texts []string) map[string]bool {
	all := make(map[string]bool)
	for _, text := range texts {
		all[text] = true
	}
	return all
}

// TestCaddyfileAdaptation adapts Caddyfiles with the texts of a build with both engines.
func TestCaddyfileAdaptation(t *testing.T) {
	caddytest.Adaptations(t, "testdata/caddyfile", *update)
}

// TestUnknownEngine loads JSON with an engine that is not in the build.
func TestUnknownEngine(t *testing.T) {
	const want = `storage: there is no engine "mongo"; this build has badger and etcd`
	err := caddy.Load([]byte(`{"admin":{"disabled":true,"config":{"persist":false}},"apps":{"http":{"servers":{"s":{
		"listen":["unix/`+filepath.ToSlash(filepath.Join(t.TempDir(), "s"))+`"],
		"routes":[{"handle":[{"handler":"presets","storage":{"engine":"mongo"}}]}]}}}}}`), true)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestDocumentedCaddyfilesLeakNoKey loads the documents' Caddyfiles that store in etcd.
// They work and leak no key.
func TestDocumentedCaddyfilesLeakNoKey(t *testing.T) {
	documents := caddytest.DocumentedCaddyfiles(t, "../..", true)
	for _, name := range []string{"docs/cluster/Caddyfile", "docs/cluster/compose.Caddyfile", "docs/cluster.md, block 1"} {
		if documents[name] == "" {
			t.Errorf("%s does not store in etcd", name)
		}
	}
	caddytest.LeaksNoKey(t, documents, func(t *testing.T) string {
		folder, err := os.MkdirTemp(os.Getenv("XDG_DATA_HOME"), "store-") // removed by TestMain
		if err != nil {
			t.Fatal(err)
		}
		return folder
	})
}

// TestDocumentedOptions checks that the documents describe every option.
func TestDocumentedOptions(t *testing.T) {
	page := document(t, "cluster.md")
	for _, option := range []string{"endpoints", "prefix", "username", "password", "tls", "ca", "certificate", "server_name", "request_timeout", "max_staleness"} {
		if !strings.Contains(page, "`"+option+"`") {
			t.Errorf("cluster.md does not have the option %s", option)
		}
	}
}
