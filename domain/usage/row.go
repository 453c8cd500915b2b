package usage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"unicode/utf8"
)

// rowFormat is the first byte of a row's content. The preset's slug follows, the total of all
// series, and the series in byte order of their keys. Texts, totals and series have their
// length before them. Numbers are varints. The last four bytes are a CRC-32C.
const rowFormat = 2

const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errRow is an error of a content that is no row, or that was damaged.
var errRow = errors.New("usage row is damaged")

// ErrRowFormat is Decode's error for a row of a newer version of this program.
var ErrRowFormat = errors.New("usage row has an unknown format")

// Series is a sum and its key.
type Series struct {
	Key    Key
	Totals Totals
}

// Decode reads the content of a row. It refuses content that this package did not write.
func Decode(presetID string, content []byte) ([]Series, error) {
	row, err := readRow(content)
	if err == nil && !utf8.Valid(row.slug) {
		err = errRow
	}
	if err != nil {
		return nil, err
	}
	if _, err = decodeTotals(row.total); err != nil {
		return nil, err
	}
	list := make([]Series, 0, min(len(row.series)/minSeries, 1<<10))
	var last []byte
	for rest := row.series; len(rest) > 0; {
		var s rawSeries
		if s, rest, err = nextSeries(rest); err != nil {
			return nil, err
		}
		if last != nil && bytes.Compare(last, s.key) >= 0 {
			return nil, errRow
		}
		last = s.key
		key, err := decodeKey(s.key)
		if err != nil {
			return nil, err
		}
		key.PresetID, key.Preset = presetID, string(row.slug)
		totals, err := decodeTotals(s.totals)
		if err != nil {
			return nil, err
		}
		list = append(list, Series{key, *totals})
	}
	return list, nil
}

// rawRow has the parts of a row's content.
type rawRow struct{ slug, total, series []byte }

// readRow splits the content of a row. It checks the sum, and reads no series.
func readRow(content []byte) (row rawRow, err error) {
	if len(content) < 1+sumSize {
		return row, errRow
	}
	if content[0] != rowFormat {
		return row, ErrRowFormat
	}
	text, sum := content[:len(content)-sumSize], content[len(content)-sumSize:]
	if crc32.Checksum(text, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return row, errRow
	}
	slug, rest, ok := nextPart(text[1:])
	if !ok {
		return row, errRow
	}
	row.slug = slug
	if row.total, row.series, ok = nextPart(rest); !ok {
		return row, errRow
	}
	return row, nil
}

// rawSeries is a series as its row has it.
type rawSeries struct{ key, totals []byte }

// minSeries is less than the size of any series.
const minSeries = 16

// nextSeries reads the next series of a row.
func nextSeries(b []byte) (s rawSeries, rest []byte, err error) {
	var keyed, totalled bool
	if s.key, rest, keyed = nextPart(b); keyed {
		s.totals, rest, totalled = nextPart(rest)
	}
	if !totalled {
		return s, nil, errRow
	}
	return s, rest, nil
}

// nextPart reads bytes with their length before them.
func nextPart(b []byte) (part, rest []byte, ok bool) {
	if len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) { // the usual case
		end := 1 + int(b[0])
		return b[1:end:end], b[end:], true
	}
	length, size := binary.Uvarint(b)
	if size <= 0 || length > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(length)
	return b[size:end:end], b[end:], true
}

func appendPart[T string | []byte](b []byte, part T) []byte {
	b = binary.AppendUvarint(b, uint64(len(part)))
	return append(b, part...)
}

// appendKey appends a key without its preset, which is the row's.
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

// otherClass stands for Key.Other where the status class is.
const otherClass = 0xff

// rawKey has the parts of a key.
type rawKey struct {
	class                byte
	version              uint64
	label, model, access []byte
}

// readKey splits a key.
func readKey(b []byte) (k rawKey, err error) {
	if len(b) == 0 {
		return k, errRow
	}
	k.class = b[0]
	version, size := binary.Uvarint(b[1:])
	if size <= 0 || version > math.MaxInt {
		return k, errRow
	}
	k.version = version
	label, rest, ok := nextPart(b[1+size:])
	if !ok {
		return k, errRow
	}
	k.label = label
	if k.model, k.access, ok = nextPart(rest); !ok {
		return k, errRow
	}
	return k, nil
}

