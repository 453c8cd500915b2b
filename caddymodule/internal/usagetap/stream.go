package usagetap

import (
	"cmp"
	"mime"
	"net/http"

	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// StreamWriter passes an answer on, without the chunk that tells a stream's usage.
// Answers that are no stream pass unchanged, and so do encoded ones.
type StreamWriter struct {
	http.ResponseWriter
	opened bool
	filter *inference.StreamUsageFilter // nil for answers that pass unchanged
}

// NewStreamWriter returns the writer before a client's.
func NewStreamWriter(w http.ResponseWriter) *StreamWriter {
	return &StreamWriter{ResponseWriter: w}
}

// Unwrap returns the client's writer, for http.ResponseController.
func (w *StreamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader passes a header on. The length of a stream is left out.
func (w *StreamWriter) WriteHeader(status int) {
	w.open(status)
	w.ResponseWriter.WriteHeader(status)
}

// open decides what happens to an answer. Headers of interim answers decide nothing.
func (w *StreamWriter) open(status int) {
	if w.opened || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.opened = true
	header := w.Header()
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // "" if it is none
	coding := cmp.Or(header.Get("Content-Encoding"), "identity")
	if status == http.StatusOK && media == "text/event-stream" && coding == "identity" {
		w.filter = new(inference.StreamUsageFilter)
		header.Del("Content-Length")
	}
}

// Write passes on what may pass. It returns len(p) for bytes that wait or are left out.
func (w *StreamWriter) Write(p []byte) (int, error) {
	w.open(http.StatusOK)
	if w.filter == nil {
		return w.ResponseWriter.Write(p)
	}
	if passing := w.filter.Next(p); len(passing) > 0 {
		if n, err := w.ResponseWriter.Write(passing); err != nil {
			return min(n, len(p)), err
		}
	}
	return len(p), nil
}

// Close passes on what waited at the end of the answer. It flushes that, because the server
// does not where an answer breaks off.
func (w *StreamWriter) Close() error {
	if w.filter == nil {
		return nil
	}
	rest := w.filter.End()
	if len(rest) == 0 {
		return nil
	}
	if _, err := w.ResponseWriter.Write(rest); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}
