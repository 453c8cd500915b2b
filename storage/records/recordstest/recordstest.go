// Package recordstest checks what an engine has stored, in the tests of engines.
package recordstest

import (
	"encoding/binary"
	"maps"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Records returns the records of some kinds that a snapshot shows, by key.
func Records(t *testing.T, s records.Snapshot, kinds ...records.Kind) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, of := range kinds {
		it := s.Iterate(of.Prefix())
		for it.Seek(of.Prefix()); it.Valid(); it.Next() {
			record, err := it.Value()
			if err != nil {
				t.Error(err)
			}
			found[string(it.Key())] = append([]byte{}, record...)
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
		it.Close()
	}
	return found
}

// CheckPlaces counts again, from the objects themselves, and compares with all that a
// snapshot shows of lists. It reads the records by itself, as they are meant to be.
func CheckPlaces(t *testing.T, s records.Snapshot) {
	t.Helper()
	want := map[string]string{} // payloads of places, leaves and nodes
	ends := map[string]map[uint64][3]uint64{}
	words, counts := map[string]*[3][8]uint64{}, map[string]*[3][256]uint16{}
	stand := func(list string, place uint64, text []byte) {
		k := numbered(records.KindPlace, list, place)
		if other, taken := want[k]; taken {
			t.Errorf("%s and %s have the same place, %d", other, text, place)
		}
		want[k] = string(text)
	}
	add := func(list string, place uint64, state int) {
		k := numbered(records.KindLeaf, list, place/512)
		if words[k] == nil {
			words[k] = new([3][8]uint64)
		}
		words[k][state][place%512/64] |= 1 << (place % 64)
		k = numbered(records.KindNode, list, place/512/256)
		if counts[k] == nil {
			counts[k] = new([3][256]uint16)
		}
		counts[k][state][place/512%256]++
		k = string(records.KindListEnd.Prefix()) + list
		if ends[k] == nil {
			ends[k] = map[uint64][3]uint64{}
		}
		n := ends[k][place/512/256]
		n[state]++
		ends[k][place/512/256] = n
	}
	for k, record := range Records(t, s, records.KindWorkspace) {
		place, text := cutNumber(t, payload(t, k, record))
		stand("w", place, text)
		add("w", place, 0)
	}
	for k, record := range Records(t, s, records.KindPreset) {
		status, place, text := preset(t, payload(t, k, record))
		if place == 0 {
			t.Errorf("%s is %s and has no place", text, status)
			continue
		}
		list := "p" + k[2:18]
		stand(list, place, text)
		switch status {
		case domain.PresetArchived:
			add(list, place, 2)
		case domain.PresetDisabled:
			add(list, place, 1)
		default:
			add(list, place, 0)
		}
	}
	for k, leaf := range words {
		want[k] = encoded(leaf[0], leaf[1], leaf[2])
	}
	for k, node := range counts {
		want[k] = encoded(node[0], node[1], node[2])
	}
	stored := Records(t, s, records.KindPlace, records.KindLeaf, records.KindNode)
	for k, record := range stored {
		if got, want := string(payload(t, k, record)), want[k]; got != want {
			t.Errorf("a %v is %q, want %q", records.Key(k).Kind(), got, want)
		}
	}
	if len(stored) != len(want) {
		t.Errorf("%d places, leaves and nodes are stored, want %d", len(stored), len(want))
	}
	for k, record := range Records(t, s, records.KindListEnd) {
		got := map[uint64][3]uint64{}
		for rest := payload(t, k, record)[8:]; len(rest) > 0; rest = rest[32:] {
			got[binary.BigEndian.Uint64(rest)] = [3]uint64{
				binary.BigEndian.Uint64(rest[8:]), binary.BigEndian.Uint64(rest[16:]), binary.BigEndian.Uint64(rest[24:]),
			}
		}
		if !maps.Equal(got, ends[k]) {
			t.Errorf("a list counts %v, want %v", got, ends[k])
		}
		delete(ends, k)
	}
	if len(ends) > 0 {
		t.Errorf("the ends of %d lists are missing", len(ends))
	}
}

func numbered(of records.Kind, list string, n uint64) string {
	return string(binary.BigEndian.AppendUint64(append(of.Prefix(), list...), n))
}

// encoded returns the numbers of each state, big endian, behind a byte for the state. It
// leaves out states whose numbers are all 0.
func encoded(states ...any) (text string) {
	for state, numbers := range states {
		encoded, err := binary.Append(nil, binary.BigEndian, numbers)
		if err != nil {
			panic(err)
		}
		if strings.Trim(string(encoded), "\x00") != "" {
			text += string(rune(state)) + string(encoded)
		}
	}
	return text
}

// payload returns the payload of a record, which must be intact.
func payload(t *testing.T, k string, record []byte) []byte {
	t.Helper()
	p, err := records.Unseal(records.Key(k), record)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// preset returns what the record of a preset has besides its numbers.
func preset(t *testing.T, payload []byte) (status domain.PresetStatus, place uint64, text []byte) {
	t.Helper()
	status = map[byte]domain.PresetStatus{1: domain.PresetActive, 2: domain.PresetDisabled, 3: domain.PresetArchived}[payload[16]]
	_, rest := cutNumber(t, payload[17:]) // the designated version
	_, rest = cutNumber(t, rest)          // the latest one
	place, rest = cutNumber(t, rest)
	_, rest = cutNumber(t, rest) // from where on it has all versions
	also, text := cutNumber(t, rest)
	for ; also > 0; also-- {
		_, text = cutNumber(t, text)
	}
	return status, place, text
}

func cutNumber(t *testing.T, payload []byte) (n uint64, rest []byte) {
	t.Helper()
	n, length := binary.Uvarint(payload)
	if length <= 0 {
		t.Fatalf("%q does not begin with a number", payload)
	}
	return n, payload[length:]
}
