package rawjson

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSkipSimple compares what the processor's form of skipSimple finds with a loop over single
// characters, in texts of everything that matters, at each place.
func TestSkipSimple(t *testing.T) {
	pieces := []string{`"`, `\`, `\\`, `\"`, `\n`, `\u00e9`, `\ud83d\ude00`, `\x`, `\b`, `\f`, `\r`, `\t`, `\/`, "a", "é", "\xff", "\n", "\x1f", " ", "\x00", strings.Repeat("w", 31), strings.Repeat(`\\`, 17)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(pieces[random.IntN(len(pieces))])
			b.WriteString(strings.Repeat("x", random.IntN(9)*random.IntN(9)))
		}
		text := []byte(b.String())
		end := simpleEnd(text)
		for name, skip := range map[string]func([]byte) int{"processor": skipSimple, "words": skipSimpleWords} {
			if got := skip(text); got > end || len(text)-end >= 32 && got < end || got < end-33 || !isBoundary(text, got) {
				t.Fatalf("%s: skipped %d bytes of %q, want %d", name, got, text, end)
			}
		}
	}
}

// simpleEnd returns where a quote, a control character or an escape that is not simple stands first.
func simpleEnd(text []byte) (i int) {
	for i < len(text) {
		switch {
		case text[i] == '\\' && isEscape[at(text, i+1)]:
			i += 2
		case text[i] == '\\', text[i] == '"', text[i] < ' ':
			return i
		default:
			i++
		}
	}
	return i
}

// isBoundary reports whether no simple escape is cut at a place.
func isBoundary(text []byte, place int) bool {
	i := 0
	for i < place {
		if text[i] == '\\' && isEscape[at(text, i+1)] {
			i++
		}
		i++
	}
	return i == place
}
