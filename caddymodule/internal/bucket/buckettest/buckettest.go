// Package buckettest serves a bucket from memory, for quick tests. It knows objects of one part, and
// no signatures. The tests in e2e have a whole server of S3.
package buckettest

import (
	"bytes"
	"crypto/md5" //nolint:gosec // as S3 has it
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Secret is the secret key that Start sets.
const Secret = "secret-key-of-the-test" //nolint:gosec // it opens nothing

// Server has the bucket "bucket". It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	objects map[string]object
	refuse  string // the method of requests that fail
}

type object struct {
	content []byte
	header  http.Header
}

// Start starts a server until the test ends, and sets the variables of AWS's tools for it.
func Start(t *testing.T) *Server {
	t.Helper()
	s := &Server{objects: map[string]object{}}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	Use(t, server)
	return s
}

// Use sets the variables of AWS's tools for a server, until the test ends.
func Use(t *testing.T, server *httptest.Server) {
	t.Helper()
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_CA_BUNDLE": authority, "AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": Secret,
		"AWS_ENDPOINT_URL_S3": "", "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
}

// Names returns the names of the objects, in their order.
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Change replaces the content of an object.
func (s *Server) Change(name string, change func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[name]
	o.content = change(bytes.Clone(o.content))
	s.objects[name] = o
}

// Refuse has the server answer 403 to requests of a method, until it gets another one.
func (s *Server) Refuse(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = method
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, isOurs := strings.CutPrefix(r.URL.Path, "/bucket/")
	o, isThere := s.objects[name]
	_, isUploads := r.URL.Query()["uploads"]
	switch {
	case r.Method == s.refuse:
		fail(w, http.StatusForbidden, "AccessDenied", "not for you\x1b[2J")
	case !isOurs:
		fail(w, http.StatusNotFound, "NoSuchBucket", "no such bucket")
	case isUploads:
		_, _ = io.WriteString(w, "<ListMultipartUploadsResult></ListMultipartUploadsResult>")
	case name == "":
		s.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodPut:
		s.put(w, r, name)
	case !isThere:
		fail(w, http.StatusNotFound, "NoSuchKey", "no such object")
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		maps.Copy(w.Header(), o.header)
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Now(), bytes.NewReader(o.content))
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: message})
}

func (s *Server) list(w http.ResponseWriter, prefix string) {
	_, _ = io.WriteString(w, "<ListBucketResult>")
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(name, prefix) {
			fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", name)
		}
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, name string) {
	content, err := io.ReadAll(r.Body)
	sum := md5.Sum(content) //nolint:gosec // as S3 has it
	if err != nil || r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(sum[:]) {
		fail(w, http.StatusBadRequest, "BadDigest", "the content has another digest")
		return
	}
	o := object{content, http.Header{}}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			o.header[name] = values
		}
	}
	s.objects[name] = o
	w.Header().Set("ETag", `"1"`)
}
