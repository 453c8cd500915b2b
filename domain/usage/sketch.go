package usage

import (
	"encoding/binary"
	"strconv"
	"sync"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"
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
// their sum is the sketch. So sketches merge by appending. A frame has the number of its
// buckets. For each it has the number of empty buckets before it, and its count.
type sketch struct {
	frames []byte
	packed int // the size when it last was one frame
}

// roomForFrames is the size below which frames are not worth packing.
const roomForFrames = 1024

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
	h := histograms.Get().(*histogram)
	defer h.release()
	for d := (decoder{text: s.frames}); d.more(); {
		if err := h.readFrame(&d); err != nil {
			return err
		}
		h.add()
	}
	s.frames = h.appendFrame(s.frames[:0])
	s.packed = len(s.frames)
	return nil
}

// bin is a bucket and its count.
type bin struct {
	bucket int
	count  uint64
}

// histogram has the counts of all buckets side by side. It serves to merge frames.
type histogram struct {
	counts    []uint64 // by bucket, from firstBucket
	low, high int      // outside of these, counts are 0
	bins      []bin    // in order, of the frame that was read last, or of collect
}

// histograms are free ones. They are empty.
var histograms = sync.Pool{New: func() any {
	h := &histogram{counts: make([]uint64, lastBucket-firstBucket+1)}
	h.low = len(h.counts)
	return h
}}

// release empties the histogram, and gives it back.
func (h *histogram) release() {
	if h.low <= h.high {
		clear(h.counts[h.low : h.high+1])
	}
	h.low, h.high = len(h.counts), 0
	histograms.Put(h)
}

// maxCount bounds the count of a bucket, so that sums cannot overflow.
const maxCount = 1 << 40

// readFrame reads the bins of a frame, at least one.
func (h *histogram) readFrame(d *decoder) error {
	h.bins = h.bins[:0]
	bucket := -1
	for range min(d.number(), uint64(len(h.counts))) {
		var distance, count uint64
		if at := d.at; at+1 < len(d.text) && d.text[at]|d.text[at+1] < 0x80 { // the usual case
			distance, count, d.at = uint64(d.text[at]), uint64(d.text[at+1]), at+2
		} else {
			distance, count = d.number(), d.number()
		}
		if distance >= uint64(len(h.counts)-bucket-1) || count > maxCount {
			return errRow
		}
		bucket += 1 + int(distance)
		h.bins = append(h.bins, bin{bucket, count})
	}
	if bucket < 0 {
		return errRow
	}
	return d.err()
}

// add adds the bins.
func (h *histogram) add() {
	for _, b := range h.bins {
		h.counts[b.bucket] += b.count
	}
	h.low = min(h.low, h.bins[0].bucket)
	h.high = max(h.high, h.bins[len(h.bins)-1].bucket)
}

// collect makes bins of the counts.
func (h *histogram) collect() {
	h.bins = h.bins[:0]
	for bucket := h.low; bucket <= h.high; bucket++ {
		if count := h.counts[bucket]; count > 0 {
			h.bins = append(h.bins, bin{bucket, min(count, maxCount)})
		}
	}
}

// appendFrame appends the histogram as one frame.
func (h *histogram) appendFrame(b []byte) []byte {
	h.collect()
	b = binary.AppendUvarint(b, uint64(len(h.bins)))
	last := -1
	for _, bin := range h.bins {
		b = binary.AppendUvarint(b, uint64(bin.bucket-last-1))
		b = binary.AppendUvarint(b, bin.count)
		last = bin.bucket
	}
	return b
}

// percentiles are the buckets of the 50th, 95th and 99th percentile, plus one. They are 0
// if there are no durations.
type percentiles [3]uint16

// percents are those of percentiles.
var percents = [len(percentiles{})]uint64{50, 95, 99}

// percentiles returns those of the bins, at their nearest ranks.
func (h *histogram) percentiles() (p percentiles) {
	total := uint64(0)
	for _, b := range h.bins {
		total += b.count
	}
	sum, next := uint64(0), 0
	for _, b := range h.bins {
		for sum += b.count; next < len(p) && sum >= (total*percents[next]+99)/100; next++ {
			p[next] = uint16(b.bucket + 1)
		}
	}
	return p
}

// bucketTexts are the values that stand for buckets, in milliseconds, to four digits.
var bucketTexts = func() []string {
	texts := make([]string, lastBucket-firstBucket+1)
	for i := range texts {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(buckets.Value(firstBucket+i), 'g', 4, 64), 64)
		texts[i] = strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	return texts
}()

// text returns a percentile as JSON, "" if there is none.
func (p percentiles) text(i int) string {
	if p[i] == 0 {
		return ""
	}
	return bucketTexts[p[i]-1]
}
