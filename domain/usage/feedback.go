package usage

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"
)

// Feedback is one outcome of a request.
type Feedback struct {
	// WorkspaceID, Key and Start are those of the request.
	WorkspaceID string
	Key         Key
	Start       time.Time
	// Request tells that other feedback is for the same request. It may be zero.
	Request RequestID
	// Name is the outcome's name.
	Name string
	// Score is from -1 to 1. Others are taken for the nearer of the two.
	Score float64
}

// RequestID tells requests with feedback apart. The zero value is none.
type RequestID [8]byte

// NewRequestID returns a random id.
func NewRequestID() (id RequestID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()) //nolint:gosec // it need not be secret
	return id
}

// Answered is a request that may get feedback.
type Answered struct {
	ID    RequestID
	Key   Key
	Start time.Time
}

// FeedbackAge is how long a request may get feedback, from its start.
const FeedbackAge = 24 * time.Hour

// isOld reports whether the request no longer gets feedback.
func (a Answered) isOld(now time.Time) bool { return now.Sub(a.Start) > FeedbackAge }

// MaxScores is how many scores a Ledger remembers, so that they can be replaced.
const MaxScores = 10_000

// scoreKey names a score that may be replaced.
type scoreKey struct {
	request RequestID
	name    string
}

// score is where and how a score was summed last.
type score struct {
	at  liveKey
	sum int64
}

// AddFeedback sums an outcome. It belongs to the hour and the series of its request. It
// replaces an earlier score of the same request and name. That must be one of the latest
// MaxScores that this ledger got.
func (l *Ledger) AddFeedback(f Feedback) {
	of, at := feedback(f), liveKey{f.WorkspaceID, hourOf(f.Start), f.Key}
	if f.Request != (RequestID{}) {
		earlier, replaced := l.scores.change(scoreKey{f.Request, of.name}, MaxScores, func(s *score, known bool) {
			if !known {
				s.at = at
			}
			s.sum = of.sum
		})
		if replaced {
			at = earlier.at
			of.count, of.sum = 0, of.sum-earlier.sum
		}
		if of.count == 0 && of.sum == 0 {
			return
		}
	}
	l.sum(at.workspaceID, at.hour, at.key, 0, func(t *Totals) { t.addOutcome(of, maxOutcomes) })
}

// feedback returns an outcome of one request.
func feedback(f Feedback) outcome {
	score := min(max(f.Score, -1), 1) // NaN stays
	if score != score {
		score = 0
	}
	return outcome{name: cut(f.Name), count: 1, sum: int64(math.Round(score * 1e6))}
}
