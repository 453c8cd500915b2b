package secrets

import (
	"hash/crc32"
	"math/big"
	"strings"
	"testing"
)

// Issued secrets stay well formed: the checksum has not changed since the first version.
func TestChecksum(t *testing.T) {
	for _, secret := range []string{
		"caddypresets_mgmt_5UQf3TH8RRmcoqLpYSCmkn5URphQW6CYRYzaBavxHmY32Rfsg",
		"caddypresets_inf_3SXTyFGUBLWZWtF8ifj4YLMMIIq9TdFDE5kvRQRMdFc3hZEJQ",
	} {
		body, given := secret[:len(secret)-checksumDigits], secret[len(secret)-checksumDigits:]
		if got := checksum(body); string(got[:]) != given {
			t.Errorf("%s: got checksum %s, want %s", body, got, given)
		}
	}
	padded := false
	for i := range 1000 {
		body := string(Management) + strings.Repeat("x", i)
		want := new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))).Text(62)
		want = strings.Repeat("0", checksumDigits-len(want)) + want
		padded = padded || want[0] == '0'
		if got := checksum(body); string(got[:]) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	if !padded {
		t.Error("no checksum begins with 0, want one at least")
	}
}
