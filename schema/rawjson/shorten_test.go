package rawjson_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// shortened returns a text as a Shortener keeps it that gets it in pieces of a size.
func shortened(text []byte, size int) []byte {
	var s rawjson.Shortener
	for piece := range slices.Chunk(text, max(size, 1)) {
		s.Add(piece)
	}
	return s.Text()
}

// FuzzShortener shortens any text in pieces, which do not matter. A text with short strings stays as it is.
func FuzzShortener(f *testing.F) {
	long := strings.Repeat(`x\n\"`, 100)
	for _, text := range []string{
		"", `{"a":[1,"x\n\u00e4\"",{}]}`, `"` + long + `"`, `{"` + long + `":"` + long + `"}`, `"` + long, `"\`, "\"\t" + long + `"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := shortened(text, len(text))
		if len(text) <= rawjson.MaxShortString && !bytes.Equal(want, text) {
			t.Errorf("%q became %q", text, want)
		}
		if rawjson.Check(text) == nil && rawjson.Check(want) != nil {
			t.Errorf("%q became %q, which is no JSON", text, want)
		}
		for _, size := range []int{1, 2, 3, 7, 300} {
			if got := shortened(text, size); !bytes.Equal(got, want) {
				t.Errorf("%q in pieces of %d: got %q, want %q", text, size, got, want)
			}
		}
	})
}

// TestSizeOf compares sizes of strings that a Shortener kept with those that were written.
func TestSizeOf(t *testing.T) {
	for _, inside := range []string{"", "a", `x\n\"`, strings.Repeat("é", 128), strings.Repeat("x", 257), strings.Repeat(`\"`, 500), "…", "…x", "…-1"} {
		text := []byte(`{"a":"` + inside + `"}`)
		for _, size := range []int{1, 7, len(text)} {
			if got := rawjson.SizeOf(rawjson.Get(shortened(text, size), "a")); got != len(inside) {
				t.Errorf("%q in pieces of %d: got %d, want %d", inside, size, got, len(inside))
			}
		}
	}
	for _, value := range []string{"", `"`, "7", "null", "[1]"} {
		if got := rawjson.SizeOf([]byte(value)); got != 0 {
			t.Errorf("%s: got %d, want 0", value, got)
		}
	}
}
