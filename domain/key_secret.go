package domain

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// An issued secret is prefix, 256 random bits, checksum:
//
//	caddypresets_mgmt_<43 base62 characters><6 base62 characters>
//
// Secret scanners find a leaked key by its prefix: they match
// caddypresets_(mgmt|inf)_[0-9A-Za-z]{49}. They verify it by the checksum, the CRC-32 of
// the text before it. The server does not verify the checksum. So a damaged key takes as
// long as an unknown one.
const (
	managementPrefix = "caddypresets_mgmt_"
	inferencePrefix  = "caddypresets_inf_"
	randomBytes      = 32
	randomDigits     = 43 // of base 62, for 256 bits
	checksumDigits   = 6  // of base 62, for 32 bits
)

// KeyHash is the SHA-256 of a secret. The secret itself is never kept. It has 256 random
// bits, so nobody can guess it from a plain hash.
type KeyHash [sha256.Size]byte

// HashSecret returns the hash of a secret.
func HashSecret(secret string) KeyHash {
	var text [128]byte // most secrets fit, and need no memory then
	return sha256.Sum256(append(text[:0], secret...))
}

// MarshalText writes h as 64 lower-case hexadecimal digits.
func (h KeyHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits, in either case.
func (h *KeyHash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("a SHA-256 has %d hexadecimal digits, not %d", 2*len(h), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

func newSecret(kind KeyKind) string {
	prefix := inferencePrefix
	if kind == ManagementKey {
		prefix = managementPrefix
	}
	var random [randomBytes]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	digits := new(big.Int).SetBytes(random[:]).Text(len(base62))
	body := prefix + strings.Repeat("0", randomDigits-len(digits)) + digits
	sum := checksum(body)
	return body + string(sum[:])
}

// HiddenPrefix is the prefix of a mask, the text that replaces a credential where it must
// not be seen. No secret has this prefix.
const HiddenPrefix = "caddypresets_hidden_"

// HoldsIssued reports whether text holds an issued secret or a mask. It looks for their
// prefixes in any letter case, so it also finds damaged secrets. It does not find encoded
// ones (base64, percent-encoding). It does not allocate, and its time is linear in the
// length of text.
func HoldsIssued(text string) bool {
	const name = len("caddypresets")
	for at := 0; ; at++ {
		next := strings.IndexByte(text[at:], '_') // rare in headers
		if next < 0 {
			return false
		}
		if at += next; at < name {
			continue
		}
		for _, prefix := range [...]string{inferencePrefix, managementPrefix, HiddenPrefix} {
			if start := at - name; len(text)-start >= len(prefix) && strings.EqualFold(text[start:start+len(prefix)], prefix) {
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
