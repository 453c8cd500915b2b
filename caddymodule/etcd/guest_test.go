package etcd

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

const password = "password-of-the-tests"

func TestCaddyfile(t *testing.T) {
	for name, test := range map[string]struct{ input, want string }{
		"all": {`etcd {
			endpoints https://a:2379 b:2379
			prefix p/
			username u
			password ` + password + `
			tls {
				ca ca.pem
				certificate c.pem c.key
				server_name n
			}
			request_timeout 2s
			max_staleness 3s
		}`, `{"endpoints":["https://a:2379","b:2379"],"prefix":"p/","username":"u","password":"` + password + `","tls":{"ca_file":"ca.pem","cert_file":"c.pem","key_file":"c.key","server_name":"n"},"request_timeout":2000000000,"max_staleness":3000000000}`},
		"endpoints behind the name": {"etcd a:1 b:2", `{"endpoints":["a:1","b:2"]}`},
		"both":                      {"etcd a:1 {\nprefix p\n}", `{"endpoints":["a:1"],"prefix":"p"}`},
		"tls without options":       {"etcd a:1 {\ntls {\n}\n}", `{"endpoints":["a:1"],"tls":{}}`},
		"placeholders":              {"etcd a:1 {\nusername {env.U}\npassword {env.P}\n}", `{"endpoints":["a:1"],"username":"{env.U}","password":"{env.P}"}`},
	} {
		e := new(Etcd)
		if err := e.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.input)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(e)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, test.want)
		}
		again := new(Etcd)
		if err := json.Unmarshal(got, again); err != nil {
			t.Error(err)
		}
		if text, _ := json.Marshal(again); string(text) != string(got) {
			t.Errorf("%s: %s became %s", name, got, text)
		}
	}
}

func TestCaddyfileErrors(t *testing.T) {
	for input, want := range map[string]string{
		"etcd":                                             "endpoints are missing",
		"etcd {\nprefix p\n}":                              "endpoints are missing",
		"etcd {\nendpoints\n}":                             "endpoints wants",
		"etcd a:1 {\nendpoints b:1\n}":                     "behind the engine's name, too",
		"etcd a:1 {\nprefix\n}":                            "prefix wants one argument, a prefix, got 0",
		"etcd a:1 {\nprefix a b\n}":                        "prefix wants one argument, a prefix, got 2",
		"etcd a:1 {\nprefix \"\"\n}":                       "prefix wants a prefix, got nothing between the quotes",
		"etcd a:1 {\nprefix a\nprefix b\n}":                "prefix is given more than once",
		"etcd a:1 {\nusername\n}":                          "username wants one argument",
		"etcd a:1 {\npassword\n}":                          "password wants one argument",
		"etcd a:1 {\npassword x " + password + "\n}":       "password wants one argument, a password, got 2",
		"etcd a:1 {\npassword " + password + " {\nx\n}\n}": "password takes no block",
		"etcd a:1 {\npassword " + password + "\npassword " + password + "\n}": "password is given more than once",
		"etcd a:1 {\nrequest_timeout x\n}":                                    "request_timeout must be a duration",
		"etcd a:1 {\nrequest_timeout 0s\n}":                                   "request_timeout must be a duration",
		"etcd a:1 {\nmax_staleness -1s\n}":                                    "max_staleness must be a duration",
		"etcd a:1 {\nwhat x\n}":                                               `unrecognized subdirective "what"`,
		"etcd a:1 {\ntls x\n}":                                                "tls takes a block and no argument",
		"etcd a:1 {\ntls {\nca\n}\n}":                                         "tls: ca wants one argument",
		"etcd a:1 {\ntls {\nca a\nca b\n}\n}":                                 "tls: ca is given more than once",
		"etcd a:1 {\ntls {\ncertificate a\n}\n}":                              "tls: certificate wants two files",
		"etcd a:1 {\ntls {\nserver_name\n}\n}":                                "tls: server_name wants one argument",
		"etcd a:1 {\ntls {\nwhat\n}\n}":                                       `tls: unrecognized subdirective "what"`,
	} {
		err := new(Etcd).UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("%q: got error %v, want %q", input, err, want)
		}
	}
}

