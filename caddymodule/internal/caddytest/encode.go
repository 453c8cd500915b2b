package caddytest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Encode encodes a text as a Content-Encoding says.
func Encode(t testing.TB, codings, text string) string {
	t.Helper()
	for coding := range strings.SplitSeq(codings, ",") {
		var out bytes.Buffer
		var w io.WriteCloser
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "identity":
			continue
		case "gzip", "x-gzip":
			text = Gzip(text)
			continue
		case "deflate":
			w = zlib.NewWriter(&out)
		case "br":
			w = brotli.NewWriterLevel(&out, 2)
		case "zstd":
			encoder, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true)) // it does not tell the size
			if err != nil {
				t.Fatal(err)
			}
			w = encoder
		default:
			t.Fatalf("no such coding: %q", coding)
		}
		_, _ = io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text = out.String()
	}
	return text
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
