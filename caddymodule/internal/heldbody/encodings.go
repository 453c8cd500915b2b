package heldbody

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
)

// A decoder returns what sent decodes to, and reserves memory for that. A text of more than
// Limit bytes is ErrTooLarge.
type decoder func(m *Reservation, sent []byte, limit int64) ([]byte, error)

// decoders are the content codings of bodies (RFC 9110, section 8.4.1) that clients use.
var decoders = map[string]decoder{"gzip": decodeGzip, "x-gzip": decodeGzip, "zstd": decodeZstd}

// codingError refuses a body that cannot be decoded. It names the codings that can be.
func codingError(message string) error {
	return &status.Error{
		Status: http.StatusUnsupportedMediaType, Message: "Unsupported content encoding: " + message,
		Header: "Accept-Encoding", Value: "zstd, gzip",
	}
}

// Decode returns the text of a body that was sent as it is or in a known coding. b keeps the text
// until DropText, ReplaySent or ReplayMerged. The error is a *status.Error of 415 for any other body. It is
// ErrTooLarge for a text of more than limit bytes, and ErrNoMemory without memory.
func (b *Body) Decode(header http.Header, sent []byte, limit int64) ([]byte, error) {
	b.text, b.decoded = sent, false
	coding := strings.ToLower(strings.TrimSpace(strings.Join(header["Content-Encoding"], ",")))
	if len(sent) == 0 || coding == "" || coding == "identity" {
		return sent, nil
	}
	decode := decoders[coding]
	if decode == nil {
		return nil, codingError(strconv.QuoteToASCII(coding[:min(len(coding), 64)]) + ": send the body in zstd or gzip, or as it is")
	}
	text, err := decodeSafely(decode, &b.Reservation, sent, limit)
	if _, explained := errors.AsType[*status.Error](err); err != nil && !explained {
		err = codingError("the body is not valid " + coding)
	}
	if err != nil {
		return nil, err
	}
	b.text, b.decoded = text, true
	return text, nil
}

// decodeSafely decodes a body. A panic is the decoder's own fault, from bytes that nobody checked.
func decodeSafely(decode decoder, m *Reservation, sent []byte, limit int64) (text []byte, err error) {
	before := m.held.Load()
	defer func() {
		if recover() != nil {
			m.Sub(m.held.Load() - before)
			text, err = nil, errors.New("the decoder failed")
		}
	}()
	return decode(m, sent, limit)
}

// maxRatio is how many times its size gzip may decode to.
const maxRatio = 1032

func decodeGzip(m *Reservation, sent []byte, limit int64) ([]byte, error) {
	// The end of the last gzip member has its size. Almost all bodies have one member.
	var size int64
	if len(sent) > 4 {
		size = int64(binary.LittleEndian.Uint32(sent[len(sent)-4:]))
	}
	return m.decodeStream(limit, min(size, limit, maxRatio*int64(len(sent))), 0, func() (io.Reader, error) {
		return gzip.NewReader(bytes.NewReader(sent))
	})
}

// maxZstdWindow is the largest window of zstd, in bytes (RFC 9659).
const maxZstdWindow = 8 << 20

// decodeZstd decodes frames of the first one's window or a smaller one. Frames of up to 1 MiB may
// have any.
func decodeZstd(m *Reservation, sent []byte, limit int64) ([]byte, error) {
	const least, tables = 1 << 20, 1 << 20
	window, size := int64(maxZstdWindow), int64(0)
	var header zstd.Header
	if header.Decode(sent) == nil && !header.Skippable {
		window = int64(min(max(header.WindowSize, least), maxZstdWindow))
		size = int64(min(header.FrameContentSize, uint64(limit)))
	}
	text, err := m.decodeStream(limit, size, window+least+tables, func() (io.Reader, error) {
		return zstd.NewReader(bytes.NewReader(sent), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(window)))
	})
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = codingError("zstd must have a window of at most 8 MiB, and none larger than the first frame's")
	}
	return text, err
}

// decodeStream returns the text that open returns a reader of. It reserves memory for just that,
// if it has size bytes. Otherwise it reads the text once more. Meanwhile it reserves what the
// decoder takes, but at most half of all memory, so that a body fits beside it.
func (m *Reservation) decodeStream(limit, size, decoder int64, open func() (io.Reader, error)) ([]byte, error) {
	decoder = min(decoder, m.Limit/2)
	if err := m.Add(decoder); err != nil {
		return nil, err
	}
	defer m.Sub(decoder)
	for {
		stream, err := open()
		if err != nil {
			return nil, err
		}
		text, err := m.Alloc(size + 1) // to see the end
		if err != nil {
			return nil, err
		}
		for err == nil && len(text) < cap(text) {
			var n int
			n, err = stream.Read(text[len(text):cap(text)])
			text = text[:len(text)+n]
		}
		if err == io.EOF && int64(len(text)) <= limit { //nolint:errorlint // never wrapped
			return text, nil
		}
		m.Sub(int64(cap(text)))
		switch {
		case int64(len(text)) > limit:
			return nil, ErrTooLarge
		case err != nil:
			return nil, err
		}
		// There is more text than that. Count it, and decode once more.
		size = int64(len(text))
		more, err := io.Copy(io.Discard, io.LimitReader(stream, limit-size+1))
		switch size += more; {
		case size > limit:
			return nil, ErrTooLarge
		case err != nil:
			return nil, err
		}
	}
}
