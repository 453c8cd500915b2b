package usage

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// RelativeError bounds the error of a quantile of durations, relative to the value of its
// rank. It holds from 10 µs to 24 h. Shorter and longer durations count as these.
const RelativeError = 0.02

const (
	shortest = 10 * time.Microsecond
	longest  = 24 * time.Hour
)

// buckets has a smaller error than RelativeError, which includes the rounding to four
// digits.
var buckets = func() *mapping.LogarithmicMapping {
	m, err := mapping.NewLogarithmicMapping(0.0194)
	if err != nil {
		panic(err)
	}
	return m
}()

// The indexes of the first and the last bucket. Values are in milliseconds.
var (
	firstBucket = buckets.Index(milliseconds(shortest))
	lastBucket  = buckets.Index(milliseconds(longest))
)

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sketch has the durations of a sum as a DDSketch. Frames are one behind the other, and
// their sum is the sketch. So sketches merge by appending. A frame has its number of
// buckets, and for each bucket its distance from the last one and its count.
type sketch struct {
	frames []byte
	packed int // the size when it last was one frame
}

// roomForFrames is the size below which frames are not worth packing.
const roomForFrames = 512

// add adds a duration.
func (s *sketch) add(d time.Duration) {
	bucket := buckets.Index(milliseconds(min(max(d, shortest), longest))) - firstBucket
	s.frames = append(s.frames, 1)
	s.frames = binary.AppendUvarint(s.frames, uint64(bucket))
	s.frames = append(s.frames, 1)
	s.shrink()
}

// merge adds another sketch's frames.
func (s *sketch) merge(frames []byte) {
	s.frames = append(s.frames, frames...)
	s.shrink()
}

// shrink packs the sketch if most of it is new. It bounds the sketch's size.
func (s *sketch) shrink() {
	if len(s.frames) > max(roomForFrames, 2*s.packed) {
		_ = s.pack() // damage shows when the sketch is read
	}
}

// pack makes the sketch one frame, the same for every order of additions.
func (s *sketch) pack() error {
	if len(s.frames) == s.packed {
		return nil
	}
	h := newHistogram()
	defer h.release()
	if err := h.load(s.frames); err != nil {
		return err
	}
	s.frames = h.appendFrame(s.frames[:0])
	s.packed = len(s.frames)
	return nil
}

var errSketch = errors.New("sketch is damaged")

// histograms are for sketches while they are read.
var histograms = sync.Pool{New: func() any { return &histogram{DenseStore: store.NewDenseStore()} }}

// histogram has a sketch's buckets side by side. Index 0 is firstBucket.
type histogram struct {
	*store.DenseStore
	buckets []byte // for appendFrame
}

func newHistogram() *histogram {
	h := histograms.Get().(*histogram)
	h.Clear()
	return h
}

func (h *histogram) release() { histograms.Put(h) }

// load adds the buckets of frames. Bytes that are no frames are an error.
func (h *histogram) load(frames []byte) error {
	for len(frames) > 0 {
		number, size := binary.Uvarint(frames)
		if size <= 0 || number == 0 {
			return errSketch
		}
		frames = frames[size:]
		bucket := uint64(0)
		for i := range number {
			var distance, count uint64
			if len(frames) >= 2 && frames[0]|frames[1] < 0x80 { // the usual case
				distance, count = uint64(frames[0]), uint64(frames[1])
				frames = frames[2:]
			} else {
				if distance, size = binary.Uvarint(frames); size <= 0 {
					return errSketch
				}
				frames = frames[size:]
				if count, size = binary.Uvarint(frames); size <= 0 {
					return errSketch
				}
				frames = frames[size:]
			}
			if distance > uint64(lastBucket-firstBucket) || distance == 0 && i > 0 || count == 0 || count > 1<<53 {
				return errSketch
			}
			if bucket += distance; bucket > uint64(lastBucket-firstBucket) {
				return errSketch
			}
			h.AddWithCount(int(bucket), float64(count))
		}
	}
	return nil
}

// appendFrame appends the histogram as one frame, nothing if it is empty.
func (h *histogram) appendFrame(b []byte) []byte {
	number, last := uint64(0), 0
	h.buckets = h.buckets[:0]
	h.ForEach(func(bucket int, count float64) (stop bool) {
		h.buckets = binary.AppendUvarint(h.buckets, uint64(bucket-last))
		h.buckets = binary.AppendUvarint(h.buckets, uint64(count))
		number, last = number+1, bucket
		return false
	})
	if number == 0 {
		return b
	}
	return append(binary.AppendUvarint(b, number), h.buckets...)
}

// percentiles are of durations, in milliseconds, to four digits. They are zero if there are
// no durations.
type percentiles struct{ p50, p95, p99 float64 }

// percentiles returns the histogram's quantiles.
func (h *histogram) percentiles() (q percentiles) {
	if h.IsEmpty() {
		return q
	}
	at := func(percent float64) float64 { // of the nearest rank
		return bucketValues[h.KeyAtRank(math.Ceil(percent*h.TotalCount()/100)-1)]
	}
	return percentiles{p50: at(50), p95: at(95), p99: at(99)}
}

// bucketValues are the values that stand for buckets, to four digits.
var bucketValues = func() []float64 {
	values := make([]float64, lastBucket-firstBucket+1)
	for i := range values {
		rounded := strconv.FormatFloat(buckets.Value(firstBucket+i), 'g', 4, 64)
		values[i], _ = strconv.ParseFloat(rounded, 64)
	}
	return values
}()
