package usage

import (
	"encoding/binary"
	"errors"
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

// histogram has the counts of all buckets side by side. It serves to merge frames.
type histogram struct {
	counts    []uint64 // by bucket, from firstBucket
	low, high int      // outside of these, counts are 0
	total     uint64
	bins      []bin  // of the last frame that was loaded, in order
	text      []byte // for appendFrame
}

// bin is a bucket and its count.
type bin struct {
	bucket int
	count  uint64
}

// histograms are free ones. They are empty.
var histograms = sync.Pool{New: func() any {
	h := &histogram{counts: make([]uint64, lastBucket-firstBucket+1)}
	h.low = len(h.counts)
	return h
}}

func newHistogram() *histogram { return histograms.Get().(*histogram) }

// release empties the histogram, and gives it back.
func (h *histogram) release() {
	h.clear()
	histograms.Put(h)
}

// clear empties the histogram.
func (h *histogram) clear() {
	if h.low <= h.high {
		clear(h.counts[h.low : h.high+1])
	}
	h.low, h.high, h.total = len(h.counts), 0, 0
}

// load adds the buckets of frames. Bytes that are no frames are an error.
func (h *histogram) load(frames []byte) (err error) {
	for len(frames) > 0 {
		if frames, err = h.readBins(frames); err != nil {
			return err
		}
		h.add()
	}
	return nil
}

// add adds the bins.
func (h *histogram) add() {
	for _, b := range h.bins {
		h.counts[b.bucket] += b.count
		h.total += b.count
	}
	h.low = min(h.low, h.bins[0].bucket)
	h.high = max(h.high, h.bins[len(h.bins)-1].bucket)
}

// readBins reads the bins of the first frame, at least one. It returns the other frames.
func (h *histogram) readBins(frames []byte) (rest []byte, err error) {
	h.bins = h.bins[:0]
	number, size := binary.Uvarint(frames)
	if size <= 0 || number == 0 || number > uint64(len(h.counts)) {
		return nil, errSketch
	}
	frames = frames[size:]
	bucket := -1
	for range number {
		var distance, count uint64
		if len(frames) >= 2 && frames[0]|frames[1] < 0x80 { // the usual case
			distance, count = uint64(frames[0]), uint64(frames[1])
			frames = frames[2:]
		} else {
			if distance, size = binary.Uvarint(frames); size <= 0 {
				return nil, errSketch
			}
			frames = frames[size:]
			if count, size = binary.Uvarint(frames); size <= 0 {
				return nil, errSketch
			}
			frames = frames[size:]
		}
		if distance >= uint64(len(h.counts)-bucket-1) || count == 0 || count > maxCount {
			return nil, errSketch
		}
		bucket += 1 + int(distance)
		h.bins = append(h.bins, bin{bucket, count})
	}
	return frames, nil
}

// maxCount bounds the count of a bucket, so that sums cannot overflow.
const maxCount = 1 << 40

// appendFrame appends the histogram as one frame, nothing if it is empty.
func (h *histogram) appendFrame(b []byte) []byte {
	if h.total == 0 {
		return b
	}
	number, last := uint64(0), -1
	h.text = h.text[:0]
	for bucket := h.low; bucket <= h.high; bucket++ {
		if count := h.counts[bucket]; count > 0 {
			h.text = binary.AppendUvarint(h.text, uint64(bucket-last-1))
			h.text = binary.AppendUvarint(h.text, min(count, maxCount))
			number, last = number+1, bucket
		}
	}
	return append(binary.AppendUvarint(b, number), h.text...)
}

// percentiles are the buckets of the 50th, 95th and 99th percentile, plus one. They are 0
// if there are no durations.
type percentiles [3]uint16

// percents are those of percentiles.
var percents = [len(percentiles{})]uint64{50, 95, 99}

// ranks returns the nearest ranks of percentiles, from 1.
func ranks(total uint64) (at [len(percents)]uint64) {
	for i, percent := range percents {
		at[i] = total/100*percent + (total%100*percent+99)/100
	}
	return at
}

// percentiles returns those of the histogram.
func (h *histogram) percentiles() (p percentiles) {
	if h.total == 0 {
		return p
	}
	at, sum, next := ranks(h.total), uint64(0), 0
	for bucket := h.low; next < len(p); bucket++ {
		for sum += h.counts[bucket]; next < len(p) && sum >= at[next]; next++ {
			p[next] = uint16(bucket + 1)
		}
	}
	return p
}

// read returns the percentiles of a sketch, and adds it to the histogram, which serves as
// a sum of several.
func (h *histogram) read(s *sketch) (p percentiles, err error) {
	if len(s.frames) == 0 {
		return p, nil
	}
	if err := s.pack(); err != nil {
		return p, err
	}
	if _, err := h.readBins(s.frames); err != nil {
		return p, err
	}
	before := h.total
	h.add()
	at, sum, next := ranks(h.total-before), uint64(0), 0
	for _, b := range h.bins {
		for sum += b.count; next < len(p) && sum >= at[next]; next++ {
			p[next] = uint16(b.bucket + 1)
		}
	}
	return p, nil
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
