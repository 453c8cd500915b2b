package records

import (
	"bytes"
	"slices"
	"time"
)

// Write stores a record under a key, or removes the one that is there.
type Write struct {
	Key    Key
	Record []byte // nil removes
	// Expires is when the record goes by itself, in Unix seconds, 0 for never.
	Expires uint64
}

// Layer is a number of writes that are not durable yet, on top of earlier ones.
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

// sorted returns the latest writes under keys that begin with prefix, in key order.
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

// shows reports whether no layer from l down to another, which is not counted, has
// a write under a key.
func (l *Layer) shows(k Key, other *Layer) bool {
	for ; l != other; l = l.Below {
		if _, ok := l.Writes[string(k)]; ok {
			return false
		}
	}
	return true
}

// Stage holds the writes of one operation apart from all others until it is known to
// succeed. It has to be Reset before it is used, and before each use.
type Stage struct{ Layer }

func (s *Stage) put(k Key, record []byte) { s.Writes[string(k)] = Write{Key: k, Record: record} }

// expire lets a record that was put go at a time.
func (s *Stage) expire(k Key, at time.Time) {
	w := s.Writes[string(k)]
	w.Expires = uint64(at.Unix())
	s.Writes[string(k)] = w
}

// Reset empties the stage. It keeps a map of ordinary size: clearing one takes
// as long as it ever was large.
func (s *Stage) Reset() {
	s.Below = nil
	if s.Writes == nil || len(s.Writes) > 64 {
		s.Writes = make(map[string]Write)
		return
	}
	clear(s.Writes)
}
