package heldbody

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
)

// TestDecodedMemory decodes bodies, of which some tell a wrong size. Just the memory that a text
// takes stays reserved.
func TestDecodedMemory(t *testing.T) {
	const limit = 140_000
	text := strings.Repeat("x", 100_000)
	lying := func(size uint32) string {
		packed := []byte(caddytest.Gzip(text))
		return string(binary.LittleEndian.AppendUint32(packed[:len(packed)-4], size))
	}
	sized := []byte(caddytest.WithSize(t, text))
	if sized[4]>>6 != 2 {
		t.Fatalf("the size has another length: %x", sized[:16])
	}
	// lyingFrame tells another size, in the four bytes behind the descriptor and the window.
	lyingFrame := func(size uint32) string {
		frame := bytes.Clone(sized)
		at := 5
		if frame[4]&1<<5 == 0 {
			at++
		}
		binary.LittleEndian.PutUint32(frame[at:], size)
		return string(frame)
	}
	type test struct {
		name, coding, sent, want string
		err                      error
	}
	tests := []test{
		{"two members", "gzip", caddytest.Gzip(text) + caddytest.Gzip("y"), text + "y", nil},
		{"two members, the second larger", "gzip", caddytest.Gzip("y") + caddytest.Gzip(text), "y" + text, nil},
		{"empty last member", "gzip", caddytest.Gzip(text) + caddytest.Gzip(""), text, nil},
		{"two members, too large", "gzip", caddytest.Gzip(text) + caddytest.Gzip(text), "", ErrTooLarge},
		{"more than there is", "gzip", lying(0xffffffff), "", errBroken},
		{"less than there is", "gzip", lying(1), "", errBroken},
		{"its size", "zstd", string(sized), text, nil},
		{"two frames", "zstd", string(sized) + caddytest.WithSize(t, "y"), text + "y", nil},
		{"two frames, the second larger", "zstd", caddytest.WithSize(t, "y") + string(sized), "y" + text, nil},
		{"an empty frame before", "zstd", caddytest.WithSize(t, "", zstd.WithZeroFrames(true)) + string(sized), text, nil},
		{"two frames, too large", "zstd", string(sized) + string(sized), "", ErrTooLarge},
		{"more than there is", "zstd", lyingFrame(100_001), "", errBroken},
		{"less than there is", "zstd", lyingFrame(99_999), "", errBroken},
		{"far more than there is", "zstd", lyingFrame(0xffffffff), "", errBroken},
		{"its size, too large", "zstd", caddytest.WithSize(t, strings.Repeat("x", limit+1)), "", ErrTooLarge},
		{"a huge window", "zstd", "\x28\xb5\x2f\xfd\x00\xf0\x01\x00\x00", "", errBroken},
		{"none", "gzip", "\x1f", "", errBroken},
		{"none", "zstd", "\x28", "", errBroken},
	}
	for coding := range decoders {
		tests = append(tests,
			test{"plain", coding, caddytest.Encode(t, coding, text), text, nil},
			test{"empty", coding, caddytest.Encode(t, coding, ""), "", nil},
			test{"of the largest size", coding, caddytest.Encode(t, coding, strings.Repeat("x", limit)), strings.Repeat("x", limit), nil},
			test{"a byte too large", coding, caddytest.Encode(t, coding, strings.Repeat("x", limit+1)), "", ErrTooLarge},
			test{"cut", coding, caddytest.Encode(t, coding, text)[:10], "", errBroken},
		)
	}
	for _, tc := range tests {
		m, got, err := decodeFrom(tc.coding, tc.sent, 32<<20, limit)
		if broken := isBroken(err); broken != errors.Is(tc.err, errBroken) || !broken && !errors.Is(err, tc.err) || string(got) != tc.want {
			t.Errorf("%s, %s: got %d bytes, %v, want %d, %v", tc.coding, tc.name, len(got), err, len(tc.want), tc.err)
		}
		if m.held.Load() != int64(cap(got)) || cap(got) > max(len(tc.want), 100_000)+1 {
			t.Errorf("%s, %s: %d bytes are reserved, and %d taken, for %d", tc.coding, tc.name, m.held.Load(), cap(got), len(tc.want))
		}
		m.ReleaseAll()
	}
	// Without memory a text is refused, and nothing stays reserved.
	for coding := range decoders {
		if m, _, err := decodeFrom(coding, caddytest.Encode(t, coding, text), 70_000, limit); !errors.Is(err, ErrTooLarge) || m.held.Load() != 0 {
			t.Errorf("%s: got %v without memory, and %d bytes are reserved", coding, err, m.held.Load())
		}
	}
	// The memory of a decoder counts while it decodes.
	other := &Reservation{Limit: 32 << 20}
	if err := other.Add(31 << 20); err != nil {
		t.Fatal(err)
	}
	for coding, want := range map[string]error{"gzip": nil, "zstd": ErrNoMemory} {
		m, _, err := decodeFrom(coding, caddytest.Encode(t, coding, "text"), 32<<20, limit)
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v beside others, want %v", coding, err, want)
		}
		m.ReleaseAll()
	}
	other.ReleaseAll()
	if InUse() != 0 {
		t.Errorf("%d bytes are held", InUse())
	}
}

