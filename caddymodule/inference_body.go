package caddymodule

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// decoded returns the text of a body that was sent as it is or with gzip, and
// nil for what cannot be decoded, which is the gateway's to judge. plain reports
// whether nothing had to be decoded. A text larger than a body may be is an
// error.
func (c *inferenceCall) decoded(sent []byte) (body []byte, plain bool, err error) {
	switch codings := strings.Join(c.r.Header.Values("Content-Encoding"), ","); strings.ToLower(codings) {
	case "", "identity":
		return sent, true, nil
	case "gzip", "x-gzip":
	default:
		return nil, true, nil
	}
	zipped, err := gzip.NewReader(bytes.NewReader(sent))
	if err != nil {
		return nil, true, nil
	}
	limit := c.h.Inference.MaxBodySize
	text, err := io.ReadAll(http.MaxBytesReader(nil, zipped, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, false, errTooLarge
	}
	if err != nil {
		return nil, true, nil
	}
	return text, false, nil
}
