package domain_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1": 1, "10": 10, strconv.Itoa(math.MaxInt): math.MaxInt} {
		if n, ok := domain.ParseNumber(text); !ok || n != want {
			t.Errorf("%s: got %d, %t", text, n, ok)
		}
	}
	for _, text := range []string{"", "01", "00", "+1", "-1", "-0", "1.0", "1e0", " 1", "1 ", "٣", "0x1", "1_0", "9223372036854775808"} {
		if n, ok := domain.ParseNumber(text); ok {
			t.Errorf("%q: got %d, want none", text, n)
		}
	}
}
