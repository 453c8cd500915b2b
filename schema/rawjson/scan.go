package rawjson

import "math"

// The functions of this file check JSON several times as fast as the decoder, and copy
// nothing. The decoder copies the names around an error. Each function takes a text and the
// place where something begins, and returns where that ends. They accept what the decoder
// accepts. For any other text they return a negative number: failedAt or tooDeep.

// tooDeep is returned for a value that nests deeper than it may.
const tooDeep = math.MinInt

// failedAt returns the negative number for the place where text stops being JSON. One that
// failed before stays.
func failedAt(i int) int {
	if i < 0 {
		return i
	}
	return ^i
}

// scanError returns the error for a negative number, in the words of describe.
func scanError(text []byte, end int) error {
	switch {
	case end == tooDeep:
		return errTooDeep
	case ^end == len(text):
		return errEndsAt(len(text))
	default:
		return errInvalidAt(^end)
	}
}

// wordBits is how many levels the word of scanValue has.
const wordBits = 64

// at returns a byte of text, 0 where there is none. JSON has no such byte.
func at(text []byte, i int) byte {
	if uint(i) < uint(len(text)) { // a negative number is not
		return text[i]
	}
	return 0
}

func scanSpace(text []byte, i int) int {
	for char := at(text, i); char <= ' ' && (char == ' ' || char == '\n' || char == '\t' || char == '\r'); char = at(text, i) {
		i++
	}
	return i
}

// scanMark scans one character and the space before it.
func scanMark(text []byte, i int, mark byte) int {
	if i = scanSpace(text, i); at(text, i) != mark {
		return failedAt(i)
	}
	return i + 1
}

// scanName scans a member's name, and the colon behind it.
func scanName(text []byte, i int) int {
	return scanMark(text, scanString(text, scanSpace(text, i)), ':')
}

// scanMember scans a member without its Name, and the comma or bracket behind it. isLast
// tells that it is the bracket. The value may nest as deep as most. m has a value even if only
// what is behind it fails.
func scanMember(text []byte, i, most int) (m Member, end int, isLast bool) {
	name := scanSpace(text, i)
	nameEnd := scanString(text, name)
	value := scanSpace(text, scanMark(text, nameEnd, ':'))
	valueEnd := scanValue(text, value, most)
	if valueEnd < 0 {
		return m, valueEnd, false
	}
	m.Quoted, m.Value = text[name:nameEnd:nameEnd], text[value:valueEnd:valueEnd]
	if comma := scanMark(text, valueEnd, ','); comma >= 0 {
		return m, comma, false
	}
	return m, scanMark(text, valueEnd, '}'), true
}

// scanValue scans a value that nests as deep as most.
func scanValue(text []byte, i, most int) int {
	depth, objects := 0, uint64(0) // the lowest bit of objects is that of the innermost value
	var outer []uint64             // full words
	for {
		i = scanSpace(text, i)
		switch begin := at(text, i); begin {
		case '{', '[':
			if depth > 0 && depth%wordBits == 0 {
				outer = append(outer, objects)
			}
			if depth++; depth > most {
				return tooDeep
			}
			objects <<= 1
			if begin == '{' {
				objects |= 1
			}
			i = scanSpace(text, i+1)
			if isEmpty := at(text, i) == closing(objects); isEmpty {
				break
			}
			if begin == '{' {
				i = scanName(text, i)
			}
			continue
		case '"':
			i = scanString(text, i)
		default:
			i = scanPlain(text, i)
		}
		for i >= 0 && depth > 0 {
			if i = scanSpace(text, i); at(text, i) != closing(objects) {
				break
			}
			i, depth, objects = i+1, depth-1, objects>>1
			if depth > 0 && depth%wordBits == 0 {
				last := len(outer) - 1
				objects, outer = outer[last], outer[:last]
			}
		}
		if i < 0 || depth == 0 {
			return i
		}
		if i = scanMark(text, i, ','); objects&1 != 0 {
			i = scanName(text, i)
		}
	}
}

// IsDeeper reports whether text nests deeper than some levels, before it stops being JSON.
func IsDeeper(text []byte, levels int) bool {
	return scanValue(text, scanSpace(text, 0), levels) == tooDeep
}

// closing returns the bracket that ends the innermost value.
func closing(objects uint64) byte {
	if objects&1 != 0 {
		return '}'
	}
	return ']'
}

// scanPlain scans a number, or one of the words true, false and null.
func scanPlain(text []byte, i int) int {
	switch at(text, i) {
	case 't':
		return scanWord(text, i, "true")
	case 'f':
		return scanWord(text, i, "false")
	case 'n':
		return scanWord(text, i, "null")
	case '-':
		i++
	}
	if at(text, i) == '0' {
		i++
	} else {
		i = scanDigits(text, i)
	}
	if at(text, i) == '.' {
		i = scanDigits(text, i+1)
	}
	if char := at(text, i); char == 'e' || char == 'E' {
		if i++; at(text, i) == '+' || at(text, i) == '-' {
			i++
		}
		i = scanDigits(text, i)
	}
	return i
}

func scanWord(text []byte, i int, word string) int {
	for j := range len(word) {
		if at(text, i+j) != word[j] {
			return failedAt(i + j)
		}
	}
	return i + len(word)
}

// scanDigits scans at least one digit.
func scanDigits(text []byte, i int) int {
	begin := i
	for digit := at(text, i); '0' <= digit && digit <= '9'; digit = at(text, i) {
		i++
	}
	if i == begin {
		return failedAt(i)
	}
	return i
}
