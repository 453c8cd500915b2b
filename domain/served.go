package domain

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Served is the hour of the last inference request to each version of a preset, in hours
// since 1970. Its keys are the numbers of versions. Versions that were never served are not
// in it. A request counts from when it goes to the gateway, whatever the answer.
type Served map[int]int64

// MaxServed bounds the versions of a Served. Those that were served last stay.
const MaxServed = 10_000

// ServedHour returns the hour of a time, as Served has it.
func ServedHour(t time.Time) int64 { return max(t.Unix(), 0) / 3600 }

// Add returns s with the later hours of other, and whether any is later. It may change s. It
// leaves out versions that p does not have, and those that were served first beyond MaxServed.
func (s Served) Add(other Served, p PresetState) (Served, bool) {
	changed := false
	for n, hour := range other {
		if earlier, ok := s[n]; !ok || earlier < hour {
			if s == nil {
				s = make(Served)
			}
			s[n], changed = hour, true
		}
	}
	maps.DeleteFunc(s, func(n int, _ int64) bool { return !p.Has(n) })
	if len(s) > MaxServed {
		byHour := slices.SortedFunc(maps.Keys(s), func(a, b int) int { return cmp.Or(cmp.Compare(s[a], s[b]), cmp.Compare(a, b)) })
		for _, n := range byHour[:len(s)-MaxServed] {
			delete(s, n)
		}
	}
	return s, changed
}

// lastServed is the last member of a version as clients see it.
const lastServed = `,"last_served_at":`

// appendTo appends the member of version n.
func (s Served) appendTo(object []byte, n int) []byte {
	object = append(object, lastServed...)
	hour, ok := s[n]
	if !ok {
		return append(object, "null"...)
	}
	return time.Unix(hour*3600, 0).UTC().AppendFormat(object, strconv.Quote(time.RFC3339))
}

// presetTag is Tag of a preset as clients see it, with its designated version. It leaves out
// last_served_at: no change of the preset changes that, so no If-Match must fail for it.
func presetTag(preset []byte) string {
	start := bytes.LastIndex(preset, []byte(lastServed))
	if start < 0 {
		return Tag(preset)
	}
	length := bytes.IndexByte(preset[start:], '}')
	sum := sha256.New()
	sum.Write(preset[:start])
	sum.Write(preset[start+length:])
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
