//go:build gc && !purego && !race && !msan && !asan

package rawjson

import "golang.org/x/sys/cpu"

// skipSimple returns how many bytes text goes on with that are string content without surprises: characters of
// one byte, or of more, and whole escapes. It stops before a quote, a control character, and a wrong escape, and where
// less than a block is left. There it may leave an escape, or the last digits of one that it has checked.
func skipSimple(text []byte) int {
	if cpu.X86.HasAVX2 && cpu.X86.HasBMI1 {
		return skipSimpleAVX2(text)
	}
	return skipSimpleWords(text)
}

// skipSimpleAVX2 is skipSimple for processors with AVX2 and BMI1. The race detector does not see what it reads, so
// builds with one have skipSimpleWords.
//
//go:noescape
func skipSimpleAVX2(text []byte) int
