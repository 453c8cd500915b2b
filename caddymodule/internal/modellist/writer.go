package modellist

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
)

// Writer buffers an answer that may be a model list to edit, and streams all
// others. It releases an answer that gets too long, and streams its rest. It drops an answer
// for which there is no memory now. Every answer gets VaryByKey.
//
// Its memory counts as that of bodies does. It is not used again for other requests, since
// HTTP/2 may still read what a failed write has left.
type Writer struct {
	http.ResponseWriter
	limit   func(size int) (lift func()) // of the time to send a list
	memory  heldbody.Reservation
	before  http.Header // the headers without those of the gateway
	decided bool        // the final status is known
	holding bool        // held has the answer so far, with status 200
	held    []byte
	length  int64 // of the answer, 0 if it is not known
	refused error // why the answer was dropped, nil if it was not

	forAnthropic bool        // the client reads Anthropic's form
	patience     *time.Timer // that ends the request to the gateway, nil for none
	missing      error       // why the gateway's answer is no list and was dropped, nil if it was not
}

// NewWriter returns the writer for a request for the list. Lists take at most memory bytes with
// all that heldbody reserves. limit begins to limit the time to send a list of a size, until lift.
// The caller calls Free.
func NewWriter(w http.ResponseWriter, memory int64, limit func(size int) (lift func())) *Writer {
	list := &Writer{ResponseWriter: w, limit: limit, before: w.Header().Clone()}
	list.memory.Limit = memory
	return list
}

// Fetch lets next answer the request for the list. It asks for no content encoding, no range and no
// conditional response, because such a list cannot be edited.
func (w *Writer) Fetch(next caddyhttp.Handler, r *http.Request) error {
	askForWholeList(r)
	err := next.ServeHTTP(w, r)
	if !w.decided { // next wrote nothing: an error route may
		VaryByKey(w.Header())
	}
	return err
}

// patience is how long the gateway may take to send its list. Claude Code waits for 3 s.
const patience = 2 * time.Second

// Reasons why there is no list.
var (
	errLate    = errors.New("the gateway did not send it in time")
	errNoRoute = errors.New("the gateway has no such route")
	errBroken  = errors.New("the gateway's answer broke off")
)

// FetchSoon is Fetch for a list to which presets are added. A gateway that sends none within patience,
// that cannot be reached, or that has no such route, is taken to have sent an empty list in the form
// that the client reads. missing is the reason then, and its request has ended.
func (w *Writer) FetchSoon(next caddyhttp.Handler, r *http.Request) (missing, err error) {
	w.forAnthropic = ReadsAnthropic(r.Header)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.patience = time.AfterFunc(patience, cancel)
	err = w.fetchWhole(next, r.WithContext(ctx), r.Context())
	switch late := !w.patience.Stop(); {
	case w.decided && !w.holding && w.missing == nil, r.Context().Err() != nil:
		return nil, err
	case w.missing != nil:
	case late:
		w.missing = errLate
	case err != nil && !w.decided && isUnreachable(err):
		w.missing = err
	default:
		return nil, err
	}
	w.replaceByNone()
	return w.missing, nil
}

// fetchWhole is Fetch, but a list that breaks off is missing, unless the client left.
func (w *Writer) fetchWhole(next caddyhttp.Handler, r *http.Request, client context.Context) error {
	defer func() {
		switch broken := recover(); {
		case broken == nil:
		case broken == http.ErrAbortHandler && w.refused != nil: //nolint:errorlint // net/http compares it, too
			// The rest of a refused list matters to nobody.
		case broken == http.ErrAbortHandler && w.holding && client.Err() == nil: //nolint:errorlint // net/http compares it, too
			w.missing = errBroken
		default:
			panic(broken)
		}
	}()
	return w.Fetch(next, r)
}

// isUnreachable reports whether an error of a handler means that the gateway did not answer.
func isUnreachable(err error) bool {
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	return ok && (failed.StatusCode == http.StatusBadGateway || failed.StatusCode == http.StatusServiceUnavailable || failed.StatusCode == http.StatusGatewayTimeout)
}

// replaceByNone holds an empty list in the place of the gateway's answer.
func (w *Writer) replaceByNone() {
	w.drop()
	w.resetHeader()
	w.Header().Set("Content-Type", "application/json")
	w.decided, w.holding, w.length = true, true, 0
	none := `{"object":"list","data":[]}`
	if w.forAnthropic {
		none = `{"data":[],"has_more":false,"first_id":null,"last_id":null}`
	}
	if err := w.hold([]byte(none)); err != nil {
		w.Refuse(err)
	}
}

// Empty holds an empty list instead of asking for one.
func (w *Writer) Empty(r *http.Request) {
	w.forAnthropic = ReadsAnthropic(r.Header)
	w.replaceByNone()
}

// ReadsAnthropic reports whether a client reads Anthropic's form of lists, as its own clients and Claude
// Code do.
func ReadsAnthropic(header http.Header) bool {
	agent := header.Get("User-Agent")
	return header.Get("Anthropic-Version") != "" || strings.HasPrefix(agent, "claude-code/") || strings.HasPrefix(agent, "claude-cli/")
}

// IsList reports whether the response may be a list, of which nothing was sent, or was refused.
func (w *Writer) IsList() bool { return w.holding || w.refused != nil }

// Read reads the fetched list. The error is heldbody.ErrNoMemory, or another one for a response that
// is not a list to edit.
func (w *Writer) Read() (*List, error) {
	if w.refused != nil {
		return nil, w.refused
	}
	return read(w.held, w.forAnthropic, &w.memory)
}