// decodeKey reads a key.
func decodeKey(b []byte) (Key, error) {
	raw, err := readKey(b)
	k := Key{
		Version: int(raw.version), Label: string(raw.label), Model: string(raw.model), KeyID: string(raw.access),
		StatusClass: int(raw.class),
	}
	if raw.class == otherClass {
		k.StatusClass, k.Other = 0, true
	}
	if err == nil && (k.StatusClass > 5 || !utf8.ValidString(k.Label+k.Model+k.KeyID) || !bytes.Equal(appendKey(nil, &k), b)) {
		err = errRow
	}
	return k, err
}

// rawTotals are totals as a row has them. Outcomes and sketches are not read yet.
type rawTotals struct {
	counts                 counts
	cost                   amount
	outcomes               []byte
	duration, firstContent []byte
}

// readTotals reads the integers of totals, and splits the rest.
func readTotals(b []byte, t *rawTotals) error {
	for i := range t.counts {
		if len(b) > 0 && b[0] < 0x80 {
			t.counts[i], b = int64(b[0]), b[1:]
			continue
		}
		n, size := binary.Uvarint(b)
		if size <= 0 || n > math.MaxInt64 {
			return errRow
		}
		t.counts[i], b = int64(n), b[size:]
	}
	if t.cost = (amount{}); t.counts[costed] > 0 {
		if len(b) == 0 || b[0] > amountDigits {
			return errRow
		}
		zeros := int(b[0])
		hi, size := binary.Uvarint(b[1:])
		if size <= 0 {
			return errRow
		}
		b = b[1+size:]
		lo, size := binary.Uvarint(b)
		if size <= 0 {
			return errRow
		}
		b = b[size:]
		var ok bool
		if t.cost, ok = (amount{hi, lo}).padded(zeros); !ok {
			return errRow
		}
	}
	var ok bool
	if t.duration, b, ok = nextPart(b); !ok {
		return errRow
	}
	if t.firstContent, t.outcomes, ok = nextPart(b); !ok {
		return errRow
	}
	return nil
}

// decodeTotals reads totals in full.
func decodeTotals(b []byte) (*Totals, error) {
	var raw rawTotals
	if err := readTotals(b, &raw); err != nil {
		return nil, err
	}
	t := &Totals{counts: raw.counts, cost: raw.cost}
	for _, s := range [...]struct {
		to     *sketch
		frames []byte
	}{{&t.duration, raw.duration}, {&t.firstContent, raw.firstContent}} {
		s.to.frames = bytes.Clone(s.frames)
		if err := s.to.pack(); err != nil {
			return nil, err
		}
	}
	var err error
	if t.outcomes, err = readOutcomes(raw.outcomes); err != nil {
		return nil, err
	}
	// Encoding the totals again gives the same bytes. So nothing else passes for totals.
	again, err := appendTotals(nil, t)
	if err == nil && !bytes.Equal(again, b) {
		err = errRow
	}
	return t, err
}

// readOutcomes reads the outcomes of totals.
func readOutcomes(b []byte) (list []outcome, err error) {
	for len(b) > 0 {
		name, rest, ok := nextPart(b)
		count, size := binary.Uvarint(rest) // of nothing, unless ok
		if !ok || !utf8.Valid(name) || size <= 0 || count > math.MaxInt64 {
			return nil, errRow
		}
		sum, more := binary.Varint(rest[size:])
		if more <= 0 {
			return nil, errRow
		}
		list = append(list, outcome{string(name), int64(count), sum})
		b = rest[size+more:]
	}
	if !slices.IsSortedFunc(list, func(a, b outcome) int { return cmp.Compare(a.name, b.name) }) {
		return nil, errRow
	}
	return list, nil
}

// appendTotals appends totals. It packs their sketches.
func appendTotals(b []byte, t *Totals) ([]byte, error) {
	for _, n := range t.counts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if t.counts[costed] > 0 {
		cost, zeros := t.cost.trimmed()
		b = append(b, byte(zeros))
		b = binary.AppendUvarint(b, cost.hi)
		b = binary.AppendUvarint(b, cost.lo)
	}
	for _, of := range [...]*sketch{&t.duration, &t.firstContent} {
		if err := of.pack(); err != nil {
			return nil, err
		}
		b = appendPart(b, of.frames)
	}
	for _, of := range t.outcomes {
		b = appendPart(b, of.name)
		b = binary.AppendUvarint(b, uint64(of.count))
		b = binary.AppendVarint(b, of.sum)
	}
	return b, nil
}
