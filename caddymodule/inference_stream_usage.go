package caddymodule

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

const (
	streamUsageOff = "off"
	streamUsageAdd = "add"
)

// streamUsages are the values of Usage.StreamUsage.
var streamUsages = []string{streamUsageOff, streamUsageAdd}

// provisionStreamUsage sets the default of StreamUsage, and checks it.
func (u *Usage) provisionStreamUsage() error {
	u.StreamUsage = cmp.Or(u.StreamUsage, streamUsageOff)
	if err := directive.CheckWord(u.StreamUsage, streamUsages...); err != nil {
		return fmt.Errorf("stream_usage: %w", err)
	}
	return nil
}

// addsStreamUsage reports whether chat streams are asked for their usage.
func (u *Usage) addsStreamUsage() bool { return u != nil && u.StreamUsage == streamUsageAdd }

// hideStreamUsage prepares to take the usage out of the stream, which its client did not ask
// for. An encoded stream is not searched, so the gateway is asked for a plain one.
func (c *inferenceCall) hideStreamUsage() {
	c.streamUsage = true
	c.r.Header.Set("Accept-Encoding", "identity")
}

// streamUsageWriter passes an answer on, without the chunk that tells a stream's usage.
// Answers that are no stream pass unchanged, and so do encoded ones.
type streamUsageWriter struct {
	http.ResponseWriter
	opened bool
	filter *inference.StreamUsageFilter // nil for answers that pass unchanged
}

// Unwrap returns the client's writer, for http.ResponseController.
func (w *streamUsageWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader passes a header on. The length of a stream is left out.
func (w *streamUsageWriter) WriteHeader(status int) {
	w.open(status)
	w.ResponseWriter.WriteHeader(status)
}

// open decides what happens to an answer. Headers of interim answers decide nothing.
func (w *streamUsageWriter) open(status int) {
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
func (w *streamUsageWriter) Write(p []byte) (int, error) {
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

// close passes on what waited at the end of the answer. It flushes that, because the server
// does not where an answer breaks off.
func (w *streamUsageWriter) close() error {
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
