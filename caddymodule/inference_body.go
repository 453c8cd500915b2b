package caddymodule

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// decodeBody returns the text of a body that was sent plain or with gzip. unpacked
// reports whether the text has memory of its own. A body that cannot be decoded is nil:
// the gateway judges it. An unpacked text of more than limit bytes, or without memory, is
// an error.
func (c *inferenceCall) decodeBody(sent []byte, limit int64) (text []byte, unpacked bool, err error) {
	switch codings := strings.Join(c.r.Header.Values("Content-Encoding"), ","); strings.ToLower(codings) {
	case "", "identity":
		return sent, false, nil
	case "gzip", "x-gzip":
	default:
		return nil, false, nil
	}
	text, err = c.held.unpack(sent, limit)
	switch _, refused := errors.AsType[*statusError](err); {
	case refused:
		return nil, false, err
	case err != nil:
		return nil, false, nil
	}
	return text, true, nil
}

// maxRatio is how many times its size gzip may unpack to.
const maxRatio = 1032

// unpack returns what sent, which is gzip, unpacks to. It reserves memory for just that.
// A text of more than limit bytes is errTooLarge.
func (m *reservation) unpack(sent []byte, limit int64) ([]byte, error) {
	// The end of the last gzip member has its size. Almost all bodies have one member.
	var size int64
	if len(sent) > 4 {
		size = int64(binary.LittleEndian.Uint32(sent[len(sent)-4:]))
	}
	size = min(size, limit, maxRatio*int64(len(sent)))
	for {
		zipped, err := gzip.NewReader(bytes.NewReader(sent))
		if err != nil {
			return nil, err
		}
		text, err := m.alloc(size + 1) // to see the end
		if err != nil {
			return nil, err
		}
		for err == nil && len(text) < cap(text) {
			var n int
			n, err = zipped.Read(text[len(text):cap(text)])
			text = text[:len(text)+n]
		}
		if err == io.EOF && int64(len(text)) <= limit { //nolint:errorlint // never wrapped
			return text, nil
		}
		m.sub(int64(cap(text)))
		switch {
		case int64(len(text)) > limit:
			return nil, errTooLarge
		case err != nil:
			return nil, err
		}
		// There is more text than that. Count it, and unpack once more.
		size = int64(len(text))
		more, err := io.Copy(io.Discard, io.LimitReader(zipped, limit-size+1))
		switch size += more; {
		case size > limit:
			return nil, errTooLarge
		case err != nil:
			return nil, err
		}
	}
}
