package rawjson

import (
	"bytes"
	"testing"
)

// TestSkipSimple has each byte behind up to three backslashes, and in each digit of a code, at each place of two blocks,
// and cuts the text at some lengths. What follows the text cannot be read where the system has such pages.
func TestSkipSimple(t *testing.T) {
	for place := range 2*blockSize + 2 {
		for _, before := range []string{"", `\`, `\\`, `\\\`, `\u`, `\u0`, `\u00`, `\u00e`} {
			for char := range 256 {
				text := bytes.Repeat([]byte{'9'}, 3*blockSize)
				copy(text[place:], before)
				text[place+len(before)] = byte(char)
				for _, length := range []int{len(text), place + len(before) + 1, place + len(before), max(blockSize, place&^(blockSize-1))} {
					checkSkip(t, text[:length])
				}
			}
		}
	}
}

// FuzzSkipSimple compares strings of any text with a loop over single characters.
func FuzzSkipSimple(f *testing.F) {
	for _, seed := range []string{`\`, `\n`, `ab\u00e9`, "\xff\x80", `\"`, `\\"`, "\x1f"} {
		f.Add(bytes.Repeat([]byte(seed), 65), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, few bool) {
		if len(text) > 4096 {
			return
		}
		if few { // only bytes that matter
			text = bytes.Clone(text)
			for i, char := range text {
				text[i] = "\\\\\\\"nu/0aaaaa\x1f\xdc\\"[char&15]
			}
		}
		checkSkip(t, text)
		quoted := guarded(append([]byte{'"'}, text...))
		if got, want := scanString(quoted, 0), stringEnd(quoted, 1); got != want {
			t.Fatalf("%q ends at %d, want %d", quoted, got, want)
		}
	})
}

// checkSkip checks that the rest of what was skipped ends where the whole does, and that no simple block is left.
func checkSkip(t *testing.T, text []byte) {
	t.Helper()
	text = guarded(text)
	end := simpleEnd(text)
	for name, skip := range map[string]func([]byte) int{"processor": skipSimple, "words": skipSimpleWords} {
		got := skip(text)
		if stringEnd(text, got) != stringEnd(text, 0) || got < end && len(text)-got > blockSize {
			t.Fatalf("%s: skipped %d bytes of %q, the first that is not simple is at %d", name, got, text, end)
		}
	}
}

// simpleEnd returns where a quote, a control character or a wrong escape stands first.
func simpleEnd(text []byte) (i int) {
	for i < len(text) && text[i] != '"' && text[i] >= ' ' {
		switch {
		case text[i] != '\\':
			i++
		case isEscape[at(text, i+1)]:
			i += 2
		case scanCode(text, i) >= 0:
			i += len(`\uXXXX`)
		default:
			return i
		}
	}
	return i
}

// stringEnd returns what scanString returns for a string whose rest begins at a place.
func stringEnd(text []byte, i int) int {
	switch i += simpleEnd(text[i:]); at(text, i) {
	case '"':
		return i + 1
	case '\\':
		return scanCode(text, i)
	}
	return failedAt(i)
}
