package dump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

var (
	testKey  = bytes.Repeat([]byte{1}, 32)
	otherKey = bytes.Repeat([]byte{7}, 32)
	keys     = map[string][]byte{"plain": nil, "encrypted": testKey}
	about    = Info{Commit: 7, CreatedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Records: 5}
)

// canary is a text that every record of written has.
const canary = "CANARY-of-a-prompt"

// written returns a dump of a number of records, each of a size.
func written(t testing.TB, key []byte, count, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, about, key)
	if err != nil {
		t.Fatal(err)
	}
	for n := range count {
		k := records.AuditKey(n + 1)
		if err := w.Add(k, records.Seal(k, fmt.Appendf(nil, "%s-%d-%s", canary, n, strings.Repeat("x", size)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll reads a dump as a restore does.
func readAll(content, key []byte) (*Reader, error) {
	r, err := NewReader(bytes.NewReader(content), key, false)
	if err != nil {
		return nil, err
	}
	for r.Next() {
	}
	return r, r.Err
}

func follow(content []byte) error {
	_, _, err := Follow(bytes.NewReader(content), ignored)
	return err
}

// ignored is a progress that nobody sees.
func ignored(records, about int) {}

// TestWriteAndRead reads what was written, with and without a key.
func TestWriteAndRead(t *testing.T) {
	for name, key := range keys {
		for _, count := range []int{0, 1, 1000} {
			content := written(t, key, count, 1000)
			r, err := readAll(content, key)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r.End.Entries != count || r.End.Records != count || r.Info.Commit != 7 || r.Info.Encrypted() != (key != nil) {
				t.Errorf("%s: got %+v and %+v, want %d records", name, r.Info, r.End, count)
			}
			last := 0
			info, end, err := Follow(bytes.NewReader(content), func(done, all int) {
				if last = done; all < done {
					t.Errorf("%s: %d of %d records", name, done, all)
				}
			})
			if err != nil || end != r.End || last != count || !reflect.DeepEqual(info, r.Info) {
				t.Errorf("%s: followed: got %+v, %+v after %d records, %v", name, info, end, last, err)
			}
			begin, err := ReadInfo(bytes.NewReader(content))
			if err != nil || !reflect.DeepEqual(begin, r.Info) {
				t.Errorf("%s: got %+v, %v", name, begin, err)
			}
		}
	}
}

// TestCopy writes a dump again with another key, with one, and without one.
func TestCopy(t *testing.T) {
	want, err := readAll(written(t, nil, 300, 1000), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range [][]byte{nil, testKey} {
		for _, to := range [][]byte{nil, testKey, otherKey} {
			r, err := NewReader(bytes.NewReader(written(t, from, 300, 1000)), from, false)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := Copy(&b, r, to, ignored); err != nil {
				t.Fatal(err)
			}
			got, err := readAll(b.Bytes(), to)
			if err != nil || got.End != want.End || got.Info.Commit != want.Info.Commit || got.Info.Encrypted() != (to != nil) {
				t.Errorf("got %+v, %v, want %+v", got, err, want.End)
			}
		}
	}
	cut := written(t, nil, 300, 1000)
	r, err := NewReader(bytes.NewReader(cut[:len(cut)-1]), nil, false)
	if err == nil {
		err = Copy(io.Discard, r, nil, ignored)
	}
	if !errors.Is(err, ErrUnusable) {
		t.Errorf("got error %v of a dump that was cut short", err)
	}
}

// TestDamagedDump cuts a dump at each length and flips a bit of each byte. A reader finds that,
// also without the key.
func TestDamagedDump(t *testing.T) {
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			full := written(t, key, 3, 200)
			lines, _, _ := frameList(full)
			refused := func(what string, content []byte, damaged bool) {
				t.Helper()
				_, err := readAll(content, key)
				_, _, _, verified := Verify(t.Context(), bytes.NewReader(content), key, func(string, int, int) {})
				for how, err := range map[string]error{"read": err, "followed": follow(content), "verified": verified} {
					if !errors.Is(err, ErrUnusable) || damaged && !errors.Is(err, storage.ErrDamaged) {
						t.Errorf("%s, %s: got error %v, want ErrUnusable", what, how, err)
					}
				}
			}
			for n := range full {
				refused(fmt.Sprintf("%d of %d bytes", n, len(full)), full[:n], n >= len(Magic))
				flipped := bytes.Clone(full)
				flipped[n] ^= 1 << (n % 8)
				refused(fmt.Sprintf("byte %d flipped", n), flipped, n >= len(lines))
			}
			refused("something behind the end", append(bytes.Clone(full), 0), true)
			refused("twice", append(bytes.Clone(full), full...), true)
		})
	}
}

// frameList returns the parts of a dump: the line, the frames with records, and the last.
func frameList(dump []byte) (line []byte, frames [][]byte, end []byte) {
	at := bytes.IndexByte(dump, '\n') + 1
	line, rest := dump[:at], dump[at:]
	for binary.BigEndian.Uint32(rest[4:]) > 0 {
		n := headSize + binary.BigEndian.Uint32(rest)
		frames, rest = append(frames, rest[:n]), rest[n:]
	}
	return line, frames, rest
}

// TestRearrangedDump moves frames that are all right by themselves.
func TestRearrangedDump(t *testing.T) {
	for name, key := range keys {
		lines, c, end := frameList(written(t, key, 700, 1000))
		others, d, otherEnd := frameList(written(t, key, 700, 1001))
		if len(c) < 4 {
			t.Fatalf("the dump has %d frames, want more", len(c))
		}
		if _, err := readAll(bytes.Join([][]byte{lines, bytes.Join(c, nil), end}, nil), key); err != nil {
			t.Fatal(err)
		}
		for what, parts := range map[string][][]byte{
			"left out":          {lines, c[0], bytes.Join(c[2:], nil), end},
			"the last left out": {lines, bytes.Join(c[:len(c)-1], nil), end},
			"all left out":      {lines, end},
			"twice":             {lines, c[0], c[0], bytes.Join(c[1:], nil), end},
			"exchanged":         {lines, c[1], c[0], bytes.Join(c[2:], nil), end},
			"another's":         {lines, d[0], bytes.Join(c[1:], nil), end},
			"another's end":     {lines, bytes.Join(c, nil), otherEnd},
			"another's line":    {bytes.Replace(others, []byte("2026"), []byte("2025"), 1), bytes.Join(c, nil), end},
		} {
			content := bytes.Join(parts, nil)
			if _, err := readAll(content, key); !errors.Is(err, ErrUnusable) {
				t.Errorf("%s, %s: got error %v, want ErrUnusable", name, what, err)
			}
		}
	}
}

// TestForgedDump changes an encrypted dump as someone without the key can, with right checksums.
func TestForgedDump(t *testing.T) {
	lines, frames, end := frameList(written(t, testKey, 300, 1000))
	if len(frames) < 2 {
		t.Fatal("the dump has too few frames")
	}
	s := newSealer(lines)
	forged := func(frame []byte, at place, change func(content []byte)) []byte {
		f := bytes.Clone(frame)
		change(f[headSize:])
		return s.setHead(f, at)
	}
	count := func(n int) place { return place{n, int(binary.BigEndian.Uint32(frames[n][4:]))} }
	shorter := func(content []byte) {
		copy(content, bytes.Replace(content, []byte("300"), fmt.Append(nil, count(0).records), 1))
	}
	for what, parts := range map[string][][]byte{
		"a bit":        {lines, forged(frames[0], count(0), func(content []byte) { content[5] ^= 1 }), bytes.Join(frames[1:], nil), end},
		"the end":      {lines, frames[0], forged(end, place{number: 1}, shorter)},
		"a number":     {lines, frames[0], forged(frames[0], place{1, count(0).records}, func([]byte) {}), end},
		"of records":   {lines, forged(frames[0], place{0, count(0).records - 1}, func([]byte) {}), bytes.Join(frames[1:], nil), end},
		"without seal": {lines, forged(end[:len(end)-sealSize], place{}, func([]byte) {})},
	} {
		if _, err := readAll(bytes.Join(parts, nil), testKey); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: got error %v, want ErrUnusable", what, err)
		}
	}
}

// TestKeys reads dumps with wrong keys, and what is no dump that this version reads.
func TestKeys(t *testing.T) {
	plain, encrypted := written(t, nil, 2, 10), written(t, testKey, 2, 10)
	for _, test := range []struct {
		name         string
		content, key []byte
		optional     bool
		says         string // empty if it is read
	}{
		{"plain", plain, nil, false, ""},
		{"encrypted", encrypted, testKey, false, ""},
		{"encrypted, optional", encrypted, testKey, true, ""},
		{"plain, optional", plain, testKey, true, ""},
		{"plain, with a key", plain, testKey, false, "it is not encrypted, but a key was named for it"},
		{"no key", encrypted, nil, false, "it is encrypted, and needs the key"},
		{"wrong key", encrypted, otherKey, true, "the key is not the one"},
		{"short key", encrypted, testKey[:16], false, "the key is not the one"},
		{"something else", []byte("PK\x03\x04" + strings.Repeat("x", 1000)), nil, false, "it is no backup of presets"},
		{"one endless line", []byte(Magic + strings.Repeat("1", 1<<20)), nil, false, "changed or damaged"},
		{"empty", nil, nil, false, "cut short"},
		{"newer", bytes.Replace(plain, []byte("backup 1 "), []byte("backup 22 "), 1), nil, false, "version 22 of the format and needs a newer version"},
		{"no time", bytes.Replace(plain, []byte("created"), []byte("crested"), 1), nil, false, "not that of a backup"},
	} {
		r, err := NewReader(bytes.NewReader(test.content), test.key, test.optional)
		if err == nil {
			for r.Next() {
			}
			err = r.Err
		}
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: got error %v, want one with %q", test.name, err, test.says)
		}
	}
}

