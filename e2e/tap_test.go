package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// tap is a server between a program and another server. It records what it hands on, so what
// the program sends is known byte for byte.
type tap struct {
	site string // http://host:port

	mu        sync.Mutex
	open      sync.WaitGroup
	target    string // http://host:port
	transfers []*transfer
}

// transfer is a request and its answer, as they passed a tap.
type transfer struct {
	method, uri string
	header      http.Header
	body        []byte
	status      int
	answered    http.Header
	answer      []byte
}

// transferHeader tells the server behind a tap the number of the transfer.
const transferHeader = "X-Transfer"

// newTap returns a tap that listens on a loopback address of a network.
func newTap(t *testing.T, n *network) *tap {
	t.Helper()
	var listener net.Listener
	var err error
	n.do(func() { listener, err = net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{site: "http://" + listener.Addr().String()}
	server := &http.Server{Handler: p}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return p
}

// lead makes the tap hand requests to another server.
func (p *tap) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// take returns the transfers since the last call. A request's number is its place in them. It is
// called when the program has ended.
func (p *tap) take() []*transfer {
	p.open.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.transfers
	p.transfers = nil
	return all
}

// ServeHTTP hands a request on, and its answer as it comes.
func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e := &transfer{method: r.Method, uri: r.RequestURI, header: r.Header.Clone(), body: body}
	p.mu.Lock()
	p.open.Add(1)
	defer p.open.Done()
	number, target := len(p.transfers), p.target
	p.transfers = append(p.transfers, e)
	p.mu.Unlock()

	request, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	request.Header = r.Header.Clone()
	request.Header.Set(transferHeader, strconv.Itoa(number))
	response, err := tapTransport.RoundTrip(request)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	e.status, e.answered = response.StatusCode, response.Header
	for name, values := range response.Header {
		if !strings.EqualFold(name, "Connection") {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(response.StatusCode)
	piece := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = response.Body.Read(piece)
		e.answer = append(e.answer, piece[:n]...)
		_, _ = w.Write(piece[:n])
		_ = http.NewResponseController(w).Flush()
	}
}

// tapTransport edits nothing.
var tapTransport = &http.Transport{DisableCompression: true}

// noProxy is an environment in which programs reach no address but loopback ones.
var noProxy = []string{"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"}
