package storagetest

import "os"

// SecondTier reports whether this is a run of the second tier, with PRESETS_TIER=2. There
// exhaustive tests try all cases, and stores are on a real disk. The first tier tries a
// sample of the cases.
func SecondTier() bool { return os.Getenv("PRESETS_TIER") == "2" }

// Sample returns 1 in the second tier, and n, of which one case is tried, in the first.
func Sample(n int) int {
	if SecondTier() {
		return 1
	}
	return n
}
