package caddytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the adapter, the log and the metrics

	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// Secrets of the keys in Standard.
const (
	ManagementSecret = "management-secret-of-the-tests"
	InferenceSecret  = "inference-secret-of-the-tests"
)

// Standard has the subdirectives that most tests use. Its limit for failed
// authentications is too high to be reached.
const Standard = "management_key " + ManagementSecret + " ann\ninference_key " + InferenceSecret + " bob\nauth_failure_limit 1000000"

// Workspace is the body that creates the workspace team.
const Workspace = `{"name":"Team","slug":"team"}`

// Main runs the tests of a package with a data folder of their own, and exits.
func Main(m *testing.M) {
	undo := storagetest.UseMemory()
	home, err := os.MkdirTemp("", "caddy-presets-")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"XDG_DATA_HOME", "HOME", "AppData"} {
		os.Setenv(name, home)
	}
	code := m.Run()
	os.RemoveAll(home)
	undo()
	os.Exit(code)
}

// Folder returns the name of a missing folder for a store. Main removes it. A late
// request may open the store again after the server's stop, to record the use of its key.
func Folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv("HOME"), "store-")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "store")
}

// Address returns the address of a Unix socket that does not exist yet.
func Address(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return "unix/" + filepath.Join(dir, "s")
}

// Server is the real Caddy in this process. It listens on Unix sockets only.
type Server struct {
	T            *testing.T
	Address      string // the address of Site's site
	AdminAddress string
	Folder       string // the folder of its store
	LogFile      string
	Options      string           // more global options
	Upstream     *httptest.Server // answers 202 to everything
}

// Start runs Caddy with the given subdirectives, besides storage, until the test ends.
func Start(t *testing.T, subdirectives string) *Server {
	t.Helper()
	s := &Server{
		T: t, Address: Address(t), AdminAddress: Address(t), Folder: Folder(t), LogFile: filepath.Join(t.TempDir(), "log"),
		Upstream: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
		})),
	}
	t.Cleanup(s.Upstream.Close)
	s.Reload(subdirectives)
	t.Cleanup(s.Stop)
	return s
}

// Stop replaces the configuration by an empty one, which closes the store.
func (s *Server) Stop() {
	s.T.Helper()
	Stop(s.T)
}

// Site returns a site at Address with the given subdirectives and the store in Folder.
func (s *Server) Site(subdirectives string) string {
	return s.SiteAt(s.Address, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", s.Folder, subdirectives))
}

// SiteAt returns a site with the given directives in front of the upstream.
func (s *Server) SiteAt(address, directives string) string {
	return fmt.Sprintf("http:// {\nbind %s\nlog\n%s\nreverse_proxy %s\n}\n", address, directives, s.Upstream.Listener.Addr())
}

// Encrypted returns a site with its store in a folder. A key file, if named, encrypts the
// store.
func (s *Server) Encrypted(address, folder, keyFile string) string {
	option := ""
	if keyFile != "" {
		option = "encryption_key_file " + keyFile
	}
	return s.SiteAt(address, fmt.Sprintf("presets {\nstorage badger %s {\n%s\n}\n%s\n}", folder, option, Standard))
}

// Reload loads the site of Site.
func (s *Server) Reload(subdirectives string) {
	s.T.Helper()
	if err := s.Load(s.Site(subdirectives)); err != nil {
		s.T.Fatal(err)
	}
}

// Load makes Caddy run a Caddyfile of sites. When it returns, only the newest
// configuration accepts connections.
func (s *Server) Load(sites string) error {
	config, err := s.Adapt(sites)
	if err != nil {
		return err
	}
	return s.LoadJSON(config)
}

// LoadJSON is Load of an adapted configuration.
func (s *Server) LoadJSON(config []byte) error {
	err := caddy.Load(config, true)
	for _, address := range []string{s.Address, s.AdminAddress} {
		Settle(s.T, address)
	}
	awaitAdmin(s.T, "unix", strings.TrimPrefix(s.AdminAddress, "unix/"))
	return err
}

// Adapt returns the JSON of a Caddyfile of sites, with the server's global options.
func (s *Server) Adapt(sites string) ([]byte, error) {
	return Adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nmetrics\nlog {\nlevel DEBUG\noutput file %s\n}\n%s\n}\n%s", s.AdminAddress, s.LogFile, s.Options, sites))
}

// descriptors returns this process's number of descriptors of a listening Unix socket, or
// 0 if the system does not tell.
func descriptors(path string) (n int) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(table)) {
		// Num RefCount Protocol Flags Type St Inode Path
		fields := strings.Fields(line)
		if len(fields) != 8 || fields[7] != path || fields[3] != "00010000" { // it listens
			continue
		}
		files, _ := os.ReadDir("/proc/self/fd")
		for _, file := range files {
			if to, _ := os.Readlink(filepath.Join("/proc/self/fd", file.Name())); to == "socket:["+fields[6]+"]" {
				n++
			}
		}
	}
	return n
}

