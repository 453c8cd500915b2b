package usage

import (
	"crypto/sha256"
	"strings"
	"time"
)

// MaxSessions is how many sessions are remembered for feedback.
const MaxSessions = 10_000

// Sessions remembers the request that answered each session last, for feedback. It remembers
// the latest MaxSessions. It is safe for concurrent use. Its zero value is ready.
type Sessions struct {
	latest recent[sessionKey, Answered]
}

// sessionKey is a hash of a preset's id and a session's, which may be long.
type sessionKey [sha256.Size]byte

func newSessionKey(presetID, session string) sessionKey {
	return sha256.Sum256(append(append(make([]byte, 0, 256), presetID+"\x00"...), session...))
}

// Add remembers a request of a session. The request that began last counts.
func (s *Sessions) Add(session string, a Answered) {
	s.latest.change(newSessionKey(a.Key.PresetID, session), MaxSessions, func(last *Answered, known bool) {
		if known && a.Start.Before(last.Start) {
			return
		}
		a.Key.Label, a.Key.Model = strings.Clone(a.Key.Label), strings.Clone(a.Key.Model) // they may be parts of large texts
		*last = a
	})
}

// Latest returns the request that answered a session of a preset last, if it is not too old
// for feedback.
func (s *Sessions) Latest(presetID, session string, now time.Time) (a Answered, ok bool) {
	a, ok = s.latest.get(newSessionKey(presetID, session))
	return a, ok && !a.isOld(now)
}
