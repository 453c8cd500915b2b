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

// streamPause is how long whoever asks for a backup may leave what was sent to it
// unread, for example while it asks for a passphrase, and who sends an import may take
// for the next of it. Until it ends the store keeps all that is replaced meanwhile.
const streamPause = 5 * time.Minute

// download answers with what write writes. When that fails midway the connection is
// aborted, so that what has arrived cannot pass for the whole.
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

// upload gives the body, of whatever length, to read.
func (r request) upload(read func(context.Context, io.Reader) error) error {
	from := &bodyStream{r: r.Body, deadline: deadline{set: http.NewResponseController(r.w).SetReadDeadline}}
	return r.stream(&from.deadline, func(ctx context.Context) error { return read(ctx, from) })
}

// stream runs fn until the store is withdrawn: a client that does nothing would keep
// it from whoever opens it next.
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

// deadline is that of the next read or write of a connection.
type deadline struct {
	set func(time.Time) error

	mu    sync.Mutex
	ended bool
}

// end makes all that comes fail, also what is under way.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	_ = d.set(time.Now()) // fails where the connection is gone, too
}

// allow gives a client its time.
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

// fetch lets check read what the server answers, until ctx ends, and shows progress
// on a terminal.
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

// interruptible returns a context that ends when a command is interrupted. Then it can be
// interrupted once more, which ends the process whatever it waits for.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// sendUntil is send, which it does not wait for once ctx has ended. A body has to end with
// ctx.
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

// until returns a reader of r that ends with ctx, also while r has nothing to read, as a
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
