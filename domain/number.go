package domain

import "strconv"

// ParseNumber returns a number that is written in decimal digits, without a sign and without
// leading zeros. It is not ok for any other text, and for a number that no int holds.
func ParseNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}
