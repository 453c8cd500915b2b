package rawjson

import "golang.org/x/sys/cpu"

// skipSimple returns how many bytes text goes on with that are string content without
// surprises: characters of one byte, or of more, and whole escapes of two. It stops before a
// quote, a control character, and any other escape, and also where less than a block is left.
func skipSimple(text []byte) int {
	if cpu.X86.HasAVX2 {
		return skipSimpleAVX2(text)
	}
	return skipSimpleWords(text)
}

// skipSimpleAVX2 is skipSimple for processors with AVX2, which look at 32 bytes at a time.
//
//go:noescape
func skipSimpleAVX2(text []byte) int
