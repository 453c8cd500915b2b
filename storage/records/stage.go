package records

import (
	"bytes"
	"slices"
	"time"
)

// Write stores or removes the record under a key.
type Write struct {
	Key    Key
	Record []byte // nil removes
	// Expires is the time at which the record expires, in Unix seconds, 0 for never.
	Expires uint64
}

// Layer is a set of writes that are not durable yet, on top of earlier ones.
type Layer struct {
	Writes map[string]Write // by key
	Below  *Layer           // nil for none
}

// find returns the latest write under a key.
func (l *Layer) find(k Key) (Write, bool) {
	for ; l != nil; l = l.Below {
		if w, ok := l.Writes[string(k)]; ok {
			return w, true
		}
	}
	return Write{}, false
}

// sorted returns the latest write of each key that begins with prefix, in key order.
func (l *Layer) sorted(prefix Key) []Write {
	var writes []Write
	for top := l; l != nil; l = l.Below {
		for _, w := range l.Writes {
			if bytes.HasPrefix(w.Key, prefix) && top.shows(w.Key, l) {
				writes = append(writes, w)
			}
		}
	}
	slices.SortFunc(writes, func(a, b Write) int { return bytes.Compare(a.Key, b.Key) })
	return writes
}

// shows reports whether no layer from l down to other, without other, has a write under a key.
func (l *Layer) shows(k Key, other *Layer) bool {
	for ; l != other; l = l.Below {
		if _, ok := l.Writes[string(k)]; ok {
			return false
		}
	}
	return true
}

// Stage holds the writes of one operation, apart from all others, until the operation
// succeeds. It must be Reset before each use.
type Stage struct{ Layer }

func (s *Stage) put(k Key, record []byte) { s.Writes[string(k)] = Write{Key: k, Record: record} }

// expire sets the time at which a record of the stage expires.
func (s *Stage) expire(k Key, at time.Time) {
	w := s.Writes[string(k)]
	w.Expires = uint64(at.Unix())
	s.Writes[string(k)] = w
}

// Reset empties the stage. It replaces a large map, because clearing one takes as long as
// it ever was large.
func (s *Stage) Reset() {
	s.Below = nil
	if s.Writes == nil || len(s.Writes) > 64 {
		s.Writes = make(map[string]Write)
		return
	}
	clear(s.Writes)
}
