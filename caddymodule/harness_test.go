package caddymodule

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	managementSecret = caddytest.ManagementSecret
	inferenceSecret  = caddytest.InferenceSecret
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // the tests leave little garbage at a time, in many collections
	caddytest.Main(m)
}

// server is a real Caddy in this process, with one site of ours in front of a TCP upstream.
type server struct {
	t        *testing.T
	url      string
	address  string
	admin    string
	folder   string
	logFile  string
	upstream *upstream

	sites     []string // the addresses of all sites so far
	datagrams string   // the address of HTTP/3, set by siteWithTLS
	logFormat string   // a line for a log of everything, or empty
	options   string   // further global options
}

// standard is the usual content of the presets directive.
const standard = caddytest.Standard

// start runs Caddy with the given subdirectives, besides storage, until the
// test ends.
func start(t *testing.T, subdirectives string) *server {
	t.Helper()
	s := &server{
		t:        t,
		address:  freeAddress(t),
		admin:    freeAddress(t),
		folder:   caddytest.Folder(t),
		logFile:  filepath.Join(t.TempDir(), "log"),
		upstream: newUpstream(t),
	}
	s.url = "http://" + s.address
	if err := s.load(s.site(subdirectives)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// isReleased reports whether the store is closed.
func (s *server) isReleased() bool { return caddytest.IsReleased(s.folder) }

// liveUse returns how the newest handler uses a store.
func liveUse(name string) *registry.Use { return registry.All()[name].Newest() }

var operator = domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})

// stop replaces the configuration by an empty one, which releases the folder.
func (s *server) stop() {
	s.t.Helper()
	caddytest.Stop(s.t)
}

func (s *server) site(subdirectives string) string {
	return s.siteAt(s.address, s.presets(subdirectives))
}

// presets returns the directive with the server's store.
func (s *server) presets(subdirectives string) string {
	return fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", s.folder, subdirectives)
}

// reload loads a configuration of our site with subdirectives.
func (s *server) reload(subdirectives string) {
	s.t.Helper()
	s.reloadBehind("", subdirectives)
}

// reloadBehind is reload with directives before ours.
func (s *server) reloadBehind(directives, subdirectives string) {
	s.t.Helper()
	if err := s.load(s.siteAt(s.address, directives+"\n"+s.presets(subdirectives))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) siteAt(address, directives string) string {
	if !slices.Contains(s.sites, address) {
		s.sites = append(s.sites, address)
	}
	_, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf("http://:%s {\nbind 127.0.0.1\nlog\n%s\nreverse_proxy %s\n}\n", port, directives, s.upstream.Listener.Addr())
}

// load makes Caddy run a Caddyfile of sites.
func (s *server) load(sites string) error {
	config, err := caddytest.Adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nmetrics\nlog {\nlevel DEBUG\noutput file %s\n%s\n}\n%s\n}\n%s", s.admin, s.logFile, s.logFormat, s.options, sites))
	if err != nil {
		return err
	}
	err = caddy.Load(config, true)
	s.settle()
	return err
}

// settle waits until the old listeners of all sites and the admin endpoint are closed. Where
// the kernel does not report them, a few successful connections to the site are enough.
func (s *server) settle() {
	http.DefaultClient.CloseIdleConnections()
	for _, address := range s.sites {
		caddytest.Settle(s.t, address)
	}
	caddytest.SettleAdmin(s.t, s.admin)
	for row := 0; row < 3 && runtime.GOOS != "linux"; row++ {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			return // this configuration does not listen there
		}
		fmt.Fprintf(conn, "GET /settle HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if _, err := io.Copy(io.Discard, conn); err != nil {
			row = -1
		}
		conn.Close()
	}
	s.upstream.taken()
}

// canonicalFolder is the store's key in the pool.
func (s *server) canonicalFolder() string {
	s.t.Helper()
	folder, err := filepath.EvalSymlinks(filepath.Dir(s.folder))
	if err != nil {
		s.t.Fatal(err)
	}
	return filepath.Join(folder, filepath.Base(s.folder))
}

// handler returns a handler of the running configuration.
func (s *server) handler() *Handler {
	s.t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, of := range app.(*caddyhttp.App).Servers {
		if h := handlerIn(of.Routes); h != nil {
			return h
		}
	}
	s.t.Fatal("no handler is running")
	return nil
}

func handlerIn(routes caddyhttp.RouteList) *Handler {
	for _, route := range routes {
		for _, handler := range route.Handlers {
			switch handler := handler.(type) {
			case *Handler:
				return handler
			case *caddyhttp.Subroute:
				if h := handlerIn(handler.Routes); h != nil {
					return h
				}
			}
		}
	}
	return nil
}

