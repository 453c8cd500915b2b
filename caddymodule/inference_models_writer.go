package caddymodule

import (
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// listWriter buffers an answer that may be a model list to edit, and streams all
// others. It releases an answer that gets too long, and streams its rest. It drops an answer
// for which there is no memory now. Every answer gets varyByKey.
//
// Its memory counts as that of bodies does. It is not used again for other requests, since
// HTTP/2 may still read what a failed write has left.
type listWriter struct {
	http.ResponseWriter
	call    *inferenceCall
	memory  heldbody.Reservation
	before  http.Header // the headers without those of the gateway
	decided bool        // the final status is known
	holding bool        // held has the answer so far, with status 200
	held    []byte
	length  int64 // of the answer, 0 if it is not known
	refused error // why the answer was dropped, nil if it was not
}

// newListWriter returns the listWriter of a request. The caller calls free.
func (c *inferenceCall) newListWriter() *listWriter {
	w := &listWriter{ResponseWriter: c.w, call: c, before: c.w.Header().Clone()}
	w.memory.Limit = c.h.Inference.MaxMemory / 2 // bodies always have the other half
	return w
}

// fetch lets next answer the request for the model list.
func (w *listWriter) fetch(next caddyhttp.Handler) error {
	askForWholeList(w.call.r)
	err := next.ServeHTTP(w, w.call.r)
	if !w.decided { // next wrote nothing: an error route may
		varyByKey(w.Header())
	}
	return err
}

// WriteHeader decides whether to hold the answer back.
func (w *listWriter) WriteHeader(status int) {
	informational := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if w.decided && !informational {
		return
	}
	if !informational {
		w.decided = true
		varyByKey(w.Header())
		if w.length, w.holding = mayBeList(w.Header()); w.holding && status == http.StatusOK {
			return
		}
		w.holding = false
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write holds p back, writes it, or drops it.
func (w *listWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK) // unless there is a status already
	if w.holding {
		switch err := w.hold(p); {
		case err == nil:
			return len(p), nil
		case errors.Is(err, heldbody.ErrNoMemory):
			w.refuse(err)
		}
	}
	if w.refused != nil {
		return len(p), nil
	}
	if err := w.release(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// hold appends p to what is held. The error is errTooLarge for an answer that is not edited, and
// errNoMemory where a retry may succeed.
func (w *listWriter) hold(p []byte) (err error) {
	length := int64(len(w.held) + len(p))
	if length > maxModels {
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

// refuse drops the answer of the gateway, with its headers.
func (w *listWriter) refuse(err error) {
	w.holding, w.refused = false, err
	w.free()
	header := w.Header()
	clear(header)
	maps.Copy(header, w.before)
	varyByKey(header)
}

// FlushError sends what was written, unless it is held back or dropped.
func (w *listWriter) FlushError() error {
	w.WriteHeader(http.StatusOK) // unless there is a status already
	if w.holding || w.refused != nil {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns the writer to the client, for http.ResponseController.
func (w *listWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// release writes the held answer unchanged. The rest of the answer streams.
func (w *listWriter) release() error {
	if !w.holding {
		return nil
	}
	return w.send(inference.Body{w.held})
}

// send answers with parts, instead of what is held. A client that does not read them in time
// is cut off.
func (w *listWriter) send(parts inference.Body) error {
	w.holding = false
	defer w.free()
	defer w.call.limitWriting(parts.Len())()
	w.ResponseWriter.WriteHeader(http.StatusOK)
	for _, part := range parts {
		if _, err := w.ResponseWriter.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// drop gives the memory of what is held to other requests. Nothing may refer to it.
func (w *listWriter) drop() {
	w.memory.Sub(int64(cap(w.held)))
	w.held = nil
	w.memory.Recycle()
}

// free gives all memory back.
func (w *listWriter) free() {
	w.held = nil
	w.memory.Abandon()
}

// varyByKey tells caches that an answer depends on the key. Each workspace lists its own
// presets, or none.
func varyByKey(header http.Header) { header.Add("Vary", "Authorization, X-Api-Key") }

// mayBeList reports whether the headers of an answer allow it to be a model list
// to edit. It also returns its length, 0 if they do not tell it.
func mayBeList(header http.Header) (length int64, ok bool) {
	if header.Get("Content-Type") == "" || !isJSON(header) {
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
	return length, err == nil && length >= 0 && length <= maxModels
}