// CanonicalFolder returns the name that the store has.
func (s *Server) CanonicalFolder() string {
	s.T.Helper()
	folder, err := filepath.EvalSymlinks(s.Folder)
	if err != nil {
		s.T.Fatal(err)
	}
	return folder
}

// Logs returns the log so far, in whole lines.
func (s *Server) Logs() string {
	s.T.Helper()
	text, err := os.ReadFile(s.LogFile)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(text[:bytes.LastIndexByte(text, '\n')+1])
}

// Metric returns the value of a series, such as name{label="value"}, and "" if there is
// none.
func (s *Server) Metric(series string) string {
	s.T.Helper()
	for line := range strings.Lines(s.Admin("GET", "/metrics", "").Body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Do sends a request to the site at Address, with headers as "Name: value" lines.
func (s *Server) Do(method, path, body string, headers ...string) Response {
	s.T.Helper()
	return Send(s.T, s.Address, method, path, body, headers...)
}

// Manage is Do with the management key.
func (s *Server) Manage(method, path, body string, headers ...string) Response {
	s.T.Helper()
	return s.Do(method, path, body, append([]string{Bearer(ManagementSecret)}, headers...)...)
}

// Admin sends a request to the admin endpoint.
func (s *Server) Admin(method, path, body string, headers ...string) Response {
	s.T.Helper()
	return Send(s.T, s.AdminAddress, method, path, body, headers...)
}

// Key is an issued key.
type Key struct {
	ID     string `json:"id"`
	Secret string `json:"key"`
}

// Issue creates a key through the admin endpoint.
func (s *Server) Issue(body string) (k Key) {
	s.T.Helper()
	r := s.Admin("POST", "/presets/keys", body)
	r.Want(s.T, 201)
	if err := json.Unmarshal([]byte(r.Body), &k); err != nil {
		s.T.Fatal(err)
	}
	return k
}

// Bearer returns the header with a key.
func Bearer(secret string) string { return "Authorization: Bearer " + secret }

// Dial connects to a Unix socket.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	path, ok := strings.CutPrefix(address, "unix/")
	if !ok {
		return nil, errors.New(address + " is not the address of a Unix socket")
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// Client returns a client that opens a new connection to a Unix socket for each request.
func Client(address string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, address) },
	}}
}

// Send sends a request to a Unix socket, with headers as "Name: value" lines.
func Send(t *testing.T, address, method, path, body string, headers ...string) Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := Client(address).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return ReadResponse(t, response)
}

// Response is a completely read answer.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// ReadResponse reads an answer to its end.
func ReadResponse(t *testing.T, response *http.Response) Response {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Response{response.StatusCode, response.Header, string(body)}
}

// Want checks the status, and that the body contains each of parts.
func (r Response) Want(t *testing.T, status int, parts ...string) {
	t.Helper()
	if r.Status != status {
		t.Errorf("got status %d, want %d: %s", r.Status, status, r.Body)
	}
	for _, part := range parts {
		if !strings.Contains(r.Body, part) {
			t.Errorf("got body %s, want it to hold %s", r.Body, part)
		}
	}
}

// WantError checks that r is an error in the API's envelope with this message.
func (r Response) WantError(t *testing.T, status int, message string) {
	t.Helper()
	var e struct {
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil {
		t.Errorf("got status %d and body %q, want an error envelope: %v", r.Status, r.Body, err)
		return
	}
	if r.Status != status || e.Error.Code != status || !strings.HasPrefix(e.Error.Message, message) {
		t.Errorf("got status %d, code %d and message %q, want %d and %q", r.Status, e.Error.Code, e.Error.Message, status, message)
	}
}

// Field returns a member of data, such as an id for the next request.
func (r Response) Field(t *testing.T, name string) string {
	t.Helper()
	var response struct{ Data map[string]any }
	if err := json.Unmarshal([]byte(r.Body), &response); err != nil {
		t.Fatalf("status %d, body %q: %v", r.Status, r.Body, err)
	}
	return fmt.Sprint(response.Data[name])
}

// Damage damages a closed Badger store. It returns a function that repairs it.
func Damage(t *testing.T, folder string) (undo func()) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("got tables %v, %v, want some", tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(tables[0], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	write(flipped)
	return func() { write(whole) }
}

// IsReleased reports whether no process has a Badger store open.
func IsReleased(folder string) bool {
	store, err := badger.Open(folder, badger.Options{Existing: true})
	if err == nil {
		_ = store.Close()
	}
	return !errors.Is(err, badger.ErrInUse)
}
