package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

// streamPause bounds one write of a download and one read of an upload. A client may
// pause for that long, for example to ask for a passphrase. It is bounded because the
// store keeps all replaced records until the stream ends.
const streamPause = 5 * time.Minute

// stream is the answer to a download or the body of an upload, of any length. It fails
// once no configuration uses the store, so that an idle client does not keep it open.
type stream struct {
	ctx         context.Context // ends with the request, and when the stream fails
	w           http.ResponseWriter
	contentType string // of a download
	isBegun     bool   // a part of the answer was written
	body        io.Reader
	setDeadline func(time.Time) error
	release     func()

	mu      sync.Mutex
	isEnded bool
}

// download returns a stream to write the answer to. The caller calls close.
func (r request) download(contentType string) *stream {
	s := &stream{w: r.w, contentType: contentType, setDeadline: http.NewResponseController(r.w).SetWriteDeadline}
	s.open(r)
	return s
}

// isHead answers a HEAD for a download with the type alone: nothing is read from the store for
// it, and no backup counts as made.
func (r request) isHead(contentType string) bool {
	if r.Method != http.MethodHead {
		return false
	}
	r.w.Header().Set("Content-Type", contentType)
	return true
}

// upload returns a stream to read the body from. The caller calls close.
func (r request) upload() *stream {
	s := &stream{body: r.Body, setDeadline: http.NewResponseController(r.w).SetReadDeadline}
	s.open(r)
	return s
}

func (s *stream) open(r request) {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(r.Context())
	stop := context.AfterFunc(r.live.Gone(), func() {
		cancel()
		s.end()
	})
	s.release = func() {
		stop()
		cancel()
	}
}

// close removes the deadline of the connection.
func (s *stream) close() {
	s.release()
	_ = s.setDeadline(time.Time{}) // fails if the connection is gone
}

// abort returns err. If a part of the answer was written, it aborts the connection: a part
// must not look like the whole.
func (s *stream) abort(what string, err error) error {
	if err != nil && s.isBegun {
		caddy.Log().Named("admin.api.presets").Error(what+" ended early", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	return err
}

// end makes reads and writes fail, also those in progress.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isEnded = true
	_ = s.setDeadline(time.Now()) // fails if the connection is gone
}

// extendDeadline gives the client another streamPause.
func (s *stream) extendDeadline() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnded {
		return domain.ErrClosed
	}
	return s.setDeadline(time.Now().Add(streamPause))
}

func (s *stream) Write(p []byte) (int, error) {
	if !s.isBegun {
		s.isBegun = true
		s.w.Header().Set("Content-Type", s.contentType)
	}
	if err := s.extendDeadline(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

func (s *stream) Read(p []byte) (int, error) {
	if err := s.extendDeadline(); err != nil {
		return 0, err
	}
	return s.body.Read(p)
}

// flush sends what was written. Until then an error of the connection may not show.
func (s *stream) flush() error { return http.NewResponseController(s.w).Flush() }

// fetch sends a request and calls check with the answer. It ends with ctx, and shows
// progress on a terminal.
func (t *client) fetch(ctx context.Context, messages io.Writer, path string, check func(*terminal.Progress) error) (*terminal.Progress, error) {
	response, err := t.sendUntil(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	defer context.AfterFunc(ctx, func() { response.Body.Close() })()
	p := terminal.NewProgress(messages, response.Body, 0)
	err = check(p)
	p.Done()
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return p, err
}

var errInterrupted = errors.New("interrupted")

// sendUntil is send, but returns when ctx ends. The body must end with ctx, too.
func (t *client) sendUntil(ctx context.Context, method, path string, headers http.Header, body io.Reader) (*http.Response, error) {
	type answer struct {
		response *http.Response
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		response, err := t.send(method, path, headers, body) //nolint:bodyclose // the receiver of the answer closes it
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

// until returns a reader of r that ends with ctx, even while a read of r blocks. Reads of
// terminals and pipes may block.
func until(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(to, r)
		to.CloseWithError(err)
	}()
	return from
}
