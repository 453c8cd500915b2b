package usage_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// content returns the content of some row of requests with feedback.
func content(t testing.TB, number int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(number), 12))
	var l usage.Ledger
	stored := make(rows)
	for range number {
		one := sample(r)
		one.PresetID, one.Preset, one.Start = "id", "greet", now
		l.Add(&one)
		for _, f := range outcomes(r, one) {
			l.AddFeedback(f)
		}
	}
	stored.flush(t, &l)
	for id, content := range stored {
		if id.Day {
			return content
		}
	}
	t.Fatal("got no row, want one")
	return nil
}

// TestEncode writes what it reads, in any order.
func TestEncode(t *testing.T) {
	want := content(t, 500)
	list, err := usage.Decode("id", want)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 || list[0].Key.PresetID != "id" || list[0].Key.Preset != "greet" {
		t.Fatalf("got %d series, the first of %+v; want some of the preset", len(list), list[0].Key)
	}
	slices.Reverse(list)
	got, err := usage.Encode("greet", list)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	t.Logf("%d bytes a series of %d requests", len(want)/len(list), 500/len(list))
}

// TestDecodeDamage refuses every row with a changed, a missing or an additional byte.
func TestDecodeDamage(t *testing.T) {
	good := content(t, 5)
	refused := func(what string, i int, damaged []byte) {
		t.Helper()
		if _, err := usage.Decode("id", damaged); err == nil {
			t.Errorf("got no error with byte %d %s, want one", i, what)
		}
	}
	for i := range good {
		for bit := range 8 {
			damaged := bytes.Clone(good)
			damaged[i] ^= 1 << bit
			refused("changed", i, damaged)
		}
		refused("and the next ones missing", i, good[:i])
	}
	refused("added", len(good), append(bytes.Clone(good), 0))
	newer := bytes.Clone(good)
	newer[0]++
	if _, err := usage.Decode("id", newer); !errors.Is(err, usage.ErrRowFormat) {
		t.Errorf("got %v of a newer row, want %v", err, usage.ErrRowFormat)
	}
}

// FuzzDecode reads any bytes whose checksum is right. Encode writes each row that Decode
// accepts, if the totals at the row's start are right. Collect reads it, too.
func FuzzDecode(f *testing.F) {
	for _, number := range []int{1, 2, 30} {
		good := content(f, number)
		f.Add(good[:len(good)-4])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		row := binary.LittleEndian.AppendUint32(bytes.Clone(text), crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
		stored := rows{{Start: now.Truncate(3600e9)}: row}
		q, err := usage.ReadQuery(nil, usage.OfWorkspace, now)
		if err != nil {
			t.Fatal(err)
		}
		report, collected := q.Collect(of(usage.Hour, stored))
		list, err := usage.Decode("id", row)
		if err != nil {
			return
		}
		if collected != nil {
			t.Fatalf("got %v, want no error of a row that Decode reads", collected)
		}
		if _, err := report.JSON(); err != nil {
			t.Fatal(err)
		}
		if _, err := report.CSV(); err != nil {
			t.Fatal(err)
		}
		slug := ""
		if len(list) > 0 {
			slug = list[0].Key.Preset
		}
		again, err := usage.Encode(slug, list)
		if err != nil {
			t.Fatal(err)
		}
		same, err := usage.Decode("id", again)
		if err != nil || len(same) > len(list)+1 {
			t.Fatalf("got %d series and %v, want the %d that were encoded", len(same), err, len(list))
		}
	})
}
