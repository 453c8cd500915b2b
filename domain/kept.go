package domain

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Kept tells which versions of a preset still exist. The zero value stands for all.
type Kept struct {
	// From is the number from which on all versions exist. It is 0 if none was removed.
	From int `json:"from"`
	// Also are the existing versions below From, in order.
	Also []int `json:"also"`
}

// Without returns k without some versions. numbers are in order.
func (k Kept) Without(numbers []int) Kept {
	if len(numbers) == 0 {
		return k
	}
	var also []int
	keep := func(n int) {
		if _, removed := slices.BinarySearch(numbers, n); !removed {
			also = append(also, n)
		}
	}
	for _, n := range k.Also {
		keep(n)
	}
	from := k.first()
	for ; from <= numbers[len(numbers)-1]; from++ {
		keep(from)
	}
	return Kept{from, also}
}

// first returns From as the number of a version.
func (k Kept) first() int { return max(k.From, 1) }

// Has reports whether version n exists.
func (s PresetState) Has(n int) bool {
	if n >= s.Kept.first() {
		return n <= s.LatestVersion
	}
	_, kept := slices.BinarySearch(s.Kept.Also, n)
	return kept
}

// Versions yields the numbers of the existing versions, in order.
func (s PresetState) Versions() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s.count() {
			if !yield(s.Version(i)) {
				return
			}
		}
	}
}

// count returns the number of existing versions.
func (s PresetState) count() int {
	return len(s.Kept.Also) + s.LatestVersion + 1 - s.Kept.first()
}

// Version returns the number of the existing version with index i.
func (s PresetState) Version(i int) int {
	if i < len(s.Kept.Also) {
		return s.Kept.Also[i]
	}
	return s.Kept.first() + i - len(s.Kept.Also)
}

// versionsInUse returns the versions of p that requests get without naming their number.
func (p Preset) versionsInUse() map[int]bool {
	used := map[int]bool{p.DesignatedVersion: true}
	for _, label := range p.Labels {
		used[label.Version] = true // 0 where there is a split
		for _, share := range label.Split {
			used[share.Version] = true
		}
	}
	return used
}

// formatRanges returns numbers as text such as 1-97,99. numbers are in order.
func formatRanges(numbers []int) string {
	var ranges []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		text := strconv.Itoa(numbers[i])
		if last > i {
			text += "-" + strconv.Itoa(numbers[last])
		}
		ranges = append(ranges, text)
		i = last + 1
	}
	return strings.Join(ranges, ",")
}
