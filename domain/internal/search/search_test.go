package search

import (
	"strings"
	"testing"
)

// Case is that of Unicode, also where the two letters have different lengths.
func TestFoldCase(t *testing.T) {
	const names = "Straße k, S Οδος É"
	for text, found := range map[string]bool{
		"STRAẞE": true, "straße": true, "strasse": false, "\u212a": true, "K": true, "k": true, "ſ": true, "ΟΔΟΣ": true, "οδος": true, "οδοσ": true,
		"é": true, "e\u0301": false,
	} {
		if strings.Contains(foldCase(names), foldCase(text)) != found {
			t.Errorf("%q: got %t", text, !found)
		}
	}
}
