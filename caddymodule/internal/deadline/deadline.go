// Package deadline bounds how long slow clients may take: to send a body, to send one that nobody
// reads, and to take a response.
package deadline

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Limits are how long clients may take.
type Limits struct {
	// Body is how long a body of up to 4 MiB may take to arrive, and a response of that size to be
	// read. An operator's read_body and write timeouts replace it.
	Body time.Duration
	// Linger is how long a client may go on sending an unread body, and read the response.
	// net/http reads some of the body before it closes the connection. Without this limit
	// the connection would be open for as long as a request may take.
	Linger time.Duration
}

// Default are the limits of production. A body has a rate of 0.6 Mbit/s.
var Default = Limits{Body: time.Minute, Linger: 5 * time.Second}

// bodySize is how many bytes may take Limits.Body.
const bodySize = 4 << 20

// Read returns the request's body of at most limit bytes, within its time limit. It takes
// its memory from a reservation, which may be nil.
func (l Limits) Read(w http.ResponseWriter, r *http.Request, limit int64, memory *heldbody.Reservation) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, heldbody.ErrTooLarge
	}
	if r.ContentLength == 0 {
		// Set no deadline: over HTTP/1.1 the server already waits for the next request. It
		// would take the deadline for a lost connection.
		return []byte{}, nil
	}
	if !memory.HasRoom(r.ContentLength) {
		return nil, heldbody.ErrNoMemory // before its client sends it for nothing
	}
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout == 0 {
		// Without a deadline a client could hold a connection by sending a byte now and
		// then. The server removes the deadline at the end of the body. Some writers cannot
		// set one. They get none.
		size := limit
		if r.ContentLength >= 0 {
			size = r.ContentLength
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.timeFor(size)))
	}
	body, err := memory.ReadAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	if err != nil {
		return nil, readError(err)
	}
	return body, nil
}

func (l Limits) timeFor(size int64) time.Duration {
	return l.Body * time.Duration(max(1, (size+bodySize-1)/bodySize))
}

func readError(err error) error {
	if refused, ok := errors.AsType[*status.Error](err); ok {
		return refused
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return heldbody.ErrTooLarge
	}
	// An outer request_body max_size fails reads with an error of Caddy's.
	if outer, ok := errors.AsType[caddyhttp.HandlerError](err); ok && outer.StatusCode == http.StatusRequestEntityTooLarge {
		return heldbody.ErrTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &status.Error{Status: http.StatusRequestTimeout, Message: "The request body took too long to arrive"}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return domain.InvalidAt("", "ended before its announced length")
	}
	return domain.InvalidAt("", "could not be read")
}

// maxDiscarded is the largest body, in bytes, that is read although nobody wants it. It is that of
// net/http over HTTP/1.1.
const maxDiscarded = 256 << 10

// LeaveBody prepares the answer to a request whose body is not wanted.
func (l Limits) LeaveBody(w http.ResponseWriter, r *http.Request) {
	switch control := http.NewResponseController(w); {
	case r.ContentLength == 0:
	case r.ProtoMajor == 1:
		// An open connection would wait for the rest of the body before it carries
		// the answer.
		w.Header().Set("Connection", "close")
		_ = control.SetReadDeadline(time.Now().Add(l.Linger))
	case r.ProtoMajor == 2 && 0 < r.ContentLength && r.ContentLength <= maxDiscarded:
		// An answer before the end of the body resets the stream, and curl then often loses
		// the answer. A body of unknown length may never end.
		_ = control.SetReadDeadline(time.Now().Add(l.Linger))
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
	}
}

// LimitWriting sets a write deadline, unless the operator set a write timeout. A client
// has as much time to take an answer as to send a body of that size. Small answers need
// no deadline: they fit into the system's buffers. Call lift after the write.
func (l Limits) LimitWriting(w http.ResponseWriter, r *http.Request, size int) (lift func()) {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout != 0 || size < 64<<10 {
		return func() {}
	}
	controller := http.NewResponseController(w)
	_ = controller.SetWriteDeadline(time.Now().Add(l.timeFor(int64(size))))
	return func() { _ = controller.SetWriteDeadline(time.Time{}) }
}