// errBroken stands for any codingError.
var errBroken = errors.New("broken")

func isBroken(err error) bool {
	refused, ok := errors.AsType[*status.Error](err)
	return ok && refused.Status == http.StatusUnsupportedMediaType
}

// decodeFrom decodes a body, with memory of a limit.
func decodeFrom(coding, sent string, memory, limit int64) (*Body, []byte, error) {
	b := &Body{Reservation: Reservation{Limit: memory}}
	text, err := b.Decode(http.Header{"Content-Encoding": {coding}}, []byte(sent), limit)
	return b, text, err
}

// FuzzEncodedBody decodes anything. What is reserved at the end is what the text takes.
func FuzzEncodedBody(f *testing.F) {
	for coding := range decoders {
		f.Add(coding, []byte(caddytest.Encode(f, coding, `{"model":"@preset/writer"}`)))
	}
	f.Fuzz(func(t *testing.T, coding string, sent []byte) {
		const limit = 64 << 10
		b := &Body{Reservation: Reservation{Limit: 32 << 20}}
		defer b.ReleaseAll()
		text, err := b.Decode(http.Header{"Content-Encoding": {coding}}, sent, limit)
		unpacked := b.IsEncoded()
		_, refused := errors.AsType[*status.Error](err)
		switch {
		case err != nil && (!refused || text != nil || unpacked):
			t.Errorf("got %q, %t, %v", text, unpacked, err)
		case unpacked && len(text) > limit:
			t.Errorf("got %d bytes", len(text))
		}
		want := int64(0)
		if unpacked {
			want = int64(cap(text))
		}
		if got := b.held.Load(); got != want {
			t.Errorf("%d bytes are reserved, want %d", got, want)
		}
	})
}

// TestDecodersFail checks that a decoder which panics refuses the body alone.
func TestDecodersFail(t *testing.T) {
	decoders["panics"] = func(m *Reservation, _ []byte, _ int64) ([]byte, error) {
		if err := m.Add(100); err != nil {
			t.Fatal(err)
		}
		panic("of the decoder")
	}
	t.Cleanup(func() { delete(decoders, "panics") })
	if m, _, err := decodeFrom("panics", "x", 1000, 1); fmt.Sprint(err) != "Unsupported content encoding: the body is not valid panics" || m.held.Load() != 0 {
		t.Errorf("got %v, and %d bytes are reserved", err, m.held.Load())
	}
}

// TestReadAll checks that the reserved memory equals the memory of the result.
func TestReadAll(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 100<<10)
	for _, size := range []int{0, 1, 511, 512, 513, FirstRead, FirstRead + bytes.MinRead, 300_000, len(text)} {
		for _, announced := range []int{-1, size, size / 2, 2 * size} {
			for name, reader := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "with its end": iotest.DataErrReader, "in halves": iotest.HalfReader,
			} {
				m := &Reservation{Limit: 10 << 20}
				got, err := m.ReadAll(reader(bytes.NewReader(text[:size])), int64(announced), 1<<30)
				if err != nil || !bytes.Equal(got, text[:size]) {
					t.Fatalf("%s, %d bytes, %d announced: got %d bytes, %v", name, size, announced, len(got), err)
				}
				if m.held.Load() != int64(cap(got)) || InUse() != int64(cap(got)) {
					t.Errorf("%s, %d bytes, %d announced: %d and %d bytes are reserved for %d", name, size, announced, m.held.Load(), InUse(), cap(got))
				}
				if most := 2*max(size, announced) + 2*bytes.MinRead; cap(got) > most {
					t.Errorf("%s, %d bytes, %d announced: %d bytes are taken", name, size, announced, cap(got))
				}
				m.ReleaseAll()
				if got, err := (*Reservation)(nil).ReadAll(reader(bytes.NewReader(text[:size])), int64(announced), 1<<30); err != nil || !bytes.Equal(got, text[:size]) {
					t.Fatalf("%s, %d bytes, %d announced, not counted: got %d bytes, %v", name, size, announced, len(got), err)
				}
			}
		}
	}
	failure := errors.New("broken")
	m := &Reservation{Limit: 10 << 20}
	if _, err := m.ReadAll(io.MultiReader(bytes.NewReader(text), iotest.ErrReader(failure)), -1, 1<<30); !errors.Is(err, failure) {
		t.Errorf("got %v, want the reader's error", err)
	}
	m.ReleaseAll()
	m = &Reservation{Limit: 1 << 20}
	if _, err := m.ReadAll(bytes.NewReader(text), -1, 1<<30); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v for what never fits, want errTooLarge", err)
	}
	m.ReleaseAll()
	if InUse() != 0 {
		t.Errorf("%d bytes are held", InUse())
	}
}

