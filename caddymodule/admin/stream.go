package admin

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// streamPause bounds one write of a download and one read of an upload. A client may
// pause for that long, for example to ask for a passphrase. It is bounded because the
// store keeps all replaced records until the stream ends.
const streamPause = 5 * time.Minute

// stream is the response to a download or the body of an upload, of any length. It fails
// once no configuration uses the store, so that an idle client does not keep it open.
type stream struct {
	request
	ctx         context.Context // ends with the request, and when the stream fails
	isBegun     bool            // a part of the response was written
	setDeadline func(time.Time) error
	release     func()

	mu      sync.Mutex
	isEnded bool
}

// stream returns the response or the body as a stream, which the caller closes.
func (r request) stream(setDeadline func(time.Time) error) *stream {
	ctx, cancel := context.WithCancel(r.Context())
	s := &stream{request: r, ctx: ctx, setDeadline: setDeadline}
	stop := context.AfterFunc(r.live.Gone(), func() {
		cancel()
		s.end()
	})
	s.release = func() {
		stop()
		cancel()
	}
	return s
}

// close removes the deadline of the connection.
func (s *stream) close() {
	s.release()
	_ = s.setDeadline(time.Time{}) // fails if the connection is gone
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
	if err := s.extendDeadline(); err != nil {
		return 0, err
	}
	s.isBegun = true
	return s.w.Write(p)
}

func (s *stream) Read(p []byte) (int, error) {
	if err := s.extendDeadline(); err != nil {
		return 0, err
	}
	return s.Body.Read(p)
}