// TestEncryptedDumpHoldsNoContent looks for a text of the records as a thief would.
func TestEncryptedDumpHoldsNoContent(t *testing.T) {
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range keys {
		content := written(t, key, 3, 10)
		_, frames, _ := frameList(content)
		decoded, _ := decoder.DecodeAll(frames[0][headSize:], nil)
		if found := bytes.Contains(append(decoded, content...), []byte(canary)); found != (key == nil) {
			t.Errorf("%s: found the text: %t", name, found)
		}
	}
}

// TestWrongRecords reads dumps whose frames are right and whose records are not.
func TestWrongRecords(t *testing.T) {
	k, later := records.AuditKey(1), records.AuditKey(2)
	add := func(w *Writer, k records.Key, record []byte) {
		if err := w.Add(k, record); err != nil {
			t.Fatal(err)
		}
	}
	for what, fill := range map[string]func(w *Writer){
		"twice":              func(w *Writer) { add(w, k, records.Seal(k, nil)); add(w, k, records.Seal(k, nil)) },
		"not in order":       func(w *Writer) { add(w, later, records.Seal(later, nil)); add(w, k, records.Seal(k, nil)) },
		"of another":         func(w *Writer) { add(w, k, records.Seal(later, nil)) },
		"of a newer version": func(w *Writer) { add(w, records.Key("\x02a"), records.Seal(records.Key("\x02a"), nil)) },
		"too few in a frame": func(w *Writer) { add(w, k, records.Seal(k, nil)); w.at.records++ },
		"too many in a frame": func(w *Writer) {
			add(w, k, records.Seal(k, nil))
			add(w, later, records.Seal(later, nil))
			w.at.records--
		},
		"another digest": func(w *Writer) { add(w, k, records.Seal(k, nil)); w.summary.sum().Write([]byte("x")) },
		"another number": func(w *Writer) { add(w, k, records.Seal(k, nil)); w.summary.entries++ },
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, about, nil)
		if err != nil {
			t.Fatal(err)
		}
		fill(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(b.Bytes(), nil); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: got error %v, want ErrUnusable", what, err)
		}
	}
}

