package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

// session does the work for one client, for example over a connection.
type session interface {
	// once does the work once and waits for its end.
	once() error
	close()
}

// connect opens the session of a client. Clients are numbered from 0.
type connect func(client int) (session, error)

// grace is the extra time that a server gets before a run fails.
const grace = 30 * time.Second

// drive runs the work in concurrent clients without a pause. It returns the results after
// the warm-up, and how often the work ran including the warm-up. The first error ends it.
func drive(ctx context.Context, clients int, warmUp, lasting time.Duration, open connect) (sample result.Sample, done int, err error) {
	sessions := make([]session, clients)
	for i := range sessions {
		s, err := open(i)
		if err != nil {
			return result.Sample{}, 0, err
		}
		defer s.close()
		sessions[i] = s
	}
	var (
		wg      sync.WaitGroup
		stopped atomic.Bool
		counts  = make([]int, clients)
		failed  = make([]error, clients)
		took    = make([]histogram, clients)
	)
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	defer time.AfterFunc(warmUp+lasting+grace, func() { // a server does not answer
		for _, s := range sessions {
			s.close()
		}
	}).Stop()
	from := time.Now().Add(warmUp)
	to := from.Add(lasting)
	for i, s := range sessions {
		wg.Go(func() {
			for start := time.Now(); start.Before(to) && !stopped.Load(); counts[i]++ {
				if failed[i] = s.once(); failed[i] != nil {
					stopped.Store(true)
					return
				}
				end := time.Now()
				if !end.Before(from) && end.Before(to) {
					took[i].record(end.Sub(start))
				}
				start = end
			}
		})
	}
	wg.Wait()
	if err := cmp.Or(append([]error{ctx.Err()}, failed...)...); err != nil {
		return result.Sample{}, 0, err // the first error is the cause of the others
	}
	all := new(histogram)
	for i := range clients {
		done += counts[i]
		all.add(&took[i])
	}
	switch {
	case all.total == 0 && lasting > grace:
		return result.Sample{}, 0, fmt.Errorf("nothing was done within %v", lasting)
	case all.total == 0: // possible on a busy machine
		sample, more, err := drive(ctx, clients, 0, 2*lasting, open)
		return sample, done + more, err
	}
	return result.Sample{
		PerSecond: float64(all.total) / lasting.Seconds(),
		P50:       all.quantile(0.50),
		P99:       all.quantile(0.99),
	}, done, nil
}

// request is an HTTP request that is sent repeatedly, with its expected answer. A part of
// the request may differ each time.
type request struct {
	address string
	text    []byte
	// fill writes the part of text that differs, at slot. It is nil if no part differs.
	fill func(part []byte, client int)
	slot int

	status int // expected of the answer
	size   int // of the answer's body, 0 if unknown
}

// variable is the placeholder for the part of a path or body that differs. It is as long
// as an id.
const variable = "????????-????-????-????-????????????"

// newRequest returns a request with a key, and with a JSON body unless it is empty. A
// request that contains variable needs fill.
func newRequest(address, method, path, key, body string, status int, fill func(part []byte, client int)) *request {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path, address, key)
	if body != "" {
		fmt.Fprintf(&text, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	fmt.Fprintf(&text, "\r\n%s", body)
	return &request{
		address: address, text: text.Bytes(), status: status,
		fill: fill, slot: bytes.Index(text.Bytes(), []byte(variable)),
	}
}

// setHeader adds a header. No header of that name may be there.
func (r *request) setHeader(name, value string) {
	begin := bytes.Index(r.text, []byte("\r\n"))
	line := "\r\n" + name + ": " + value
	r.text = slices.Concat(r.text[:begin], []byte(line), r.text[begin:])
	r.slot = bytes.Index(r.text, []byte(variable))
}

// pack makes the request's body gzip. Nothing in it can differ any more: where it did, client 0's stays.
func (r *request) pack() {
	if r.fill != nil {
		r.fill(r.text[r.slot:][:len(variable)], 0)
		r.fill = nil
	}
	head, body, _ := bytes.Cut(r.text, headEnd)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // to memory
	_ = w.Close()
	announced := fmt.Appendf(nil, "Content-Length: %d", len(body))
	head = bytes.Replace(head, announced, fmt.Appendf(nil, "Content-Encoding: gzip\r\nContent-Length: %d", packed.Len()), 1)
	r.text = slices.Concat(head, headEnd, packed.Bytes())
}

// ask sends the request once, as client 0 does. It returns the answer, or an error for an
// unexpected status.
func (r *request) ask() (http.Header, []byte, error) {
	conn, err := net.DialTimeout("tcp", r.address, grace)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(grace)); err != nil {
		return nil, nil, err
	}
	text := bytes.Clone(r.text)
	if r.fill != nil {
		r.fill(text[r.slot:][:len(variable)], 0)
	}
	if _, err := conn.Write(text); err != nil {
		return nil, nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != r.status {
		line, _, _ := bytes.Cut(text, []byte("\r\n"))
		err = fmt.Errorf("%s: got %s %.500s, want %d", line, answer.Status, body, r.status)
	}
	return answer.Header, body, err
}

// connect opens a connection for a client.
func (r *request) connect(client int) (session, error) {
	conn, err := net.DialTimeout("tcp", r.address, grace)
	if err != nil {
		return nil, err
	}
	return &connection{request: r, client: client, conn: conn, text: bytes.Clone(r.text), buffer: make([]byte, 64<<10)}, nil
}

// connection sends a request over its own kept-alive connection. It parses as little of an
// answer as possible, because it shares the processors with the measured servers.
type connection struct {
	*request
	client int
	conn   net.Conn
	text   []byte // the request, with this connection's own part
	buffer []byte
}

func (c *connection) close() { _ = c.conn.Close() }

var (
	headEnd = []byte("\r\n\r\n")
	// contentLengths are the names that Go and Node.js write.
	contentLengths = [][]byte{[]byte("\r\nContent-Length: "), []byte("\r\ncontent-length: ")}
)

func (c *connection) once() error {
	if c.fill != nil {
		c.fill(c.text[c.slot:][:len(variable)], c.client)
	}
	if _, err := c.conn.Write(c.text); err != nil {
		return err
	}
	read, head := 0, -1
	for head < 0 {
		n, err := c.conn.Read(c.buffer[read:])
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		read += n
		head = bytes.Index(c.buffer[:read], headEnd)
	}
	head += len(headEnd)
	status, size := parseHead(c.buffer[:head])
	left := head + size - read
	if status != c.status || size < 0 || c.size > 0 && size != c.size || left < 0 {
		return fmt.Errorf("want %d and %d bytes, got:\n%.1000s", c.status, c.size, c.buffer[:read])
	}
	for left > 0 {
		n, err := c.conn.Read(c.buffer[:min(left, len(c.buffer))])
		if err != nil {
			return fmt.Errorf("reading the body of an answer: %w", err)
		}
		left -= n
	}
	return nil
}

// parseHead returns an answer's status and the size of its body. A missing value is -1.
func parseHead(head []byte) (status, size int) {
	const version = "HTTP/1.1 "
	size = -1
	for _, name := range contentLengths {
		if _, value, found := bytes.Cut(head, name); found {
			size = leadingNumber(value)
			break
		}
	}
	return leadingNumber(head[min(len(version), len(head)):]), size
}

// leadingNumber returns the number at the beginning of text, or -1.
func leadingNumber(text []byte) int {
	n := -1
	for i := 0; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		n = max(n, 0)*10 + int(text[i]-'0')
	}
	return n
}
