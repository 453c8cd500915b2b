package answer

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
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

// decoding is a content encoding. Its decoders are used again. A decoder of zstd has
// channels. So a test must not read zstd in a synctest bubble: the pool would take them out
// of it.
type decoding struct {
	pool sync.Pool
	// open makes old, which is nil or was returned before, read from r.
	open func(old, r io.Reader) (io.Reader, error)
}

// decodings are the content encodings that are read. nil reads the bytes as they are.
var decodings = map[string]*decoding{
	"":         nil,
	"identity": nil,
	"gzip":     {open: openGzip},
	"br":       {open: openBrotli},
	"zstd":     {open: openZstd},
}

func openGzip(old, r io.Reader) (io.Reader, error) {
	if z, ok := old.(*gzip.Reader); ok {
		return z, z.Reset(r)
	}
	return gzip.NewReader(r)
}

// openBrotli refuses a window above maxWindow, which the first byte tells.
func openBrotli(old, r io.Reader) (io.Reader, error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(r, first); err != nil {
		return nil, err
	}
	// RFC 7932, section 9.1: 1111 is a window of 16 MiB, 0010001 a large window.
	if first[0]&0x0F == 0x0F || first[0]&0x7F == 0x11 {
		return nil, errTooLarge
	}
	r = io.MultiReader(bytes.NewReader(first), r)
	z, ok := old.(*brotliReader)
	if !ok {
		z = &brotliReader{}
	}
	return z, z.Reset(r)
}

// brotliReader mends the end of a brotli.Reader. That one calls a whole stream excessive
// input if its last bits came byte by byte. It counts bytes that it has read already.
type brotliReader struct{ brotli.Reader }

func (z *brotliReader) Read(p []byte) (int, error) {
	n, err := z.Reader.Read(p)
	if err != nil {
		// It is at the end only if its stream is whole and no byte follows.
		if _, next := z.Reader.Read(nil); errors.Is(next, io.EOF) {
			err = io.EOF
		}
	}
	return n, err
}

func openZstd(old, r io.Reader) (io.Reader, error) {
	if z, ok := old.(*zstd.Decoder); ok {
		return z, z.Reset(r)
	}
	// With a concurrency of 1, it has no goroutines.
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxDecoded))
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
func newDecoder(encoding *decoding, sink func([]byte)) *decoder {
	d := &decoder{}
	d.resume, d.stop = iter.Pull(func(yield func(struct{}) bool) {
		d.yield = yield
		d.finish(d.decode(encoding, sink))
	})
	return d
}

// decode decodes until the end, and returns why it ended.
func (d *decoder) decode(encoding *decoding, sink func([]byte)) (err error) {
	defer func() {
		if recover() != nil { // a decoder's own fault, from bytes that nobody checked
			err = errDecoder
		}
	}()
	old, _ := encoding.pool.Get().(io.Reader)
	r, err := encoding.open(old, d)
	if err != nil {
		return err
	}
	buf := make([]byte, decodedPiece)
	for total := 0; ; {
		n, err := r.Read(buf)
		if total += n; total > maxDecoded {
			return errTooLarge
		}
		sink(buf[:n])
		if err != nil {
			encoding.pool.Put(r)
			return err
		}
	}
}

var errDecoder = errors.New("the decoder failed")

// finish records why decoding ended.
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
