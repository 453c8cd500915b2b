//go:build gc && !purego && !race && !msan && !asan

package rawjson

import "golang.org/x/sys/cpu"

// skipSimple returns how many bytes text goes on with that are string content without surprises: characters of
// one byte, or of more, and whole escapes of two. It stops before a quote, a control character, and a wrong escape,
// and where less than a block is left. It may stop before an escape of six.
func skipSimple(text []byte) int {
	if cpu.X86.HasAVX2 {
		return skipSimpleAVX2(text)
	}
	return skipSimpleWords(text)
}

// skipSimpleAVX2 is skipSimple for processors with AVX2. It goes on behind escapes of six. The race
// detector does not see what it reads, so builds with one have skipSimpleWords.
//
//go:noescape
func skipSimpleAVX2(text []byte) int