// TestHeldBody reads, closes and drops bodies, also concurrently.
func TestHeldBody(t *testing.T) {
	closed := 0
	newBody := func(text string) *Body {
		b := &Body{Reservation: Reservation{Limit: 1 << 20}}
		if err := b.Add(int64(len(text))); err != nil {
			t.Fatal(err)
		}
		b.Replay(draft.Body{[]byte(text)}, closer(func() error { closed++; return nil }))
		return b
	}
	// read reads n bytes at most.
	read := func(b *Body, n int) (string, error) {
		p := make([]byte, n)
		got, err := b.Read(p)
		return string(p[:got]), err
	}

	b := newBody("hello")
	if got, err := read(b, 3); got != "hel" || err != nil || InUse() != 5 {
		t.Errorf("got %q, %v and %d bytes held", got, err, InUse())
	}
	if got, err := read(b, 3); got != "lo" || err != nil || InUse() != 0 {
		t.Errorf("got %q, %v and %d bytes held after the last one", got, err, InUse())
	}
	b.Drop()
	if got, err := read(b, 3); got != "" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v behind the end", got, err)
	}
	for name, end := range map[string]func(*Body){"closed": func(b *Body) { _ = b.Close() }, "dropped": (*Body).Drop} {
		b := newBody("hello")
		_, _ = read(b, 2)
		end(b)
		if got, err := read(b, 3); got != "" || !errors.Is(err, http.ErrBodyReadAfterClose) || InUse() != 0 || b.rest != nil {
			t.Errorf("%s: got %q, %v and %d bytes held", name, got, err, InUse())
		}
	}
	if closed != 1 {
		t.Errorf("the original was closed %d times, want once", closed)
	}
	if got, err := read(newBody(""), 3); got != "" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v from an empty body", got, err)
	}

	var group sync.WaitGroup
	for range 100 {
		b := newBody(strings.Repeat("x", 1000))
		group.Go(func() { _, _ = io.Copy(io.Discard, b) })
		group.Go(b.Drop)
		group.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			b.End(ctx, errors.New("failed"))
			cancel()
		})
	}
	group.Wait()
	if InUse() != 0 {
		t.Errorf("%d bytes are held", InUse())
	}
}

// TestMergedBuffer has bodies merged, read and dropped at once. The buffer of one is not another's before it was read,
// and all of it counts as held.
func TestMergedBuffer(t *testing.T) {
	for _, size := range []int{1, 100, 3000, 60 << 10, 200 << 10} {
		one := &Body{Reservation: Reservation{Limit: 1 << 20}}
		if err := one.Reserve(size); err != nil {
			t.Fatal(err)
		}
		if room := one.Buffer(size); len(room) != 0 || cap(room) != size {
			t.Errorf("got %d bytes of %d for %d", len(room), cap(room), size)
		}
		if one.merged != nil && InUse() != int64(len(one.merged.text)) || one.merged == nil && InUse() != int64(size) {
			t.Errorf("%d bytes are held for %d", InUse(), size)
		}
		one.Drop()
		if one.merged != nil || InUse() != 0 {
			t.Errorf("%d bytes are held", InUse())
		}
	}
	full := &Body{Reservation: Reservation{Limit: 3000}}
	if err := full.Reserve(3000); err != nil {
		t.Fatal(err)
	}
	if room := full.Buffer(3000); cap(room) != 3000 || full.merged != nil {
		t.Error("got a buffer beyond the limit")
	}
	full.Drop()

	var bodies [100]Body
	for i := range bodies {
		b, text := &bodies[i], strings.Repeat(fmt.Sprint(i%10), 1000)
		b.Limit = 1 << 20
		if err := b.Reserve(len(text)); err != nil {
			t.Fatal(err)
		}
		merged := append(b.Buffer(len(text)), text...)
		b.ReplayMerged(draft.Body{merged[:i], merged[i:]}, closer(func() error { return nil }))
		if i%3 > 0 {
			continue
		}
		if whole, err := b.Join(); string(whole) != text || err != nil || b.merged != nil && i > 0 {
			t.Errorf("got %.20q…, %v", whole, err)
		}
	}
	var group sync.WaitGroup
	for i := range bodies {
		group.Go(func() {
			if got, err := io.ReadAll(iotest.OneByteReader(&bodies[i])); string(got) != strings.Repeat(fmt.Sprint(i%10), 1000) || err != nil {
				t.Errorf("got %.20q…, %v", got, err)
			}
			_ = bodies[i].Close()
		})
	}
	group.Wait()
	if InUse() != 0 {
		t.Errorf("%d bytes are held", InUse())
	}
}

