package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

// streamPause bounds one write of a download and one read of an upload. A client may
// pause for that long, for example to ask for a passphrase. It is bounded because the
// store keeps all replaced records until the stream ends.
const streamPause = 5 * time.Minute

// download answers with what write writes. If write fails midway the connection is
// aborted, so that a part cannot pass for the whole.
func (r request) download(contentType, what string, write func(context.Context, io.Writer) error) error {
	control := http.NewResponseController(r.w)
	to := &answerStream{w: r.w, contentType: contentType, deadline: deadline{set: control.SetWriteDeadline}}
	err := r.stream(&to.deadline, func(ctx context.Context) error { return write(ctx, to) })
	if err != nil && to.begun {
		caddy.Log().Named("admin.api.presets").Error(what+" ended early", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	return err
}

// upload calls read with the body, whose length is not limited.
func (r request) upload(read func(context.Context, io.Reader) error) error {
	from := &bodyStream{r: r.Body, deadline: deadline{set: http.NewResponseController(r.w).SetReadDeadline}}
	return r.stream(&from.deadline, func(ctx context.Context) error { return read(ctx, from) })
}

// stream runs fn until no configuration uses the store. Otherwise a client that does
// nothing would keep the store open.
func (r request) stream(d *deadline, fn func(context.Context) error) error {
	defer d.set(time.Time{}) //nolint:errcheck // the connection may be gone
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(r.live.Gone(), func() {
		cancel()
		d.end()
	})()
	return fn(ctx)
}

// deadline is the deadline of the next read or write of a connection.
type deadline struct {
	set func(time.Time) error

	mu    sync.Mutex
	ended bool
}

// end makes reads and writes fail, those in flight too.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	_ = d.set(time.Now()) // fails where the connection is gone, too
}

// allow gives the client another streamPause.
func (d *deadline) allow() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return domain.ErrClosed
	}
	return d.set(time.Now().Add(streamPause))
}

// answerStream is the answer that a download is written to.
type answerStream struct {
	w           http.ResponseWriter
	contentType string
	begun       bool
	deadline    deadline
}

func (s *answerStream) Write(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.contentType)
	}
	if err := s.deadline.allow(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// bodyStream is the body that an upload is read from.
type bodyStream struct {
	r        io.Reader
	deadline deadline
}

func (s *bodyStream) Read(p []byte) (int, error) {
	if err := s.deadline.allow(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// fetch sends a request and calls check with the answer. It ends with ctx, and shows
// progress on a terminal.
func (t *client) fetch(ctx context.Context, notes io.Writer, path string, check func(io.Reader) error) (*progress, error) {
	response, err := t.sendUntil(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	defer context.AfterFunc(ctx, func() { response.Body.Close() })()
	p := newProgress(notes, 0)
	err = check(p.watch(response.Body))
	p.done()
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return p, err
}

var errInterrupted = errors.New("interrupted")

// interruptible returns a context that ends with the first interrupt of a command. The
// second interrupt ends the process.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// sendUntil is send, but returns when ctx ends. The body must end with ctx, too.
func (t *client) sendUntil(ctx context.Context, method, path string, headers http.Header, body io.Reader) (*http.Response, error) {
	type answer struct {
		response *http.Response
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		response, err := t.send(method, path, headers, body) //nolint:bodyclose // whoever takes the answer closes it
		answers <- answer{response, err}
	}()
	select {
	case a := <-answers:
		return a.response, a.err
	case <-ctx.Done():
		go func() {
			if a := <-answers; a.err == nil {
				a.response.Body.Close()
			}
		}()
		return nil, errInterrupted
	}
}

// until returns a reader of r that ends with ctx, even while a read of r blocks, as on a
// terminal or a pipe.
func until(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(to, r)
		to.CloseWithError(err)
	}()
	return from
}
