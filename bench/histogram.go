package main

import (
	"math/bits"
	"time"
)

// subBuckets is the number of buckets for each power of two. The error of a result is less
// than one in subBuckets.
const subBuckets = 128

// histogram counts durations in buckets whose width grows with the duration.
type histogram struct {
	counts [58 * subBuckets]uint32
	total  uint64
}

func (h *histogram) record(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

// bucketOf returns the bucket of a number of nanoseconds. Each number below subBuckets
// has its own bucket.
func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-8, 0)
	return shift*subBuckets + int(v>>shift)
}

// upperEnd returns the largest number of nanoseconds in a bucket.
func upperEnd(bucket int) uint64 {
	shift := max(bucket/subBuckets-1, 0)
	return uint64(bucket-shift*subBuckets+1)<<shift - 1
}

func (h *histogram) add(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile returns the duration that the share q of all values did not exceed. It is 0
// for an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); seen > rank || seen == h.total && seen > 0 {
			return time.Duration(upperEnd(i))
		}
	}
	return 0
}