// storeUsage stores what was measured until now, as otherwise happens every 10 seconds.
func (s *server) storeUsage() {
	s.t.Helper()
	store := liveUse(s.canonicalFolder()).StoreUsage
	if store == nil {
		return // nothing is measured
	}
	if err := store(s.t.Context()); err != nil {
		s.t.Error(err)
	}
}

// logs returns what was logged so far, in whole lines.
func (s *server) logs() string {
	s.t.Helper()
	text, err := os.ReadFile(s.logFile)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text[:bytes.LastIndexByte(text, '\n')+1])
}

// logged returns the access log's entry of the one request that send makes. Late entries of
// settle are ignored.
func (s *server) logged(send func()) map[string]any {
	s.t.Helper()
	before := len(s.logs())
	send()
	var got map[string]any
	if !s.eventually(func() bool {
		for line := range strings.Lines(s.logs()[before:]) {
			if strings.Contains(line, `"handled request"`) && !strings.Contains(line, "/settle") {
				return json.Unmarshal([]byte(line), &got) == nil
			}
		}
		return false
	}) {
		s.t.Fatal("the request is not in the access log")
	}
	return got
}

// eventually waits for an effect that occurs after an answer was sent.
func (s *server) eventually(ok func() bool) bool { return wait.Eventually(ok) }

// openInMemory opens a store that is closed when the test ends.
func openInMemory(tb testing.TB) *badger.Store {
	tb.Helper()
	store, err := badger.OpenInMemory()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	return store
}

func freeAddress(t *testing.T) string { return servertest.FreeAddress(t) }

// upstream is a gateway that records its requests.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string   // each as received, without the parts that proxies add
	received []received // the same requests, complete
	wire     caddytest.Wire
	response http.HandlerFunc
}

// received is a request as it reached the upstream.
type received struct {
	method, uri, host string
	header            http.Header
	length            int64    // -1 where it was not announced
	coding            []string // Transfer-Encoding
	trailer           http.Header
	body              string
	err               error // of reading the body
}

func newUpstream(t *testing.T) *upstream {
	u := new(upstream)
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(u.serve))
	u.Listener = u.wire.Tap(u.Listener)
	u.Start()
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	u.mu.Lock()
	u.requests = append(u.requests, fmt.Sprintf("%s %s\nAuthorization: %s\nX-Session-Id: %s\n\n%s",
		r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("X-Session-Id"), body))
	u.received = append(u.received, received{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.ContentLength, r.TransferEncoding, r.Trailer.Clone(), string(body), err})
	response := u.response
	u.mu.Unlock()
	if response != nil && r.URL.Path != "/settle" {
		response(w, r)
		return
	}
	w.Header().Set("X-Gateway", "yes")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte("from the gateway"))
}

// answers makes response write the upstream's answers from now on, after the body was read.
// Without it the answer is 202.
func (u *upstream) answers(response http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.response = response
}

func (u *upstream) taken() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.requests
	u.requests, u.received = nil, nil
	return taken
}

// all returns the requests since the last call and clears them.
func (u *upstream) all() []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.received
	u.requests, u.received = nil, nil
	return all
}

// one returns the only request since the last call.
func (u *upstream) one(t *testing.T) received {
	t.Helper()
	all := u.all()
	if len(all) != 1 {
		t.Fatalf("the gateway got %d requests, want one", len(all))
	}
	return all[0]
}

// none checks that no request was received.
func (u *upstream) none(t *testing.T) {
	t.Helper()
	if got := u.all(); len(got) != 0 {
		t.Errorf("the gateway got %d requests, want none: %.500v", len(got), got)
	}
}

// saw reports whether the upstream ever received text, anywhere in a request.
func (u *upstream) saw(text string) bool { return u.wire.Contains(text) }

// replyWith returns a handler with a fixed answer.
func replyWith(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// reply is a response with its whole body.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request with net/http, with headers as "Name: value" lines.
func (s *server) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	return send(s.t, method, s.url+path, body, headers...)
}

func send(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	response, err := http.DefaultClient.Do(newRequest(t, method, url, strings.NewReader(body), headers...))
	if err != nil {
		t.Fatal(err)
	}
	return readResponse(t, response)
}

