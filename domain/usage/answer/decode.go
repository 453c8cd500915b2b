package answer

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"iter"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxDecoded bounds what an encoded answer decodes to, and so the time that a
	// decompression bomb takes.
	maxDecoded = 64 << 20
	// maxWindow bounds the memory of a decoder. RFC 9659 has it for zstd.
	maxWindow = 8 << 20
	// decodedPiece is how much is decoded at once.
	decodedPiece = 8 << 10
)

// decoders are the content encodings that are read. nil reads the bytes as they are.
var decoders = map[string]func(io.Reader) (io.ReadCloser, error){
	"":         nil,
	"identity": nil,
	"gzip":     openGzip,
	"x-gzip":   openGzip,
	"deflate":  zlib.NewReader,
	"br":       openBrotli,
	"zstd":     openZstd,
}

func openGzip(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

// openBrotli refuses a window above maxWindow, which the first byte tells.
func openBrotli(r io.Reader) (io.ReadCloser, error) {
	var first [1]byte
	if _, err := io.ReadFull(r, first[:]); err != nil {
		return nil, err
	}
	// RFC 7932, section 9.1: 1111 is a window of 16 MiB, 0010001 a large window.
	if first[0]&0x0F == 0x0F || first[0]&0x7F == 0x11 {
		return nil, errTooLarge
	}
	return io.NopCloser(brotli.NewReader(io.MultiReader(bytes.NewReader(first[:]), r))), nil
}

func openZstd(r io.Reader) (io.ReadCloser, error) {
	// With a concurrency of 1, it has no goroutines.
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

var (
	errTooLarge = errors.New("too large")
	errClosed   = errors.New("closed")
)

// decoder decodes bytes as they come. The decoder of the encoding wants to read, but here
// bytes are written. So it runs in a coroutine, which write resumes until it needs more.
// There is no concurrency: write returns when all of its bytes are decoded.
type decoder struct {
	in     []byte // what is left of the bytes of write
	ended  bool   // no more bytes come
	yield  func(struct{}) bool
	resume func() (struct{}, bool)
	stop   func()

	reason    Reason
	truncated bool // the bytes end before the encoding does
}

// newDecoder returns a decoder that gives what it decodes to sink.
func newDecoder(open func(io.Reader) (io.ReadCloser, error), sink func([]byte)) *decoder {
	d := &decoder{}
	d.resume, d.stop = iter.Pull(func(yield func(struct{}) bool) {
		d.yield = yield
		d.finish(d.decode(open, sink))
	})
	return d
}

// decode decodes until the end, and returns why it ended.
func (d *decoder) decode(open func(io.Reader) (io.ReadCloser, error), sink func([]byte)) (err error) {
	defer func() {
		if recover() != nil { // a decoder's own fault, from bytes that nobody checked
			err = errDecoder
		}
	}()
	r, err := open(d)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing is lost: it was read to its end
	buf := make([]byte, decodedPiece)
	for total := 0; ; {
		n, err := r.Read(buf)
		if total += n; total > maxDecoded {
			return errTooLarge
		}
		sink(buf[:n])
		if err != nil {
			return err
		}
	}
}

var errDecoder = errors.New("the decoder failed")

// finish notes why decoding ended.
func (d *decoder) finish(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errClosed):
	case errors.Is(err, io.ErrUnexpectedEOF):
		d.truncated = true
	case errors.Is(err, errTooLarge), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		d.reason = TooLarge
	default:
		d.reason = Encoding
	}
}

// Read gives the decoder of the encoding its bytes, and waits for more.
func (d *decoder) Read(p []byte) (int, error) {
	for len(d.in) == 0 {
		if d.ended {
			return 0, io.EOF
		}
		if !d.yield(struct{}{}) {
			return 0, errClosed
		}
	}
	n := copy(p, d.in)
	d.in = d.in[n:]
	return n, nil
}

// write decodes p.
func (d *decoder) write(p []byte) {
	d.in = p
	d.resume()
	d.in = nil
}

// close ends the decoder. It reports whether bytes are missing.
func (d *decoder) close() (truncated bool) {
	d.ended = true
	d.resume()
	d.stop()
	return d.truncated
}