// WriteHeader decides whether to hold the answer back.
func (w *Writer) WriteHeader(status int) {
	informational := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if w.decided && !informational {
		return
	}
	if !informational {
		w.decided = true
		VaryByKey(w.Header())
		if w.length, w.holding = mayBeList(w.Header()); w.holding && status == http.StatusOK {
			return
		}
		w.holding = false
		if w.patience != nil && w.lacks(status) {
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// lacks reports whether an answer that is no list says that there is none, which is missing then. After
// that the answer takes its time.
func (w *Writer) lacks(status int) bool {
	switch {
	case !w.patience.Stop():
		w.missing = errLate
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		w.missing = errNoRoute
	}
	return w.missing != nil
}

// isDropped reports whether the client gets nothing of the gateway's answer.
func (w *Writer) isDropped() bool { return w.refused != nil || w.missing != nil }

// Write holds p back, writes it, or drops it.
func (w *Writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK) // unless there is a status already
	if w.holding {
		switch err := w.hold(p); {
		case err == nil:
			return len(p), nil
		case errors.Is(err, heldbody.ErrNoMemory):
			w.Refuse(err)
		}
	}
	if w.isDropped() {
		return len(p), nil
	}
	if w.holding && w.patience != nil && !w.patience.Stop() { // it is too long to be edited
		w.missing = errLate
		return len(p), nil
	}
	if err := w.Release(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// hold appends p to what is held. The error is ErrTooLarge for an answer that is not edited, and
// ErrNoMemory where a retry may succeed.
func (w *Writer) hold(p []byte) (err error) {
	length := int64(len(w.held) + len(p))
	if length > maxSize {
		return heldbody.ErrTooLarge
	}
	if length > int64(cap(w.held)) {
		if w.held, err = w.memory.Grow(w.held, max(length, w.length, 2*int64(cap(w.held)))); err != nil {
			return err
		}
	}
	w.held = append(w.held, p...)
	return nil
}

// Refuse drops the answer of the gateway, with its headers.
func (w *Writer) Refuse(err error) {
	w.holding, w.refused = false, err
	w.Free()
	w.resetHeader()
}

func (w *Writer) resetHeader() {
	header := w.Header()
	clear(header)
	maps.Copy(header, w.before)
	VaryByKey(header)
}

// FlushError sends what was written, unless it is held back or dropped.
func (w *Writer) FlushError() error {
	w.WriteHeader(http.StatusOK) // unless there is a status already
	if w.holding || w.isDropped() {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns the writer to the client, for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Release writes the held answer unchanged. The rest of the answer streams.
func (w *Writer) Release() error {
	if !w.holding {
		return nil
	}
	return w.send(draft.Body{w.held})
}

// send answers with parts, instead of what is held. A client that does not read them in time
// is cut off.
func (w *Writer) send(parts draft.Body) error {
	w.holding = false
	defer w.Free()
	defer w.limit(parts.Len())()
	w.ResponseWriter.WriteHeader(http.StatusOK)
	for _, part := range parts {
		if _, err := w.ResponseWriter.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// drop gives the memory of what is held to other requests. Nothing may refer to it.
func (w *Writer) drop() {
	w.memory.Sub(int64(cap(w.held)))
	w.held = nil
	w.memory.Recycle()
}

// Free gives all memory back.
func (w *Writer) Free() {
	w.held = nil
	w.memory.Abandon()
}

// VaryByKey tells caches that an answer depends on the key and the client. Each workspace lists its own
// presets, or none, and Claude Code gets ids of its own.
func VaryByKey(header http.Header) {
	header.Add("Vary", "Authorization, X-Api-Key, Anthropic-Version, User-Agent")
}

// mayBeList reports whether the headers of an answer allow it to be a model list
// to edit. It also returns its length, 0 if they do not tell it.
func mayBeList(header http.Header) (length int64, ok bool) {
	if header.Get("Content-Type") == "" || !mediatype.IsJSON(header) {
		return 0, false
	}
	if header.Get("Trailer") != "" {
		return 0, false // a trailer cannot follow a length, and may be a digest
	}
	given := header.Get("Content-Length")
	if given == "" {
		return 0, true
	}
	length, err := strconv.ParseInt(given, 10, 64)
	return length, err == nil && length >= 0 && length <= maxSize
}

// Edit sends the fetched list with the entries of presets, and without the models that who may not
// use. It edits a whole list (see read) of at most maxSize bytes, sent plain with status
// 200. Other responses pass unchanged, except for Vary. So does the list if presets fail, and
// failed is their error. Without memory for the list, or if the list is missing and presets fail, nothing
// is sent, and refused tells why.
func (w *Writer) Edit(who domain.Principal, presets Presets) (refused, failed error) {
	var parts draft.Body
	if w.holding {
		parts, failed = edit(w.held, w.forAnthropic, &w.memory, who, presets)
		if errors.Is(failed, heldbody.ErrNoMemory) || failed != nil && w.missing != nil {
			w.Refuse(failed)
		}
	}
	switch {
	case w.refused != nil:
		return w.refused, nil
	case parts == nil:
		_ = w.Release() // an error means that the client left
		return nil, failed
	}
	if who.LimitsModels() {
		w.drop() // parts are copies
	}
	Describe(w.Header(), parts.Len())
	_ = w.send(parts)
	return nil, failed
}
