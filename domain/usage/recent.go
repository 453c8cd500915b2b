package usage

import (
	"container/list"
	"sync"
)

// recent remembers a bounded number of values. The one that was changed the longest ago makes
// room. It is safe for concurrent use. Its zero value is ready.
type recent[K comparable, V any] struct {
	mu     sync.Mutex
	places map[K]*list.Element
	order  list.List // of *recentValue, the latest last
}

type recentValue[K comparable, V any] struct {
	key   K
	value V
}

// change changes the value of a key by fn, and returns the one before. known tells whether
// there was one. Without one, fn gets the zero value. At most so many values are kept.
func (r *recent[K, V]) change(key K, most int, fn func(value *V, known bool)) (before V, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.places[key]; at != nil {
		kept := at.Value.(*recentValue[K, V])
		before = kept.value
		fn(&kept.value, true)
		r.order.MoveToBack(at)
		return before, true
	}
	kept := &recentValue[K, V]{key: key}
	fn(&kept.value, false)
	if r.places == nil {
		r.places = make(map[K]*list.Element)
	}
	if len(r.places) >= most {
		oldest := r.order.Remove(r.order.Front()).(*recentValue[K, V])
		delete(r.places, oldest.key)
	}
	r.places[key] = r.order.PushBack(kept)
	return before, false
}

// get returns the value of a key.
func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.places[key]
	if at == nil {
		return value, false
	}
	return at.Value.(*recentValue[K, V]).value, true
}