// FuzzDump reads invalid dumps, and right frames around any records.
func FuzzDump(f *testing.F) {
	whole := written(f, nil, 2, 10)
	lines, _, _ := frameList(whole)
	k := records.KeyHashKey(domain.KeyHash{1})
	record := records.Seal(k, []byte("{}"))
	f.Add(append(append(appendLength(nil, k), k...), append(appendLength(nil, record), record...)...), uint16(1))
	f.Add(whole, uint16(0))
	f.Add(whole[:len(lines)], uint16(0))
	f.Fuzz(func(t *testing.T, content []byte, within uint16) {
		if within > 0 {
			var b bytes.Buffer
			w, err := NewWriter(&b, about, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.chunk, w.at.records = append(w.chunk, content...), int(within)
			w.summary.entries = int(within)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			content = b.Bytes()
		}
		r, err := NewReader(bytes.NewReader(content), testKey, true)
		var before records.Key
		for err == nil && r.Next() {
			if bytes.Compare(r.Key, before) <= 0 {
				t.Errorf("key %x comes after %x", r.Key, before)
			}
			before = r.Key
			if _, err := records.Unseal(r.Key, r.Record); err != nil {
				t.Errorf("a record: %v", err)
			}
		}
		if err == nil {
			err = r.Err
		}
		if err != nil && !errors.Is(err, ErrUnusable) {
			t.Errorf("got error %v, want ErrUnusable", err)
		}
		if followed := follow(content); followed != nil && err == nil {
			t.Errorf("it can be read, but following it says %v", followed)
		}
	})
}

// TestEndWithOtherDigest reads ends that no server wrote. Commands print the digest.
func TestEndWithOtherDigest(t *testing.T) {
	right := new(Summary).End().Digest
	for digest, want := range map[string]error{
		right: nil, "": ErrUnusable, right + "0": ErrUnusable, strings.ToUpper(right): ErrUnusable, `\u001b[2J` + right: ErrUnusable, right + `\n`: ErrUnusable,
	} {
		if _, err := parseEnd([]byte(`{"digest":"` + digest + `"}`)); !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want %v", digest, err, want)
		}
	}
}

// BenchmarkDump writes and reads 100,000 records of 1 KiB.
func BenchmarkDump(b *testing.B) {
	for name, key := range keys {
		content := written(b, key, 100_000, 1<<10)
		b.Run(name+"/write", func(b *testing.B) {
			for b.Loop() {
				written(b, key, 100_000, 1<<10)
			}
		})
		b.Run(name+"/read", func(b *testing.B) {
			for b.Loop() {
				if _, err := readAll(content, key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
