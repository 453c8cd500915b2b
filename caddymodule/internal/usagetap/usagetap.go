// Package usagetap passes the responses of a gateway on, and reads from them what requests have used.
package usagetap

import (
	"cmp"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// Tap passes an answer on, and reads what passed. It may leave the chunk that tells a stream's usage
// out: see New.
type Tap struct {
	*caddyhttp.ResponseWriterWrapper
	dialect   domain.Dialect
	hideUsage bool
	counts    bool
	content   func(streamed bool) func([]byte)
	opening   func(status int)             // is called before the answer's header is written
	reader    *gatewayanswer.Reader        // nil until the answer's header
	filter    *inference.StreamUsageFilter // nil for answers that pass unchanged
	status    int
	first     time.Time // when the first byte of the body passed
	broken    bool      // the client does not take the rest
}

// New returns a tap before a client's writer, for a route's dialect. It calls opening before it
// writes the header of the response. With hideUsage, the client does not get the chunk that tells a
// stream's usage. Answers that are no stream pass unchanged, and so do encoded ones. With countContent, the request has its Content.
func New(w http.ResponseWriter, dialect domain.Dialect, hideUsage, countContent bool, opening func(status int)) *Tap {
	return &Tap{
		ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		dialect:               dialect, hideUsage: hideUsage, counts: countContent, opening: opening,
	}
}

// Content gives the content of the answer to the function that begin returns, without its encoding. It must
// be called before the answer.
func (t *Tap) Content(begin func(streamed bool) func([]byte)) { t.content = begin }

// Status returns the status of the response, 0 before its header.
func (t *Tap) Status() int { return t.status }

// WriteHeader passes a header on. Those of interim answers may come before.
func (t *Tap) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		t.open(status)
	}
	t.ResponseWriterWrapper.WriteHeader(status)
}

// open begins to read the answer. Its header is about to be written.
func (t *Tap) open(status int) {
	if t.status != 0 {
		return
	}
	t.status = status
	t.opening(status)
	header := t.Header()
	t.reader = gatewayanswer.New(t.dialect, header.Get("Content-Type"), header.Get("Content-Encoding"))
	if t.counts {
		t.reader.CountContent()
	}
	if t.content != nil {
		t.reader.Tee(t.content(t.reader.Streamed()))
	}
	if t.hideUsage && status == http.StatusOK && isPlainStream(header) {
		t.filter = new(inference.StreamUsageFilter)
		header.Del("Content-Length")
	}
}

func isPlainStream(header http.Header) bool {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // "" if it is none
	return media == "text/event-stream" && cmp.Or(header.Get("Content-Encoding"), "identity") == "identity"
}

// Write passes bytes of the body on.
func (t *Tap) Write(p []byte) (int, error) {
	t.open(http.StatusOK)
	n, err := t.pass(p)
	var now time.Time
	if isFirst := t.first.IsZero() && n > 0; isFirst || t.reader.NeedsTime() {
		if now = time.Now(); isFirst {
			t.first = now
		}
	}
	t.broken = t.broken || err != nil
	t.reader.Write(p[:n], now)
	return n, err
}

// pass writes what may pass. It returns len(p) for bytes that wait or are left out.
func (t *Tap) pass(p []byte) (int, error) {
	if t.filter == nil {
		return t.ResponseWriterWrapper.Write(p)
	}
	if passing := t.filter.Next(p); len(passing) > 0 {
		if n, err := t.ResponseWriterWrapper.Write(passing); err != nil {
			return min(n, len(p)), err
		}
	}
	return len(p), nil
}

// passRest passes on what waited at the end of the answer. It flushes that, because the server
// does not where an answer breaks off.
func (t *Tap) passRest() {
	if t.filter == nil {
		return
	}
	if rest := t.filter.End(); len(rest) > 0 {
		_, err := t.ResponseWriterWrapper.Write(rest)
		if err == nil {
			err = http.NewResponseController(t.ResponseWriter).Flush()
		}
		t.broken = t.broken || err != nil
	}
}

// ReadFrom passes a body on through Write.
func (t *Tap) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{t}, r)
}

// clientLeft is the status that reverse_proxy writes, without an error, where its client left before the gateway answered.
const clientLeft = 499

// Close ends a request that began at begun, and returns what it used. It passes on what the client
// has not got yet. ended tells whether
// the gateway sent all of its answer, and left whether the client is gone. A client that has the
// last event of a stream has all of it.
func (t *Tap) Close(begun time.Time, ended, left bool) *usage.Request {
	t.passRest()
	if t.reader == nil {
		t.reader = gatewayanswer.New(t.dialect, "", "")
	}
	seen := t.reader.Close(ended && !t.broken)
	status := t.status
	if left && status == clientLeft {
		status, ended = 0, false
	}
	aborted := !seen.Ended && (t.broken || left && !ended)
	used := &usage.Request{
		Dialect: t.dialect, Model: seen.Model, Status: status, Failed: seen.Failed, Aborted: aborted,
		Streamed: seen.Streamed, Tokens: seen.Tokens, Unknown: seen.Unknown,
		Content: seen.Content, Told: seen.Told, Cut: seen.Cut, Bare: seen.Bare,
		Start: begun, Duration: time.Since(begun),
		FirstByte: between(begun, t.first), FirstContent: between(begun, seen.FirstContent),
	}
	told := seen.Cost
	if told == "" && !seen.Streamed { // a header cannot tell what a stream is going to cost
		told = gatewayanswer.CostOf(t.Header())
	}
	if told != "" {
		cost, err := decimal.NewFromString(told)
		used.Cost, used.HasCost = cost, err == nil
	}
	if status == 0 || status >= 400 {
		used.Unknown = "" // an error uses nothing, unless it says so
	}
	if status == 0 && aborted {
		used.Unknown = gatewayanswer.Aborted
	}
	return used
}

// between returns the time from one moment to another, -1 if the other never came.
func between(from, to time.Time) time.Duration {
	if to.IsZero() {
		return -1
	}
	return to.Sub(from)
}
