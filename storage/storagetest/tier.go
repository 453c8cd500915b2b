package storagetest

import "os"

// SecondTier reports whether this is a run of the second tier, with PRESETS_TIER=2. Its
// exhaustive tests try all cases, and its stores are on a real disk. The first tier tries a
// sample of the cases.
func SecondTier() bool { return os.Getenv("PRESETS_TIER") == "2" }

// Sample returns 1 in the second tier and n in the first, which tries one of n cases.
func Sample(n int) int {
	if SecondTier() {
		return 1
	}
	return n
}
