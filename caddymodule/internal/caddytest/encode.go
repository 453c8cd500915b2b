package caddytest

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Encode encodes a text as a Content-Encoding says.
func Encode(t testing.TB, coding, text string) string {
	t.Helper()
	if coding != "zstd" {
		return Gzip(text)
	}
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true)) // it does not tell the size
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// WithSize encodes a text in zstd, with its size.
func WithSize(t testing.TB, text string, options ...zstd.EOption) string {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoder.EncodeAll([]byte(text), nil))
}

// Gzip encodes a text in gzip.
func Gzip(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}
