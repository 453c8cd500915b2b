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

// TestKnownForms finds and masks a key of each form, in JSON, too. A word that ends as one begins is none.
func TestKnownForms(t *testing.T) {
	for _, f := range forms {
		key := f.mark + strings.Repeat("A0", 35/2) + "A"
		switch f.mark {
		case privateKey:
			key = "-----BEGIN EC " + privateKey + "\\nMIIE\\n"
		case "caddypresets_":
			key = string(Inference) + "0123456789abcdefghij"
		case "AKIA", "ASIA":
			key = f.mark + "0123456789ABCDEF"
		case "gsk_", "xai-", "github_pat_":
			key += "0123456789"
		}
		text := `{"a":"\n` + key + `"}`
		found := FindKnown([]byte(text), 9)
		masked, any := Mask([]byte(text))
		if len(found) != 1 || found[0].Name != f.name || !any || string(masked) != `{"a":"\n[key]"}` {
			t.Errorf("%s: found %v in %s, and masked it as %s", f.name, found, text, masked)
		}
		if f.mark == privateKey || f.mark == "caddypresets_" {
			continue
		}
		for _, word := range []string{"x" + key, f.mark, f.mark + "short"} {
			if masked, any := Mask([]byte(word)); any {
				t.Errorf("%s is masked as %s", word, masked)
			}
		}
	}
}
