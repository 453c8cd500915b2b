package usage_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

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

// TestDamage refuses every row with a changed, a missing or an additional byte.
func TestDamage(t *testing.T) {
	good := content(t, 5)
	q, err := usage.ReadQuery(nil, usage.OfWorkspace, now)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, i int, damaged []byte) {
		t.Helper()
		if _, err := q.Collect(of(usage.Hour, rows{{Start: now.Truncate(time.Hour)}: damaged})); err == nil {
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
}

// FuzzRow reads any bytes whose checksum is right, and adds to them.
func FuzzRow(f *testing.F) {
	for _, number := range []int{1, 2, 30} {
		good := content(f, number)
		f.Add(good[:len(good)-4])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		row := binary.LittleEndian.AppendUint32(bytes.Clone(text), crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
		stored := rows{{Start: now.Truncate(time.Hour)}: row}
		for _, by := range []string{"preset", "version"} {
			q, err := usage.ReadQuery(url.Values{"by": {by}}, usage.OfWorkspace, now)
			if err != nil {
				t.Fatal(err)
			}
			if report, err := q.Collect(of(usage.Hour, stored)); err == nil {
				asJSON(t, report)
				report.CSV()
			}
		}
		var l usage.Ledger
		l.Add(&usage.Request{Start: now})
		taken, err := l.Take(stored.read)
		if len(taken) != 2 {
			t.Errorf("got %d rows and %v, want that of the hour and that of the day", len(taken), err)
		}
	})
}
