package caddymodule

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// recorder is an upstream that parses each connection's bytes as a sequence of requests,
// and records them. It frames bodies as net/http does: a CONNECT without a length has none.
type recorder struct {
	net.Listener
	// response writes the response to a request. It reports whether the connection goes on.
	response func(conn net.Conn, rest *bufio.Reader, r *http.Request) bool

	mu    sync.Mutex
	seen  []string
	conns sync.WaitGroup
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &recorder{Listener: listener, response: answerAccepted}
	u.conns.Go(func() {
		for {
			conn, err := u.Accept()
			if err != nil {
				return
			}
			u.conns.Go(func() { u.serve(conn) })
		}
	})
	t.Cleanup(func() { u.Close() })
	return u
}

// answerAccepted is the answer of an upstream that takes everything.
func answerAccepted(conn net.Conn, _ *bufio.Reader, r *http.Request) bool {
	response := "HTTP/1.1 202 Accepted\r\nX-Gateway: yes\r\nContent-Length: 2\r\n\r\n"
	if r.Method != http.MethodHead {
		response += "ok"
	}
	_, err := io.WriteString(conn, response)
	return err == nil
}

func (u *recorder) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(reader)
		if _, ended := errors.AsType[*net.OpError](err); ended || errors.Is(err, io.EOF) {
			return // between requests, or by a reset
		} else if err != nil {
			u.record("malformed: " + err.Error())
			return
		}
		body, err := io.ReadAll(r.Body)
		text := fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)
		if err != nil {
			u.record(text + " (cut off)")
			return
		}
		u.record(text)
		if !u.response(conn, reader, r) {
			return
		}
	}
}

func (u *recorder) record(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, text)
}

// proxy is the directive that passes a site's requests to u, with more lines in its block.
// Caddy closes idle connections only for transports with settings.
func (u *recorder) proxy(lines ...string) string {
	return fmt.Sprintf("reverse_proxy %s {\ntransport http {\nkeepalive 1m\n}\n%s\n}", u.Addr(), strings.Join(lines, "\n"))
}

// requests returns the requests recorded so far.
func (u *recorder) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string{}, u.seen...)
}

// all stops Caddy, waits until every connection has ended, and returns the recorded
// requests.
func (u *recorder) all(t *testing.T) []string {
	t.Helper()
	caddytest.Stop(t)
	u.Close()
	ended := make(chan struct{})
	go func() { u.conns.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("a connection to the upstream is still open after %q", u.requests())
	}
	return u.requests()
}

// handed are listeners by name. Caddy uses them, so it does not choose ports.
var handed sync.Map

func init() {
	take := func(_ context.Context, network, host, _ string, _ uint, _ net.ListenConfig) (any, error) {
		listener, ok := handed.Load(network + "/" + host)
		if !ok {
			return nil, fmt.Errorf("no listener %s/%s", network, host)
		}
		return listener, nil
	}
	caddy.RegisterNetwork("handed", take)
	caddy.RegisterNetwork("handedgram", take)
	caddyhttp.RegisterNetworkHTTP3("handedgram", "handedgram")
	caddyhttp.RegisterNetworkHTTP3("handed", "handedgram")
}

// wired is Caddy in front of a recorder, with each version of HTTP.
type wired struct {
	t *testing.T
	// Addresses: of HTTP/1.1 and HTTP/2 without TLS, with TLS, and of HTTP/3.
	plain, secure, datagrams string
	roots                    *x509.CertPool
}

// versions are those of HTTP that a client may speak to wired.
var versions = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "h2c", "h2", "h3"}

