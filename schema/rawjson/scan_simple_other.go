//go:build !amd64

package rawjson

// skipSimple returns how many bytes text goes on with that are string content without
// surprises: characters of one byte, or of more, and whole escapes of two. It stops before a
// quote, a control character, and any other escape, and also where less than a block is left.
func skipSimple(text []byte) int { return skipSimpleWords(text) }
