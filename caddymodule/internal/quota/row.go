package quota

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// row is what a store keeps of a subject: the sums of the windows that were last used, and the marks of
// the latest changes. All nodes add to the same row.
type row struct {
	windows [intervals]rowWindow
	marks   []uint64
}

// rowWindow is the sum of one window. reached is set once the key's event of the window was told.
type rowWindow struct {
	number int64
	amount
	reached bool
}

// rowFormat is the first byte of a row. Its windows follow, and its marks. Numbers are varints, and
// marks have eight bytes.
const rowFormat = 1

// maxMarks bounds the marks of a row. A node whose change may have been made looks for its mark
// within seconds, while others change the row every two seconds at most.
const maxMarks = 32

var errRow = errors.New("what was spent cannot be read")

func (r *row) encode() []byte {
	b := []byte{rowFormat}
	for _, w := range r.windows {
		b = binary.AppendVarint(b, w.number)
		for _, n := range [...]int64{w.requests, w.tokens, w.nanos} {
			b = binary.AppendVarint(b, n)
		}
		if b = append(b, 0); w.reached {
			b[len(b)-1] = 1
		}
	}
	for _, mark := range r.marks {
		b = binary.BigEndian.AppendUint64(b, mark)
	}
	return b
}

func decodeRow(b []byte) (r row, err error) {
	if len(b) == 0 || b[0] != rowFormat {
		return r, errRow
	}
	b = b[1:]
	for i := range r.windows {
		w := &r.windows[i]
		for _, n := range [...]*int64{&w.number, &w.requests, &w.tokens, &w.nanos} {
			value, size := binary.Varint(b)
			if size <= 0 {
				return row{}, errRow
			}
			*n, b = value, b[size:]
		}
		if len(b) == 0 {
			return row{}, errRow
		}
		w.reached, b = b[0] == 1, b[1:]
	}
	if len(b)%8 != 0 {
		return row{}, errRow
	}
	for ; len(b) > 0; b = b[8:] {
		r.marks = append(r.marks, binary.BigEndian.Uint64(b))
	}
	return r, nil
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

// has reports whether the change of a mark was made.
func (r *row) has(mark uint64) bool { return slices.Contains(r.marks, mark) }

// mark notes that the change of a mark is made.
func (r *row) mark(mark uint64) {
	r.marks = append(r.marks, mark)
	r.marks = r.marks[max(0, len(r.marks)-maxMarks):]
}

// add adds an amount to the window of an interval. The row has the latest window alone. It takes an amount of the
// one before, which was late or whose clock was set back, so that nothing is lost.
func (w *rowWindow) add(number int64, a amount) {
	switch {
	case w.number == number, w.number == number+1:
		w.amount = w.plus(a)
	case w.number > number: // of a clock that was wrong
		w.number, w.amount = number, w.plus(a)
	default:
		*w = rowWindow{number: number, amount: a}
	}
}

// keep sets the windows of a subject to a row, which all nodes added to. own is what this one added
// since it last did so. It returns what the others added of the day.
func (s *subject) keep(r *row, own amount, m *moment) (others amount) {
	for i := range r.windows {
		of, w := &r.windows[i], s.windowOf(i, m)
		switch number := w.number.Load(); {
		case of.number == number+1 && of.number == m.windows[i]+1: // the clock was set back, or is late
			if i != lifetime {
				w.number.CompareAndSwap(number, of.number)
			}
		case of.number < number:
			continue
		}
		before := w.stored.load()
		w.stored.store(of.amount)
		if of.reached {
			w.reached.Store(true)
		}
		if i == daily && s.isKept.Load() {
			others = of.minus(before).minus(own)
		}
	}
	s.isKept.Store(true)
	return others
}
