//go:build !unix

package rawjson

import "slices"

// guarded returns a copy of text without room behind it.
func guarded(text []byte) []byte { return slices.Clip(append([]byte(nil), text...)) }