type closer func() error

// TestByteSemaphore acquires and releases from many goroutines. The limit is never
// exceeded.
func TestByteSemaphore(t *testing.T) {
	var s byteSemaphore
	const limit = 1000
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range int64(5000) {
				n = n%400 + int64(i)
				if s.tryAcquire(n, limit) {
					if got := s.held.Load(); got > limit || got < n {
						t.Errorf("%d bytes are held", got)
					}
					s.release(n)
				}
			}
		})
	}
	group.Wait()
	if s.held.Load() != 0 {
		t.Errorf("%d bytes are held", s.held.Load())
	}
	if s.tryAcquire(limit+1, limit) || !s.tryAcquire(limit, limit) || s.tryAcquire(1, limit) || !s.tryAcquire(1, limit+1) {
		t.Error("the limit is not the limit")
	}
}

func TestBufferSize(t *testing.T) {
	for _, size := range []int64{0, 1, bytes.MinRead, bytes.MinRead + 1, 2 * bytes.MinRead, 2*bytes.MinRead + 1, FirstRead + bytes.MinRead, 1<<20 + bytes.MinRead, 1<<20 + bytes.MinRead + 1, 5 << 20, 64<<20 + bytes.MinRead, 64<<20 + bytes.MinRead + 1} {
		got := bufferSize(size)
		if got < size || got > max(2*size, 2*bytes.MinRead) || size > 64<<10+bytes.MinRead && got != size || bufferSize(got) != got {
			t.Errorf("got %d for %d", got, size)
		}
		b := newBuffer(got)
		if int64(len(b.text)) != got || (b.pool != nil) != (got <= 64<<10+bytes.MinRead) {
			t.Errorf("got a buffer of %d for %d", len(b.text), got)
		}
		b.recycle(128 << 20)
	}
	if got := bufferSize(FirstRead + bytes.MinRead); got != FirstRead+bytes.MinRead {
		t.Errorf("got %d for a body of %d", got, FirstRead)
	}
}

// TestIdleBuffers checks that large buffers are used again by bodies that are nearly as large, and give room to others.
func TestIdleBuffers(t *testing.T) {
	idle.dropUnlessUsed(idle.puts)()
	m := &Reservation{Limit: 10 << 20}
	read := func(size int64) *byte {
		t.Helper()
		body, err := m.ReadAll(bytes.NewReader(make([]byte, size)), size, size)
		if err != nil {
			t.Fatal(err)
		}
		first := &body[0]
		m.Recycle()
		m.ReleaseAll()
		return first
	}
	first := read(5 << 20)
	if read(4<<20+1<<19) != first {
		t.Error("a body that is a little smaller got other memory")
	}
	if read(3<<20) == first {
		t.Error("a much smaller body got it")
	}
	if got := idle.bytes.Load(); got < 8<<20 || got > m.Limit {
		t.Errorf("%d bytes are idle", got)
	}
	read(4 << 20)
	read(2 << 20)
	if got := idle.bytes.Load(); got < 5<<20 || got > m.Limit {
		t.Errorf("%d bytes are idle, and %d may be", got, m.Limit)
	}
	m.ReleaseAll()
	if idle.dropUnlessUsed(idle.puts)(); idle.bytes.Load() != 0 || len(idle.buffers) != 0 {
		t.Errorf("%d bytes stay", idle.bytes.Load())
	}
}

func (c closer) Close() error { return c() }
