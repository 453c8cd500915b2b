package quota

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"
)

// DefaultAnswer is how many output tokens are estimated of a request that does not bound them, until an answer was seen.
const DefaultAnswer = 32_768

// recentHours is how long the largest answer counts.
const recentHours = 24

// answers have the largest recent answer of each key and list of models. They are 32 KiB, without a lock: of two that have one
// place, the later one stays, and the other begins again. The zero value is ready.
//
// A place has 16 bits that tell the key and the models apart, 16 of the hour, and 32 of the tokens.
type answers [1 << 12]atomic.Uint64

var answerSeed = maphash.MakeSeed()

// placeOf returns the place of a key and models, and its first 16 bits.
func (a *answers) placeOf(key string, models []string) (place *atomic.Uint64, mark uint64) {
	var h maphash.Hash
	h.SetSeed(answerSeed)
	_, _ = h.WriteString(key)
	for _, model := range models {
		_ = h.WriteByte(0)
		_, _ = h.WriteString(model)
	}
	sum := h.Sum64()
	return &a[sum%uint64(len(a))], sum >> 48
}

// tokensIn returns the tokens of a place, 0 if it has no recent ones for a mark.
func tokensIn(value, mark, hour uint64) uint64 {
	if value>>48 != mark || uint16(hour-value>>32) >= recentHours { // the lower bits of the hours
		return 0
	}
	return value & math.MaxUint32
}

func hourOf(at time.Time) uint64 { return uint64(max(at.Unix(), 0) / 3600) }

// SeeAnswer tells how many output tokens an answer had whose request did not bound them.
func (k *Keeper) SeeAnswer(key string, models []string, tokens int64, now time.Time) {
	place, mark := k.answers.placeOf(key, models)
	seen, hour := uint64(min(max(tokens, 1), math.MaxUint32)), hourOf(now)
	for {
		value := place.Load()
		if tokensIn(value, mark, hour) > seen || place.CompareAndSwap(value, mark<<48|hour<<48>>16|seen) {
			return
		}
	}
}

// minAnswer is how many output tokens are estimated at least, also where all answers were shorter.
const minAnswer = 4096

// LargestAnswer returns how many output tokens the largest recent answer of a key and models had, at least minAnswer, or
// DefaultAnswer without one.
func (k *Keeper) LargestAnswer(key string, models []string, now time.Time) int64 {
	place, mark := k.answers.placeOf(key, models)
	if tokens := tokensIn(place.Load(), mark, hourOf(now)); tokens > 0 {
		return max(int64(tokens), minAnswer)
	}
	return DefaultAnswer
}
