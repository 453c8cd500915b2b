package caddymodule

import (
	"bytes"
	"net/http"
	"strconv"
)

// listWriter buffers an answer that may be a model list to edit, and streams all
// others. It releases an answer that gets longer than maxModels, and streams its rest.
// Every answer gets varyByKey.
type listWriter struct {
	http.ResponseWriter
	decided bool // the final status is known
	holding bool // held has the answer so far, with status 200
	held    bytes.Buffer
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
		if w.holding = status == http.StatusOK && mayBeList(w.Header()); w.holding {
			return
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write holds p back or writes it.
func (w *listWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK) // unless there is a status already
	if w.holding && w.held.Len()+len(p) <= maxModels {
		return w.held.Write(p)
	}
	if err := w.release(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// FlushError sends what was written, unless it is held back.
func (w *listWriter) FlushError() error {
	w.WriteHeader(http.StatusOK) // unless there is a status already
	if w.holding {
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
	w.holding = false
	w.ResponseWriter.WriteHeader(http.StatusOK)
	_, err := w.ResponseWriter.Write(w.held.Bytes())
	w.held = bytes.Buffer{}
	return err
}

// varyByKey tells caches that an answer depends on the key. Each workspace lists its own
// presets, or none.
func varyByKey(header http.Header) { header.Add("Vary", "Authorization, X-Api-Key") }

// mayBeList reports whether the headers of an answer allow it to be a model list
// to edit.
func mayBeList(header http.Header) bool {
	if header.Get("Content-Type") == "" || !isJSON(header) {
		return false
	}
	if header.Get("Trailer") != "" {
		return false // a trailer cannot follow a length, and may be a digest
	}
	given := header.Get("Content-Length")
	if given == "" {
		return true
	}
	length, err := strconv.ParseUint(given, 10, 64)
	return err == nil && length <= maxModels
}
