package domain

import (
	"strings"
	"sync"
)

// known keeps in memory what was read from a store, each under its stamp, and gives
// it out for as long as the stamp stays the same. It has a bound: what comes later
// takes the place of any other. That is cheaper than cache, which keeps what is
// asked for often, for values that are as quickly read again.
type known[K comparable, V any] struct {
	limit int // of what all of it costs, in bytes

	mu   sync.RWMutex
	kept map[K]keptValue[V]
	cost int
}

type keptValue[V any] struct {
	value V
	stamp Stamp
	cost  int
}

// get returns what is kept under a key, provided that it was read under stamp.
func (k *known[K, V]) get(key K, stamp Stamp) (V, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	kept, ok := k.kept[key]
	return kept.value, ok && kept.stamp == stamp && stamp != 0
}

// put keeps a value, which costs so many bytes, unless it would take a large part
// of the room for all.
func (k *known[K, V]) put(key K, stamp Stamp, value V, cost int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	there, ok := k.kept[key]
	switch {
	case stamp == 0:
		return
	case ok && there.stamp == stamp:
		return // it may have been changed since it was read
	case cost > k.limit/16:
		return
	case k.kept == nil:
		k.kept = make(map[K]keptValue[V])
	}
	k.cost += cost - there.cost
	k.kept[key] = keptValue[V]{value, stamp, cost}
	for other, kept := range k.kept {
		if k.cost <= k.limit {
			break
		}
		if other != key {
			delete(k.kept, other)
			k.cost -= kept.cost
		}
	}
}

// change lets fn change a value that is kept. It returns false where fn does, which
// leaves the value as it is, or where there is none.
func (k *known[K, V]) change(key K, fn func(*V) bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.kept[key]
	if !ok || !fn(&kept.value) {
		return false
	}
	k.kept[key] = kept
	return true
}

const (
	// maxKnownKeys bounds the keys that a Service keeps.
	maxKnownKeys = 4096
	knownKeyCost = 512
	// maxKnownObjects bounds the objects that were shown, and maxKnownPages the
	// pages of lists, in bytes.
	maxKnownObjects = 32 << 20
	maxKnownPages   = 16 << 20
	// knownAnswerCost is what an answer costs besides its JSON and its question.
	knownAnswerCost = 384
)

// question is what an answer that a Service keeps is about.
type question struct {
	what subject
	// workspace is a reference to one, or its id, and slug that of a preset in it.
	workspace, slug string
	filter          PresetFilter // one of the constants, whose text is nobody's
	page            Page
}

// own returns q with strings of its own: those of a request are parts of all of its
// first line, which would stay in memory with them.
func (q question) own() question {
	q.workspace, q.slug = strings.Clone(q.workspace), strings.Clone(q.slug)
	return q
}

func (q question) cost() int { return knownAnswerCost + len(q.workspace) + len(q.slug) }

// found returns the object that q asks for, and listed the page.
func (s *Service) found(q question, stamp Stamp, read func() (Found, error)) (Found, error) {
	if found, ok := s.objects.get(q, stamp); ok {
		return found, nil
	}
	found, err := read()
	if err != nil {
		return Found{}, err
	}
	found = tagged(found)
	s.objects.put(q.own(), stamp, found, q.cost()+len(found.JSON))
	return found, nil
}

func (s *Service) listed(q question, stamp Stamp, read func() ([]byte, int, error)) (Listed, error) {
	if list, ok := s.pages.get(q, stamp); ok {
		return list, nil
	}
	text, total, err := read()
	if err != nil {
		return Listed{}, err
	}
	list := listed(text, total)
	s.pages.put(q.own(), stamp, list, q.cost()+len(text))
	return list, nil
}

type subject byte

const (
	aWorkspace subject = iota
	ownWorkspace
	allWorkspaces
	aPreset
	allPresets
)