// newRequest returns a request with headers as "Name: value" lines.
func newRequest(t *testing.T, method, url string, body io.Reader, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Error(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// h2c returns a transport of HTTP/2 without TLS.
func h2c() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

// dial connects to the site until the test ends. Nothing on the connection takes longer than patience.
func (s *server) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func readResponse(t *testing.T, response *http.Response) reply {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

// manage is do with the management key.
func (s *server) manage(method, path, body string, headers ...string) reply {
	s.t.Helper()
	return s.do(method, path, body, append([]string{bearer(managementSecret)}, headers...)...)
}

func bearer(secret string) string { return "Authorization: Bearer " + secret }

// raw sends bytes unchanged. It returns the answers' status lines and bodies, until the
// server closes or n answers arrived.
func (s *server) raw(request string, n int) []reply {
	s.t.Helper()
	conn := s.dial()
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	var responses []reply
	reader := bufio.NewReader(conn)
	for range n {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			s.t.Fatalf("after %d answers: %v", len(responses), err)
		}
		responses = append(responses, readResponse(s.t, response))
	}
	return responses
}

// exported returns r as the tests of other packages know it.
func (r reply) exported() caddytest.Response {
	return caddytest.Response{Status: r.status, Header: r.header, Body: r.body}
}

// want checks the status and that the body contains each of parts.
func (r reply) want(t *testing.T, status int, parts ...string) {
	t.Helper()
	r.exported().Want(t, status, parts...)
}

// wantError checks that r is an error in the envelope with this message.
func (r reply) wantError(t *testing.T, status int, message string) {
	t.Helper()
	r.exported().WantError(t, status, message)
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("got Content-Type %q, want application/json", got)
	}
	if r.header.Get("X-Gateway") != "" {
		t.Error("the answer came from the gateway")
	}
}

// metric returns the value of a series, such as name{label="value"}, and "" if it is
// missing.
func (s *server) metric(series string) string {
	s.t.Helper()
	for line := range strings.Lines(send(s.t, "GET", "http://"+s.admin+"/metrics", "").body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// awaitMetric waits until a series has a value. A handler may count a request after its client
// has the answer, and a webhook after its receiver has the event.
func (s *server) awaitMetric(series, want string) {
	s.t.Helper()
	got := ""
	if !s.eventually(func() bool { got = s.metric(series); return got == want }) {
		s.t.Errorf("%s is %q, want %s", series, got, want)
	}
}

// field returns a member of data, such as an id for the next request.
func (r reply) field(t *testing.T, name string) string {
	t.Helper()
	return r.exported().Field(t, name)
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	tags  = regexp.MustCompile(`"[0-9a-f]{32}"`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// golden compares answers with a file. It replaces ids, entity tags and times by numbers,
// which are equal for equal values.
func golden(t *testing.T, name string, responses ...reply) {
	t.Helper()
	var got bytes.Buffer
	for i, r := range responses {
		if i > 0 {
			got.WriteByte('\n')
		}
		fmt.Fprintf(&got, "%d %s\n", r.status, r.header.Get("Content-Type"))
		if tag := r.header.Get("ETag"); tag != "" {
			fmt.Fprintf(&got, "ETag: %s\n", tag)
		}
		fmt.Fprintln(&got, r.body)
	}
	numbered := func(name string) func(string) string {
		known := map[string]string{}
		return func(id string) string {
			if known[id] == "" {
				known[id] = fmt.Sprintf("<%s-%d>", name, len(known)+1)
			}
			return known[id]
		}
	}
	text := uuids.ReplaceAllStringFunc(got.String(), numbered("uuid"))
	text = tags.ReplaceAllStringFunc(text, numbered("tag"))
	text = times.ReplaceAllString(text, "<time>")
	file := filepath.Join("..", "testdata", "golden", name+".txt")
	caddytest.Golden(t, file, text, *update)
}

// finalAnswer reads answers until one is final.
func finalAnswer(t *testing.T, reader *bufio.Reader) reply {
	t.Helper()
	for {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode >= 200 {
			return readResponse(t, response)
		}
	}
}

type issued struct{ id, secret string }

// issue creates a key through the admin endpoint.
func (s *server) issue(body string) issued {
	s.t.Helper()
	r := send(s.t, "POST", "http://"+s.admin+"/presets/keys", body)
	r.want(s.t, 201)
	var k struct{ ID, Key string }
	if err := json.Unmarshal([]byte(r.body), &k); err != nil {
		s.t.Fatal(err)
	}
	return issued{k.ID, k.Key}
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// auditPage is a page of the audit trail.
type auditPage struct{ Records []domain.AuditRecord }

func (s *server) trail(query string) (page auditPage) {
	s.t.Helper()
	r := send(s.t, "GET", "http://"+s.admin+"/presets/audit"+query, "")
	r.want(s.t, 200)
	if err := json.Unmarshal([]byte(r.body), &page); err != nil {
		s.t.Fatal(err)
	}
	return page
}
