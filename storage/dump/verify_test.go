package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// TestArchive compares an archive with the records that were put into it.
func TestArchive(t *testing.T) {
	all := map[string][]byte{}
	put := func(n, size int) {
		k := records.AuditKey(n)
		all[string(k)] = records.Seal(k, bytes.Repeat([]byte("r"), size))
	}
	for n := range 3000 {
		put(1+n*n%9973*256, rand.IntN(500))
	}
	put(700, 3*chunkSize)
	var sorted []string
	for k := range all {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	var b bytes.Buffer
	w, err := NewWriter(&b, about, testKey)
	for _, k := range sorted {
		if err == nil {
			err = w.Add(records.Key(k), all[k])
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	file := &flaky{ReaderAt: bytes.NewReader(b.Bytes())}
	from, err := NewReader(bytes.NewReader(b.Bytes()), testKey, false)
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{file: file, sealer: from.frames.sealer, decoder: from.decoder}
	from.each = func(c chunk) {
		if a.chunks = append(a.chunks, c); c.rest != nil || cap(c.first) > 64 {
			t.Errorf("chunk %d stays in memory", c.place.number)
		}
	}
	for from.Next() {
	}
	if from.Err != nil || len(a.chunks) < 4 {
		t.Fatalf("got %d chunks, %v", len(a.chunks), from.Err)
	}
	for n, k := range sorted {
		if n%100 == 0 { // other chunks have taken the places
			for i := range a.cached {
				a.cached[i].number, a.cached[i].records = i+cachedChunks, []byte("x")
			}
		}
		if got, err := a.Get(records.Key(k)); err != nil || !bytes.Equal(got, all[k]) {
			t.Fatalf("%x: got %d bytes, %v", k, len(got), err)
		}
		for _, absent := range []string{k + "\x00", k[:len(k)-1]} {
			if _, err := a.Get(records.Key(absent)); all[absent] == nil && !errors.Is(err, domain.ErrNotFound) {
				t.Fatalf("%x: got error %v", absent, err)
			}
		}
	}
	for _, prefix := range []string{"", "\x01", "\x01a", "\x01a\x00\x00\x00\x00\x00\x01", sorted[500], "\x01b", "\x00"} {
		for _, from := range []string{"", "\x01", sorted[0], sorted[1000] + "\x00", sorted[len(sorted)-1], "\x02"} {
			var got, want []string
			it := a.Iterate(records.Key(prefix))
			for it.Seek(records.Key(from)); it.Valid(); it.Next() {
				value, err := it.Value()
				if err != nil || !bytes.Equal(value, all[string(it.Key())]) {
					t.Fatalf("%x: got %d bytes, %v", it.Key(), len(value), err)
				}
				got = append(got, string(it.Key()))
			}
			if err := it.Err(); err != nil {
				t.Error(err)
			}
			it.Close()
			for _, k := range sorted {
				if strings.HasPrefix(k, prefix) && k >= from {
					want = append(want, k)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%x from %x: got %d keys, want %d", prefix, from, len(got), len(want))
			}
		}
	}
	// A file that cannot be read again says nothing about the records.
	clear(a.cached[:])
	file.fails = true
	if _, err := a.Get(records.Key(sorted[0])); !errors.Is(err, domain.ErrUnavailable) || !errors.Is(a.failed, errFlaky) {
		t.Errorf("got error %v and %v", err, a.failed)
	}
	if _, err := new(archive).Get(records.Key("\x01a")); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("an empty one: got error %v", err)
	}
}

// flaky is a file that cannot be read once fails is set.
type flaky struct {
	io.ReaderAt
	fails bool
}

var errFlaky = errors.New("the disk fails")

func (f *flaky) ReadAt(p []byte, at int64) (int, error) {
	if f.fails {
		return 0, errFlaky
	}
	return f.ReaderAt.ReadAt(p, at)
}

// TestVerifyEnds ends a verification early: nobody waits, or the disk fails.
func TestVerifyEnds(t *testing.T) {
	for _, doing := range []string{"read", "compared"} {
		ctx, stop := context.WithCancel(t.Context())
		file := &flaky{ReaderAt: bytes.NewReader(written(t, testKey, 1000, 1000))}
		_, _, _, err := Verify(ctx, file, testKey, func(now string, _, _ int) {
			if now == doing {
				stop()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want that it was given up", doing, err)
		}
		_, _, _, err = Verify(t.Context(), file, testKey, func(now string, read, about int) {
			if file.fails = now == doing; about < read {
				t.Error(fmt.Sprint(read, " of ", about))
			}
		})
		if !errors.Is(err, errFlaky) || errors.Is(err, ErrUnusable) {
			t.Errorf("%s: got error %v, want that of the disk", doing, err)
		}
		stop()
	}
}
