//go:build !unix

package fileowner

// Give changes nothing here.
func Give(string) {}

// Adopt changes nothing here.
func Adopt(string) {}

func ownerOf(string) string { return "" }
