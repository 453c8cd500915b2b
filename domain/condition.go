package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// Tag returns the entity tag (RFC 9110, 8.8.3) of an answer's data, without quotes. It has
// 32 hexadecimal digits that differ when the data does.
func Tag(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// tagged returns an object with its tag.
func tagged(found Found) Found {
	found.Tag = Tag(found.JSON)
	return found
}

// listed returns a page of a list, of total objects, with its tag.
func listed(text []byte, total int) Found {
	return Found{JSON: text, Total: total, Tag: Tag(strconv.AppendInt(slices.Clip(text), int64(total), 10))}
}
