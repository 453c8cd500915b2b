package usage

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// rowFormat is the first byte of a row's content. The preset's slug follows, the total of all
// series, and the series in byte order of their keys. Texts, totals and series have their
// length before them. Numbers are varints. The last four bytes are a CRC-32C.
const rowFormat = 4

const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errRow       = errors.New("usage row is damaged")
	errRowFormat = errors.New("usage row has an unknown format")
)

// row has the parts of a row's content. Of the series, each has its key and its totals.
type row struct {
	slug, total []byte
	series      decoder
}

// readRow splits the content of a row, whose memory the parts share. It checks the sum, and reads no
// series.
func readRow(content []byte) (r row, err error) {
	if len(content) < 1+sumSize {
		return r, errRow
	}
	if content[0] != rowFormat {
		return r, errRowFormat
	}
	text, sum := content[:len(content)-sumSize], content[len(content)-sumSize:]
	if crc32.Checksum(text, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return r, errRow
	}
	d := decoder{text: text[1:]}
	r.slug, r.total = d.part(), d.part()
	r.series = d
	return r, d.err()
}

// decoder reads what binary.AppendUvarint and appendPart wrote. Its results are zero after the first
// failure.
type decoder struct {
	text   []byte
	at     int
	failed bool
}

func (d *decoder) err() error {
	if d.failed {
		return errRow
	}
	return nil
}

// more reports whether something follows.
func (d *decoder) more() bool { return d.at < len(d.text) }

// number reads a number.
func (d *decoder) number() uint64 {
	if at := d.at; at < len(d.text) && d.text[at] < 0x80 { // the usual case
		d.at = at + 1
		return uint64(d.text[at])
	}
	n, size := binary.Uvarint(d.text[d.at:])
	d.skip(size)
	return n
}

// signed reads a number that binary.AppendVarint wrote.
func (d *decoder) signed() int64 {
	n, size := binary.Varint(d.text[d.at:])
	d.skip(size)
	return n
}

// integer reads a number that fits an int.
func (d *decoder) integer() int {
	n := d.number()
	d.failed = d.failed || n > math.MaxInt
	return int(n)
}

// bytes reads so many bytes.
func (d *decoder) bytes(length int) []byte {
	if length > len(d.text)-d.at {
		d.skip(0)
		return nil
	}
	d.at += length
	return d.text[d.at-length : d.at : d.at]
}

// part reads bytes with their length before them.
func (d *decoder) part() []byte { return d.bytes(int(min(d.number(), math.MaxInt32))) }

// skip skips a number of so many bytes. A size that is not positive is a failure.
func (d *decoder) skip(size int) {
	if d.at += size; size <= 0 {
		d.at, d.failed = len(d.text), true
	}
}

func appendPart[T string | []byte](b []byte, part T) []byte {
	b = binary.AppendUvarint(b, uint64(len(part)))
	return append(b, part...)
}

// rawKey has the parts of a key without its preset, which is the row's.
type rawKey struct {
	class                byte
	version              int
	label, model, access []byte
}

// otherClass stands for Key.Other where the status class is.
const otherClass = 0xff

// appendKey appends a key without its preset.
func appendKey(b []byte, k *Key) []byte {
	class := byte(k.StatusClass)
	if k.Other {
		class = otherClass
	}
	b = append(b, class)
	b = binary.AppendUvarint(b, uint64(k.Version))
	b = appendPart(b, k.Label)
	b = appendPart(b, k.Model)
	return append(b, k.KeyID...)
}

// readKey splits a key.
func readKey(b []byte) (k rawKey, err error) {
	if len(b) == 0 {
		return k, errRow
	}
	d := decoder{text: b, at: 1}
	k = rawKey{class: b[0], version: d.integer(), label: d.part(), model: d.part()}
	k.access = b[d.at:]
	return k, d.err()
}

// withoutModel returns a key with otherModel.
func withoutModel(key []byte) (string, error) {
	k, err := readKey(key)
	if err != nil || k.class == otherClass {
		return string(key), err
	}
	with := Key{StatusClass: int(k.class), Version: k.version, Label: string(k.label), Model: otherModel, KeyID: string(k.access)}
	return string(appendKey(nil, &with)), nil
}

// readTotals reads totals into t. Their sketches share the memory of b.
func readTotals(b []byte, t *Totals) error {
	d := decoder{text: b}
	for i := range t.counts {
		t.counts[i] = int64(d.integer())
	}
	t.cost = amount{}
	if t.counts[costed] > 0 {
		t.cost = amount{d.number(), d.number()}
	}
	for i := range t.sketches {
		frames := d.part()
		t.sketches[i] = sketch{frames, len(frames)}
	}
	t.outcomes = t.outcomes[:0]
	for d.more() {
		t.outcomes = append(t.outcomes, outcome{string(d.part()), int64(d.integer()), d.signed()})
	}
	return d.err()
}

// appendTotals appends totals. It packs their sketches.
func appendTotals(b []byte, t *Totals) ([]byte, error) {
	for _, n := range t.counts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if t.counts[costed] > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, t.cost.hi), t.cost.lo)
	}
	for i := range t.sketches {
		if err := t.sketches[i].pack(); err != nil {
			return nil, err
		}
		b = appendPart(b, t.sketches[i].frames)
	}
	for _, of := range t.outcomes {
		b = appendPart(b, of.name)
		b = binary.AppendUvarint(b, uint64(of.count))
		b = binary.AppendVarint(b, of.sum)
	}
	return b, nil
}