// startWired runs Caddy until the test ends, with directives on each site.
func startWired(t *testing.T, directives string) *wired {
	t.Helper()
	w := &wired{t: t}
	name := fmt.Sprint("n", time.Now().UnixNano())
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	plain, secure := listen(), listen()
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.plain, w.secure, w.datagrams = plain.Addr().String(), secure.Addr().String(), datagrams.LocalAddr().String()
	handed.Store("handed/plain-"+name, plain)
	handed.Store("handed/secure-"+name, secure)
	handed.Store("handedgram/"+name, datagrams)
	file, roots := certificate(t)
	w.roots = roots
	config, err := caddytest.Adapt(fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	log {
		output discard
	}
}
http://:1080 {
	bind handed/plain-%[1]s {
		protocols h1 h2c
	}
	%[2]s
}
https://:1443 {
	bind handed/secure-%[1]s {
		protocols h1 h2
	}
	bind handedgram/%[1]s {
		protocols h3
	}
	tls %[3]s %[3]s
	%[2]s
}`, name, directives, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caddytest.Stop(t) })
	return w
}

// certificate returns a file with the certificate of net/http/httptest for example.com and its key, and
// the roots of clients that trust it.
func certificate(t *testing.T) (file string, roots *x509.CertPool) {
	t.Helper()
	ready := httptest.NewUnstartedServer(nil)
	ready.StartTLS()
	defer ready.Close()
	pair := ready.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file, roots = filepath.Join(t.TempDir(), "certificate.pem"), x509.NewCertPool()
	roots.AddCert(ready.Certificate())
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, roots
}

// wireRequest is a request that a hostile client writes.
type wireRequest struct {
	method string
	target string // a path, or the authority of a CONNECT without protocol
	// protocol is :protocol of an extended CONNECT, in HTTP/2 and HTTP/3.
	protocol string
	header   []string // "name: value"
	body     string
	length   string // Content-Length, or "" for none: chunks in HTTP/1.1
	open     bool   // the body does not end
}

// fields returns the header fields of a request in HTTP/2 and HTTP/3.
func (r wireRequest) fields() [][2]string {
	fields := [][2]string{{":method", r.method}}
	if r.method == "CONNECT" && r.protocol == "" {
		fields = append(fields, [2]string{":authority", r.target})
	} else {
		fields = append(fields, [2]string{":scheme", "https"}, [2]string{":authority", "localhost"}, [2]string{":path", r.target})
	}
	if r.protocol != "" {
		fields = append(fields, [2]string{":protocol", r.protocol})
	}
	for _, line := range r.header {
		name, value, _ := strings.Cut(line, ": ")
		fields = append(fields, [2]string{strings.ToLower(name), value})
	}
	if r.length != "" {
		fields = append(fields, [2]string{"content-length", r.length})
	}
	return fields
}

// wireStream is the client's side of one exchange.
type wireStream interface {
	io.ReadWriteCloser // the bodies; Close ends the request's body
	// header returns the final status and header. The status is 0 if the server ended the
	// exchange without an answer.
	header() (int, http.Header)
	// abandon ends the connection.
	abandon()
}

// do sends a request and returns the whole answer. Its status is 0 if there is none.
func (w *wired) do(version string, r wireRequest) reply {
	w.t.Helper()
	stream := w.begin(version, r)
	defer stream.abandon()
	var got reply
	if got.status, got.header = stream.header(); got.status != 0 {
		body, _ := io.ReadAll(stream) // the server may reset a body that it refuses
		got.body = string(body)
	}
	return got
}

// begin sends a request on a connection of its own.
func (w *wired) begin(version string, r wireRequest) wireStream {
	w.t.Helper()
	config := &tls.Config{RootCAs: w.roots, ServerName: "example.com"}
	switch version {
	case "HTTP/1.1":
		return beginHTTP1(w.dial(w.plain, nil), r)
	case "HTTP/1.1 over TLS":
		return beginHTTP1(w.dial(w.secure, config), r)
	case "h2c":
		return beginHTTP2(w.t, w.dial(w.plain, nil), r)
	case "h2":
		config.NextProtos = []string{"h2"}
		return beginHTTP2(w.t, w.dial(w.secure, config), r)
	case "h3":
		config.NextProtos = []string{"h3"}
		return beginHTTP3(w.t, w.datagrams, config, r)
	}
	panic(version)
}

func (w *wired) dial(address string, config *tls.Config) net.Conn {
	w.t.Helper()
	dialer := &net.Dialer{Timeout: patience}
	var conn net.Conn
	var err error
	if config == nil {
		conn, err = dialer.Dial("tcp", address)
	} else {
		conn, err = tls.DialWithDialer(dialer, "tcp", address, config)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// http1Stream is an exchange over HTTP/1.1.
type http1Stream struct {
	conn     net.Conn
	reader   *bufio.Reader
	r        wireRequest
	response *http.Response
	chunked  bool
}

func beginHTTP1(conn net.Conn, r wireRequest) wireStream {
	s := &http1Stream{conn: conn, reader: bufio.NewReader(conn), r: r, chunked: r.length == "" && (r.body != "" || r.open)}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", r.method, r.target, lines(r.header))
	switch {
	case r.length != "":
		fmt.Fprintf(&text, "Content-Length: %s\r\n", r.length)
	case s.chunked:
		text.WriteString("Transfer-Encoding: chunked\r\n")
	}
	text.WriteString("\r\n")
	_, _ = io.WriteString(conn, text.String()) // the answer may come before the request is written
	if r.body != "" {
		_, _ = s.Write([]byte(r.body))
	}
	if !r.open {
		s.Close()
	}
	return s
}

func (s *http1Stream) Write(p []byte) (int, error) {
	if s.chunked {
		return fmt.Fprintf(s.conn, "%x\r\n%s\r\n", len(p), p)
	}
	return s.conn.Write(p)
}

func (s *http1Stream) Close() error {
	if !s.chunked {
		return nil
	}
	_, err := io.WriteString(s.conn, "0\r\n\r\n")
	return err
}

func (s *http1Stream) header() (int, http.Header) {
	for {
		response, err := http.ReadResponse(s.reader, &http.Request{Method: s.r.method})
		if err != nil {
			return 0, nil
		}
		if response.StatusCode >= 200 || response.StatusCode == http.StatusSwitchingProtocols {
			s.response = response
			return response.StatusCode, response.Header
		}
	}
}

func (s *http1Stream) Read(p []byte) (int, error) {
	if s.response.StatusCode == http.StatusSwitchingProtocols {
		return s.reader.Read(p)
	}
	return s.response.Body.Read(p)
}

func (s *http1Stream) abandon() { s.conn.Close() }

// http2Stream is an exchange on stream 1 of a connection with HTTP/2.
type http2Stream struct {
	conn   net.Conn
	framer *http2.Framer
	data   bytes.Buffer // of the answer, not read yet
	ended  bool
}

func beginHTTP2(t *testing.T, conn net.Conn, r wireRequest) wireStream {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range r.fields() {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	s := &http2Stream{conn: conn, framer: http2.NewFramer(conn, conn)}
	s.framer.AllowIllegalWrites = true
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = s.framer.WriteSettings()
	// A write fails if the server has closed the connection. The answer has the reason.
	_ = s.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: r.body == "" && !r.open,
	})
	if r.body != "" {
		_ = s.framer.WriteData(1, !r.open, []byte(r.body))
	}
	return s
}

func (s *http2Stream) Write(p []byte) (int, error) { return len(p), s.framer.WriteData(1, false, p) }
func (s *http2Stream) Close() error                { return s.framer.WriteData(1, true, nil) }

// next reads one frame. It returns the status and header if the frame has them.
func (s *http2Stream) next() (status int, header http.Header) {
	frame, err := s.framer.ReadFrame()
	if err != nil {
		s.ended = true
		return 0, nil
	}
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			_ = s.framer.WriteSettingsAck()
		}
	case *http2.MetaHeadersFrame:
		s.ended = frame.StreamEnded()
		status, _ = strconv.Atoi(frame.PseudoValue("status"))
		header = make(http.Header)
		for _, field := range frame.RegularFields() {
			header.Add(field.Name, field.Value)
		}
	case *http2.DataFrame:
		s.data.Write(frame.Data())
		s.ended = frame.StreamEnded()
	case *http2.RSTStreamFrame, *http2.GoAwayFrame:
		s.ended = true
	}
	return status, header
}

func (s *http2Stream) header() (int, http.Header) {
	for !s.ended {
		if status, header := s.next(); status >= 200 {
			return status, header
		}
	}
	return 0, nil
}

func (s *http2Stream) Read(p []byte) (int, error) {
	for s.data.Len() == 0 && !s.ended {
		s.next()
	}
	return s.data.Read(p)
}

func (s *http2Stream) abandon() { s.conn.Close() }

// ping waits until the server has read all that was sent. It returns the frames before its answer.
func (s *http2Stream) ping(t *testing.T) (frames []http2.Frame) {
	t.Helper()
	if err := s.framer.WritePing(false, [8]byte{1}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return frames
		}
		frames = append(frames, frame)
	}
}

// TestRefusalsTakeInSmallBodies checks over HTTP/2 that the server reads a small body before it
// refuses the request. An answer before the body's end resets the stream, and curl loses it.
func TestRefusalsTakeInSmallBodies(t *testing.T) {
	upstream := newRecorder(t)
	w := startWired(t, presetsDirective(t, standard+"\nconsole\nhealth /healthz\ninference {\nkeys required\n}")+upstream.proxy())
	bearerOfOurs := bearer(managementSecret)
	for _, r := range []wireRequest{
		{method: "POST", target: "/v1/presets/p/responses"},
		{method: "POST", target: "/v1/presets/p/responses", header: []string{bearerOfOurs, "Content-Type: text/plain"}},
		{method: "POST", target: "/v1/presets/p/responses?x=1", header: []string{bearerOfOurs}},
		{method: "POST", target: "/v1/presets/p/nothing"},
		{method: "PUT", target: "/v1/presets/p"},
		{method: "GET", target: "/v1/presets/p", header: []string{bearerOfOurs}},
		{method: "POST", target: responsesPath},
		{method: "POST", target: "/v1/x/%2e%2e/responses"},
		{method: "TRACE", target: "/files"},
		{method: "POST", target: "/healthz"},
		{method: "POST", target: "/console"},
	} {
		r.open, r.length = true, "2"
		for _, version := range []string{"h2c", "h2"} {
			for range 5 { // because the server's answer and the test's body may cross
				s := w.begin(version, r).(*http2Stream)
				frames := s.ping(t)
				if _, err := s.Write([]byte("{}")); err != nil {
					t.Fatal(err)
				}
				_ = s.Close()
				status, _ := s.header()
				_, _ = io.Copy(io.Discard, s)
				for _, frame := range append(frames, s.ping(t)...) {
					if reset, ok := frame.(*http2.RSTStreamFrame); ok {
						t.Errorf("%s %s over %s: the stream was reset with %v", r.method, r.target, version, reset.ErrCode)
					}
				}
				if status < 400 {
					t.Errorf("%s %s over %s: got %d, want a refusal", r.method, r.target, version, status)
				}
				s.abandon()
			}
		}
	}
	wantRequests(t, upstream.all(t), nil)
}

// http3Stream is an exchange with HTTP/3.
type http3Stream struct {
	conn   *quic.Conn
	stream *quic.Stream
	reader *bufio.Reader
	data   bytes.Buffer // of the answer, not read yet
}

const ( // types of frames (RFC 9114, section 7.2)
	http3Data    = 0
	http3Headers = 1
)

func beginHTTP3(t *testing.T, address string, config *tls.Config, r wireRequest) wireStream {
	t.Helper()
	ctx := wait.Context(t)
	conn, err := quic.DialAddr(ctx, address, config, &quic.Config{HandshakeIdleTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	for _, field := range r.fields() {
		if err := encoder.WriteField(qpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	s := &http3Stream{conn: conn, stream: stream, reader: bufio.NewReader(stream)}
	// A write fails if the server has ended the stream. The answer has the reason.
	_ = s.frame(http3Headers, block.Bytes())
	if r.body != "" {
		_, _ = s.Write([]byte(r.body))
	}
	if !r.open {
		s.Close()
	}
	return s
}

func (s *http3Stream) frame(kind uint64, payload []byte) error {
	frame := quicvarint.Append(nil, kind)
	frame = quicvarint.Append(frame, uint64(len(payload)))
	_, err := s.stream.Write(append(frame, payload...))
	return err
}

func (s *http3Stream) Write(p []byte) (int, error) { return len(p), s.frame(http3Data, p) }
func (s *http3Stream) Close() error                { return s.stream.Close() }

// next reads one frame.
func (s *http3Stream) next() (kind uint64, payload []byte, err error) {
	reader := quicvarint.NewReader(s.reader)
	if kind, err = quicvarint.Read(reader); err != nil {
		return 0, nil, err
	}
	length, err := quicvarint.Read(reader)
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(s.reader, payload)
	return kind, payload, err
}

func (s *http3Stream) header() (int, http.Header) {
	for {
		kind, payload, err := s.next()
		if err != nil {
			return 0, nil
		}
		if kind != http3Headers {
			continue
		}
		status, header := 0, make(http.Header)
		for next := qpack.NewDecoder().Decode(payload); ; {
			field, err := next()
			if err != nil {
				break
			}
			if field.Name == ":status" {
				status, _ = strconv.Atoi(field.Value)
			} else {
				header.Add(field.Name, field.Value)
			}
		}
		if status >= 200 {
			return status, header
		}
	}
}

func (s *http3Stream) Read(p []byte) (int, error) {
	for s.data.Len() == 0 {
		kind, payload, err := s.next()
		if err != nil {
			return 0, err
		}
		if kind == http3Data {
			s.data.Write(payload)
		}
	}
	return s.data.Read(p)
}

func (s *http3Stream) abandon() { _ = s.conn.CloseWithError(0, "") }
