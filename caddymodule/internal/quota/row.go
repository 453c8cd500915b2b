package quota

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// row is what a store keeps of a subject: the sums of windows, and the latest change of each node. All
// nodes add to the same row. Windows are told apart by their numbers alone, so a node whose clock is
// wrong has its own, and leaves those of the others as they are.
type row struct {
	windows [intervals][]rowWindow // the one that was changed last first
	nodes   []nodeChange           // likewise
}

// rowWindow is the sum of one window, and window.told.
type rowWindow struct {
	number int64
	amount
	told [len(toldKinds)]int64
}

// nodeChange is the number of the latest change that a process made. A process looks for it if it was
// not told whether its change was made.
type nodeChange struct {
	node   uint64
	number int64
}

// maxNodes bounds the processes that a row names: those that changed it last.
const maxNodes = 32

// rowFormat is the first byte of a row. Its windows and its nodes follow, in varints. Each list begins
// with its length.
const rowFormat = 2

var errRow = errors.New("what was spent cannot be read")

func (r *row) encode() []byte {
	b := []byte{rowFormat}
	for _, windows := range r.windows {
		b = binary.AppendVarint(b, int64(len(windows)))
		for _, w := range windows {
			for _, n := range w.fields() {
				b = binary.AppendVarint(b, *n)
			}
		}
	}
	b = binary.AppendVarint(b, int64(len(r.nodes)))
	for _, n := range r.nodes {
		b = binary.AppendVarint(binary.BigEndian.AppendUint64(b, n.node), n.number)
	}
	return b
}

// fields are the numbers of w in the order of a row.
func (w *rowWindow) fields() []*int64 {
	return []*int64{&w.number, &w.requests, &w.tokens, &w.nanos, &w.told[0], &w.told[1], &w.told[2]}
}

func decodeRow(b []byte) (r row, err error) {
	if len(b) == 0 || b[0] != rowFormat {
		return r, errRow
	}
	b = b[1:]
	next := func(n *int64) {
		value, size := binary.Varint(b)
		if size <= 0 {
			err = errRow
			return
		}
		*n, b = value, b[size:]
	}
	for i := range r.windows {
		var length int64
		for next(&length); length > 0 && err == nil; length-- {
			var w rowWindow
			for _, n := range w.fields() {
				next(n)
			}
			w.tokens, w.nanos = bounded(w.tokens), bounded(w.nanos)
			r.windows[i] = append(r.windows[i], w)
		}
	}
	var length int64
	for next(&length); length > 0 && err == nil; length-- {
		if len(b) < 8 {
			return row{}, errRow
		}
		n := nodeChange{node: binary.BigEndian.Uint64(b)}
		b = b[8:]
		next(&n.number)
		r.nodes = append(r.nodes, n)
	}
	if err != nil || len(b) > 0 {
		return row{}, errRow
	}
	return r, nil
}

// bounded returns a sum of a row as sums are now. One that has become negative, as they could once, is full.
func bounded(n int64) int64 {
	if n < 0 {
		return full
	}
	return min(n, full)
}

// readRow returns the row of an id, an empty one if there is none.
func readRow(r domain.Reader, id string) (row, error) {
	content, err := r.Spent(id)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return row{}, nil
	case err != nil:
		return row{}, err
	}
	return decodeRow(content)
}

// window returns the window of a number to change it.
func (r *row) window(i int, number int64) *rowWindow {
	w := first(&r.windows[i], maxWindows, func(w rowWindow) bool { return w.number == number })
	w.number = number
	return w
}

// isMade reports whether a node has made its change of a number, and notes that it has.
func (r *row) isMade(node uint64, number int64) bool {
	n := first(&r.nodes, maxNodes, func(n nodeChange) bool { return n.node == node })
	if n.number >= number {
		return true
	}
	*n = nodeChange{node, number}
	return false
}

// first moves an element of a list to its beginning, a zero one if there is none, and returns it. The last
// ones of a list that becomes too long go.
func first[T any](list *[]T, most int, is func(T) bool) *T {
	var found T
	rest := *list
	if i := slices.IndexFunc(rest, is); i >= 0 {
		found = rest[i]
		rest = slices.Delete(rest, i, i+1)
	}
	*list = append([]T{found}, rest[:min(len(rest), most-1)]...)
	return &(*list)[0]
}

// keep sets what is known of the windows of a subject to a row, which all nodes added to. It returns what
// the others added of the day. The caller holds s.keeping.
func (s *subject) keep(r *row, m *moment) (others amount) {
	for i, windows := range r.windows {
		for _, of := range slices.Backward(windows) {
			w := s.windowNumbered(i, of.number)
			more := of.minus(w.known.load())
			w.known.add(more)
			w.total.add(more)
			for kind, limit := range of.told {
				raise(&w.told[kind], limit)
			}
			if i == daily && of.number == m.windows[daily] && s.isKept.Load() {
				others = more
			}
		}
	}
	s.isKept.Store(true)
	return others
}