// TestPlaceholders checks that placeholders are replaced in all texts when the
// configuration is provisioned.
func TestPlaceholders(t *testing.T) {
	for _, name := range []string{"A", "B", "C", "D", "E", "F", "G", "H"} {
		t.Setenv("PRESETS_TEST_"+name, "value-"+name)
	}
	of := func(name string) string { return "{env.PRESETS_TEST_" + name + "}" }
	e := &Etcd{Endpoints: []string{of("A"), "b"}, Prefix: of("B"), Username: of("C"), Password: of("D"), TLS: &TLS{of("E"), of("F"), of("G"), of("H")}}
	got, err := e.replace(caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got)
	if want := `{"endpoints":["value-A","b"],"prefix":"value-B","username":"value-C","password":"value-D","tls":{"ca_file":"value-E","cert_file":"value-F","key_file":"value-G","server_name":"value-H"}}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if e.Endpoints[0] != of("A") || e.TLS.CAFile != of("E") {
		t.Errorf("the configuration was changed: %v", e)
	}
	for _, secret := range []string{"{env.PRESETS_TEST_NONE}", "a{" + password + "}b"} {
		_, err := (&Etcd{Endpoints: []string{"a"}, Username: "u", Password: secret}).replace(caddy.NewReplacer())
		if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "password:") {
			t.Errorf("got error %v, want one about the password that does not show it", err)
		}
	}
}

func TestOptionErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, e := range map[string]*Etcd{
		"at least one is needed": {},
		"endpoints/1":            {Endpoints: []string{"a:1", ""}},
		"no user or password":    {Endpoints: []string{"http://u:" + password + "@a:1"}},
		"given without":          {Endpoints: []string{"a:1"}, Password: password},
		"without the other":      {Endpoints: []string{"a:1"}, Username: "u"},
		"must be positive":       {Endpoints: []string{"a:1"}, RequestTimeout: -1},
		"at least 100ms":         {Endpoints: []string{"a:1"}, MaxStaleness: caddy.Duration(99 * time.Millisecond)},
		"endpoints/1: must have": {Endpoints: []string{"https://a:1", "b:1"}, Username: "u", Password: password},
		"must be an http or":     {Endpoints: []string{"ftp://a"}},
		"must not be http, as":   {Endpoints: []string{"http://a:1"}, TLS: new(TLS)},
		"tls/ca_file":            {Endpoints: []string{"a:1"}, TLS: &TLS{CAFile: empty + "-not"}},
		"no certificate in":      {Endpoints: []string{"a:1"}, TLS: &TLS{CAFile: empty}},
		"tls/cert_file":          {Endpoints: []string{"a:1"}, TLS: &TLS{CertFile: empty, KeyFile: empty}},
	} {
		if _, err := e.options(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// TestEndpoints checks which endpoints are accepted. Endpoints that can never work are refused.
func TestEndpoints(t *testing.T) {
	for isGood, endpoints := range map[bool][]string{
		true: {
			"127.0.0.1:2379", "http://127.0.0.1:2379", "https://127.0.0.1:2379/", "etcd_a.example.com:1", "http://etcd-a:65535",
			"[::1]:2379", "https://[2001:db8::1]:2379", "http://[fe80::1%25eth0]:2379",
		},
		false: {
			"http://127.0.0.1", "127.0.0.1", "http://:2379", "::1:2379", "https://[::1]", "http://127.0.0.1/path", "127.0.0.1:notaport",
			"http://127.0.0.1:99999", "http://127.0.0.1:0", "127.0.0.1:", "127.0.0.1:-1", "http://127.0.0.1:27500/path", "http://127.0.0.1:27500//",
			"http://127.0.0.1:27500?x=y", "http://127.0.0.1:27500#x", "127.0.0.1:27500/", "a b:2379", "http://a%20b:2379", "http://[fe80::1%eth0]:2379",
			"unix:/run/etcd.sock", "unix:///run/etcd.sock", "http://http://127.0.0.1:2379",
		},
	} {
		for _, endpoint := range endpoints {
			_, err := (&Etcd{Endpoints: []string{endpoint}}).options()
			if (err == nil) != isGood || err != nil && !strings.Contains(err.Error(), "must be an http or https URL, or host:port") {
				t.Errorf("%s: got error %v", endpoint, err)
			}
		}
	}
	t.Setenv("PRESETS_TEST_ENDPOINT", "127.0.0.1:notaport")
	s := newServer(t, 1)
	if err := s.load("{env.PRESETS_TEST_ENDPOINT}"); err == nil || !strings.Contains(err.Error(), `endpoints/0: "127.0.0.1:notaport" must be`) {
		t.Errorf("got error %v, want one that names the endpoint", err)
	}
}

// TestServer runs two nodes that share a store, and uses them through HTTP.
func TestServer(t *testing.T) {
	c := newCluster(t)
	c.start()
	s := newServer(t, 2)
	// Other options give another connection, as on another node.
	stores := []string{c.address + " {\nrequest_timeout 40s\n}", c.address}
	if err := s.load(stores...); err != nil {
		t.Fatal(err)
	}
	s.want(200, 0, caddytest.ManagementSecret, "POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`)
	if got := s.want(200, 1, caddytest.ManagementSecret, "GET", "/v1/presets/p", ""); !strings.Contains(got, "acme/large") {
		t.Errorf("the other node shows %s", got)
	}
	for _, model := range []string{"acme/one", "acme/two", "acme/three"} {
		s.want(200, 0, caddytest.ManagementSecret, "POST", "/v1/presets/p/chat/completions", `{"model":"`+model+`","messages":[]}`)
		wait.Until(t, "the other node resolves an older version", func() bool {
			return strings.Contains(s.want(202, 1, caddytest.InferenceSecret, "POST", "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`), model)
		})
	}
	before := clusters.InUse()
	for range 3 {
		if err := s.load(stores...); err != nil {
			t.Fatal(err)
		}
	}
	if after := clusters.InUse(); !maps.EqualFunc(after, before, func(_, _ int) bool { return true }) {
		t.Errorf("after reloads there are %d connections, or others", len(after))
	}
	s.want(200, 1, caddytest.ManagementSecret, "GET", "/v1/presets/p", "")
	if got := s.Metric(`caddy_presets_etcd_available{store="etcd ` + c.address + ` caddy-presets/"}`); got != "1" {
		t.Errorf("the metrics say %q, and not that the cluster answers", got)
	}
	verified := s.Admin("POST", "/presets/verify?store="+url.QueryEscape("etcd "+c.address+" "+prefix), "")
	if verified.Want(t, 200, `"damaged":false`); strings.Contains(verified.Body, `"records":0`) {
		t.Errorf("verify: got %s, want some records", verified.Body)
	}
	// One of the two nodes stops.
	s.sites = s.sites[:1]
	if err := s.load(stores...); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "several connections are left", func() bool { return len(clusters.InUse()) == 1 })
}

