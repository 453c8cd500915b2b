package rawjson

import (
	"encoding/binary"
	"math/bits"
)

const (
	// blockSize is how many bytes are looked at together at least, and wordsSize without AVX2.
	blockSize, wordsSize = 64, 32
	// shortSize is how many bytes are looked at in words of eight before.
	shortSize = 16
	// maxSkip is how many bytes are skipped at once. Assembly code cannot be interrupted, as for a collection.
	maxSkip = 64 << 10
)

// scanString scans a string. Like the tolerant decoder, it accepts invalid UTF-8.
func scanString(text []byte, i int) int {
	if at(text, i) != '"' {
		return failedAt(i)
	}
	i++
	for last := i + shortSize; i < last && len(text)-i >= 8; i += 8 { // plainEnd without the call: most names and many values end here
		if ends := special(binary.LittleEndian.Uint64(text[i:])); ends != 0 {
			if i += bits.TrailingZeros64(ends) / 8; text[i] == '"' {
				return i + 1
			}
			break
		}
	}
	for {
		if len(text)-i >= blockSize {
			i += skipSimple(text[i:min(i+maxSkip, len(text))])
		}
		switch char := at(text, i); {
		case char == '"':
			return i + 1
		case char == '\\' && isEscape[at(text, i+1)]:
			i += 2
		case char == '\\':
			if i = scanCode(text, i); i < 0 {
				return i
			}
		case char < ' ':
			return failedAt(i)
		default:
			i++
		}
	}
}

// skipSimpleWords is skipSimple for any processor. It goes on behind escapes of six, and may stop within one. Where
// a block begins hardly depends on the escapes before, so a processor works on several at once.
func skipSimpleWords(text []byte) (i int) {
	for len(text)-i >= wordsSize {
		block, next := text[i:i+wordsSize], i+wordsSize
		a, b := special(binary.LittleEndian.Uint64(block)), special(binary.LittleEndian.Uint64(block[8:]))
		c, d := special(binary.LittleEndian.Uint64(block[16:])), special(binary.LittleEndian.Uint64(block[24:]))
		if a|b|c|d == 0 {
			i = next
			continue
		}
		for places := gather(a) | gather(b)<<8 | gather(c)<<16 | gather(d)<<24; places != 0; places &= places - 1 {
			place := bits.TrailingZeros32(places)
			switch char := block[place%wordsSize]; { // the compiler sees that it is in bounds
			case char == '\\':
				if !isEscape[at(text, i+place+1)] && scanCode(text, i+place) < 0 {
					return i + place
				}
				places &^= 2 << place // the next may be a quote or a backslash, too
				if place == wordsSize-1 {
					next++
				}
			case char == '"', char < ' ':
				return i + place
			}
		}
		i = next
	}
	return i
}

// isEscape has the characters that are an escape behind a backslash, but for the u of a
// code.
var isEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// scanCode scans a backslash, a u and four digits. An error is at the backslash, unless the text
// ends there.
func scanCode(text []byte, i int) int {
	end := scanHex(text, i+1)
	if end < 0 && ^end < len(text) {
		return failedAt(i)
	}
	return end
}

// scanHex scans a u and four digits.
func scanHex(text []byte, i int) int {
	if at(text, i) != 'u' {
		return failedAt(i)
	}
	end := i + len("uXXXX")
	for i++; i < end; i++ {
		if !isHex(at(text, i)) {
			return failedAt(i)
		}
	}
	return end
}

func isHex(digit byte) bool {
	return '0' <= digit && digit <= '9' || 'a' <= digit|0x20 && digit|0x20 <= 'f'
}

// special sets the highest bit of each byte that is a quote, a backslash or a control character.
// It may also set that of a byte behind such a one. It is 0 if there is none.
//
// A quote is 0x22. With the bit 0x02 inverted, it is 0x20, a space is 0x22, and control
// characters stay below 0x20.
func special(eight uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	quotes := (eight ^ 0x02*each) - 0x21*each
	backslashes := (eight ^ '\\'*each) - each
	return (quotes | backslashes) &^ eight & high
}

// gather returns the highest bits of eight bytes, that of the first byte lowest. Other bits must
// be 0. The multiplication moves each bit to the highest byte, and no two to one place.
func gather(eight uint64) uint32 { return uint32(eight >> 7 * 0x0102040810204080 >> 56) }
