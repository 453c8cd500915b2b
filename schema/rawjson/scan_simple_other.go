//go:build !amd64 || !gc || purego || race || msan || asan

package rawjson

// skipSimple returns how many bytes text goes on with that are string content without surprises: characters of
// one byte, or of more, and whole escapes. It stops before a quote, a control character, and a wrong escape, and where
// less than a block is left. There it may leave an escape, or the last digits of one that it has checked.
func skipSimple(text []byte) int { return skipSimpleWords(text) }
