// Package secrets makes the secrets of issued keys and finds them in text.
package secrets

import (
	"crypto/rand"
	"hash/crc32"
	"math/big"
	"strings"
)

// A secret is prefix, 256 random bits, checksum:
//
//	caddypresets_mgmt_<43 base62 characters><6 base62 characters>
//
// Secret scanners find a leaked key by its prefix: they match
// caddypresets_(mgmt|inf)_[0-9A-Za-z]{49}. They verify it by the checksum, the CRC-32 of
// the text before it. The server does not verify the checksum. So a damaged key takes as
// long as an unknown one.
const (
	randomBytes    = 32
	randomDigits   = 43 // of base 62, for 256 bits
	checksumDigits = 6  // of base 62, for 32 bits
)

// Prefix begins the secrets of a kind of key.
type Prefix string

// The prefixes of secrets, and of a mask, which is the text that replaces a credential where it
// must not be seen. No secret begins like a mask.
const (
	Management Prefix = "caddypresets_mgmt_"
	Inference  Prefix = "caddypresets_inf_"
	Hidden     Prefix = "caddypresets_hidden_"
)

// New returns a new secret.
func New(prefix Prefix) string {
	var random [randomBytes]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	digits := new(big.Int).SetBytes(random[:]).Text(len(base62))
	body := string(prefix) + strings.Repeat("0", randomDigits-len(digits)) + digits
	sum := checksum(body)
	return body + string(sum[:])
}

// AreIn reports whether a text has an issued secret or a mask. It looks for their
// prefixes in any letter case, so it also finds damaged secrets. It does not find encoded
// ones (base64, percent-encoding). It does not allocate, and its time is linear in the
// length of the text.
func AreIn(text string) bool {
	const name = len("caddypresets")
	for at := 0; ; at++ {
		next := strings.IndexByte(text[at:], '_') // rare in headers
		if next < 0 {
			return false
		}
		if at += next; at < name {
			continue
		}
		for _, prefix := range [...]Prefix{Inference, Management, Hidden} {
			if start := at - name; len(text)-start >= len(prefix) && strings.EqualFold(text[start:start+len(prefix)], string(prefix)) {
				return true
			}
		}
	}
}

// base62 are the digits of issued secrets, those of big.Int.
const base62 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// checksum returns the CRC-32 of the text before it in a secret.
func checksum(body string) (digits [checksumDigits]byte) {
	sum := crc32.ChecksumIEEE([]byte(body))
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = base62[sum%62]
		sum /= 62
	}
	return digits
}