// TestClusterAway starts Caddy while the cluster does not answer.
func TestClusterAway(t *testing.T) {
	c := newCluster(t)
	s := newServer(t, 1)
	t.Setenv("PRESETS_TEST_PASSWORD", password)
	if err := s.load(c.address + " {\nrequest_timeout 2s\nmax_staleness 2s\nusername u\npassword {env.PRESETS_TEST_PASSWORD}\n}"); err != nil {
		t.Fatalf("a cluster that is away keeps the server from starting: %v", err)
	}
	check := func() {
		t.Helper()
		s.want(503, 0, caddytest.ManagementSecret, "GET", "/v1/presets", "")
		s.want(503, 0, caddytest.InferenceSecret, "POST", "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`)
		s.want(202, 0, caddytest.InferenceSecret, "POST", "/v1/chat/completions", `{"model":"acme/large","messages":[]}`)
		s.want(202, 0, caddytest.InferenceSecret, "GET", "/v1/files", "")
	}
	heals := func() {
		t.Helper()
		wait.Until(t, "the store stays unavailable", func() bool { return s.Manage("GET", "/v1/presets", "").Status == 200 })
	}
	check()
	c.start()
	heals()
	s.want(200, 0, caddytest.ManagementSecret, "POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`)
	c.kill()
	wait.Until(t, "presets resolve long after the cluster ended", func() bool {
		return s.Do("POST", "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`, caddytest.Bearer(caddytest.InferenceSecret)).Status == 503
	})
	check()
	c.start()
	heals()
	s.want(202, 0, caddytest.InferenceSecret, "POST", "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`)
	if logs := s.Logs(); strings.Contains(logs, password) {
		i := strings.Index(logs, password)
		t.Errorf("the log shows the password: %s", logs[max(0, i-600):i+100])
	} else if !strings.Contains(logs, "the cluster does not answer") || !strings.Contains(logs, "the cluster answers") {
		t.Error("the log does not say that the cluster was away")
	}
}

// TestRefused uses a cluster that refuses the user or lacks a permission for it. The server
// starts, logs the reason, and recovers once the permission is granted. A later refusal of
// a change leaves the data in memory valid.
func TestRefused(t *testing.T) {
	c := newCluster(t)
	c.start()
	root := c.users(false)
	s := newServer(t, 1)
	t.Setenv("PRESETS_TEST_PASSWORD", password)
	storage := c.address + " {\nusername presets\npassword {env.PRESETS_TEST_PASSWORD}\nmax_staleness 1m\n}"
	for range 2 { // a start and a reload
		if err := s.load(storage); err != nil {
			t.Fatalf("a password that the cluster does not take is refused: %v", err)
		}
		s.want(503, 0, caddytest.ManagementSecret, "GET", "/v1/presets", "")
		s.want(202, 0, caddytest.InferenceSecret, "POST", "/v1/chat/completions", `{"model":"acme/large","messages":[]}`)
	}
	says := func(cause string) {
		t.Helper()
		said := func() bool {
			for line := range strings.Lines(s.Logs()) {
				if strings.Contains(line, "the cluster answers, but the store cannot be opened") && strings.Contains(line, cause) {
					return true
				}
			}
			return false
		}
		if !wait.Eventually(said) {
			t.Fatalf("the log does not say %q", cause)
		}
	}
	says("authentication failed")
	if _, err := root.UserChangePassword(t.Context(), "presets", password); err != nil {
		t.Fatal(err)
	}
	says("permission denied")
	s.want(503, 0, caddytest.ManagementSecret, "GET", "/v1/presets", "")
	if _, err := grant(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the store stays unavailable", func() bool { return s.Manage("GET", "/v1/presets", "").Status == 200 })
	logs, told := s.Logs(), ""
	for line := range strings.Lines(logs) {
		var entry struct{ Msg, Error string }
		if !strings.Contains(line, "the store cannot be opened") && !strings.Contains(line, "the cluster does not answer") {
			continue
		} else if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		// On an overloaded machine the cluster may fail to answer in between.
		if tells := entry.Msg + entry.Error; tells == told {
			t.Errorf("the log says twice %q", tells)
		} else {
			told = tells
		}
	}
	if strings.Contains(logs, password) {
		t.Error("the log shows the password")
	}
	const create, resolve = "/v1/presets/p/chat/completions", "/v1/chat/completions"
	s.want(200, 0, caddytest.ManagementSecret, "POST", create, `{"model":"acme/large","messages":[]}`)
	s.want(202, 0, caddytest.InferenceSecret, "POST", resolve, `{"model":"@preset/p","messages":[]}`)
	if _, err := root.RoleRevokePermission(t.Context(), "presets", prefix, clientv3.GetPrefixRangeEnd(prefix)); err != nil {
		t.Fatal(err)
	}
	s.want(503, 0, caddytest.ManagementSecret, "POST", create, `{"model":"acme/small","messages":[]}`)
	s.want(202, 0, caddytest.InferenceSecret, "POST", resolve, `{"model":"@preset/p","messages":[]}`)
}

// TestDependencies checks that the main module does not depend on etcd's client.
func TestDependencies(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "go.etcd.io/etcd") || strings.Contains(name, "caddymodule/etcd") {
			t.Errorf("the main module has package %s", name)
		}
	}
}

// TestMemory checks that the engine gets half of the setting memory, also after a reload.
func TestMemory(t *testing.T) {
	c := newCluster(t)
	c.start()
	s := newServer(t, 1)
	used := func() (bytes float64) {
		text := s.Metric(`caddy_presets_etcd_memory_bytes{store="etcd ` + c.address + ` caddy-presets/"}`)
		bytes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	if err := s.load(c.address + "\nmemory 4MiB"); err != nil {
		t.Fatal(err)
	}
	prompt := strings.Repeat("p", 60<<10)
	for i := range 50 {
		s.want(http.StatusOK, 0, caddytest.ManagementSecret, http.MethodPost, fmt.Sprintf("/v1/presets/p-%d/chat/completions", i),
			`{"model": "m", "messages": [{"role": "system", "content": "`+prompt+`"}]}`)
	}
	if got := used(); got < 1<<20 || got > 2<<20 {
		t.Errorf("got %v bytes of records, want between 1 and 2 MiB", got)
	}
	if err := s.load(c.address + "\nmemory 1MiB"); err != nil {
		t.Fatal(err)
	}
	if !wait.Eventually(func() bool { return used() <= 512<<10 }) {
		t.Fatalf("got %v bytes of records after a reload, want at most 512 KiB", used())
	}
	s.want(http.StatusOK, 0, caddytest.ManagementSecret, http.MethodGet, "/v1/presets/p-1", "")
}

// TestLogAfterReload checks where a store logs after a reload that changed the log's
// output.
func TestLogAfterReload(t *testing.T) {
	c := newCluster(t)
	c.start()
	s := newServer(t, 1)
	storage := c.address + " {\nmax_staleness 1s\nrequest_timeout 1s\n}"
	if err := s.load(storage); err != nil {
		t.Fatal(err)
	}
	first := s.LogFile
	s.LogFile = filepath.Join(t.TempDir(), "second")
	if err := s.load(storage); err != nil {
		t.Fatal(err)
	}
	c.kill()
	const stale = "etcd has not answered for max_staleness"
	if !wait.Eventually(func() bool { return strings.Contains(s.Logs(), stale) }) {
		t.Fatal("the log in use does not say that the store is stale")
	}
	if text, err := os.ReadFile(first); err != nil || strings.Contains(string(text), stale) {
		t.Errorf("the former log says it, too (%v)", err)
	}
	if !strings.Contains(s.Logs(), `"logger":"http.handlers.presets.storage.etcd"`) {
		t.Error("the log does not say who says it")
	}
}

// TestSwitchesOfWorkspaces switches the log of content on at one node, and gives the workspace a model of images. The
// other node logs and fills in. Nothing of the content is in the store.
func TestSwitchesOfWorkspaces(t *testing.T) {
	c := newCluster(t)
	c.start()
	s := newServer(t, 2)
	file := filepath.Join(t.TempDir(), "io.log")
	s.Options = "log io {\ninclude http.handlers.presets.io\noutput file " + file + " {\nmode 0600\n}\n}"
	var sites string
	for i, address := range s.sites {
		storage := c.address
		if i == 0 { // other options give another connection, as on another node
			storage += " {\nrequest_timeout 40s\n}"
		}
		sites += s.SiteAt(address, fmt.Sprintf("presets {\nstorage etcd %s\n%s\ninference {\nio_log\n}\n}", storage, caddytest.Standard))
	}
	if err := s.Load(sites); err != nil {
		t.Fatal(err)
	}
	s.want(200, 0, caddytest.ManagementSecret, "PATCH", "/v1/workspaces/default", `{"is_observability_io_logging_enabled":true,"io_logging_sampling_rate":1,"default_image_model":"acme/draw"}`)
	const canary = "a-canary-of-the-request"
	wait.Until(t, "the other node fills in the model and logs the request", func() bool {
		got := s.want(202, 1, caddytest.InferenceSecret, "POST", "/v1/images/generations", `{"prompt":"`+canary+`"}`)
		line, _ := os.ReadFile(file)
		return strings.Contains(got, "acme/draw") && strings.Contains(string(line), `"request":{"model":"acme/draw","prompt":"`+canary+`"}`)
	})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stored, err := client.Get(wait.Context(t), "", clientv3.WithPrefix())
	if err != nil || len(stored.Kvs) == 0 {
		t.Fatalf("got %d records and %v", len(stored.Kvs), err)
	}
	isReadable := false
	for _, record := range stored.Kvs {
		isReadable = isReadable || strings.Contains(string(record.Value), "acme/draw")
		if strings.Contains(string(record.Value), canary) {
			t.Errorf("the record %s has the content", record.Key)
		}
	}
	if !isReadable {
		t.Error("no record can be searched")
	}
	if strings.Contains(s.Logs(), canary) {
		t.Error("another log has the content")
	}
}
