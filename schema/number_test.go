package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		text string
		want any
	}{
		{"0", 0.0},
		{"-0.0", 0.0},
		{"1e3", json.Number("1e3")},
		{"0.00009999999999999999999", json.Number("0.00009999999999999999999")},
		{"1e308", json.Number("1e308")},
		{"1e-300", json.Number("1e-300")},
		{"1e-324", math.SmallestNonzeroFloat64},
		{"-1e-324", -math.SmallestNonzeroFloat64},
		{"1e-999999999", math.SmallestNonzeroFloat64},
		{"0e999999999", 0.0},
		{"-0.000e-999999999", 0.0},
		{"0.0" + strings.Repeat("0", 400) + "1", math.SmallestNonzeroFloat64},
		{"1" + strings.Repeat("0", 400) + "e-400", json.Number("1" + strings.Repeat("0", 400) + "e-400")},
	} {
		t.Run(fmt.Sprintf("%.40s", test.text), func(t *testing.T) {
			got, err := decodeNumber(jsontext.Value(test.text))
			if err != nil || got != test.want {
				t.Errorf("got %v (%T), %v, want %v (%T)", got, got, err, test.want, test.want)
			}
		})
	}
	for length, want := range map[int]error{MaxNumberLength: nil, MaxNumberLength + 1: errNumberTooLong} {
		text := jsontext.Value("0." + strings.Repeat("1", length-2))
		if _, err := decodeNumber(text); !errors.Is(err, want) {
			t.Errorf("%d characters: got %v, want %v", length, err, want)
		}
	}
}

// FuzzNumber checks what the validator relies on: it can compute with the result, and order
// and sign are kept.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"1", "-1.5e3", "1e400", "1e-400", "0e99999", "123456789012345678901234567890", "4.9e-324"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := jsontext.Value(text)
		if !v.IsValid() || v.Kind() != '0' || strings.TrimSpace(text) != text || len(text) > MaxNumberLength {
			t.Skip()
		}
		if !fitsDouble(v) {
			t.Skip() // readValue refuses it
		}
		got, err := decodeNumber(v)
		if err != nil {
			t.Fatal(err)
		}
		rat, ok := new(big.Rat).SetString(fmt.Sprint(got))
		if !ok {
			t.Fatalf("%v is no number to the validator", got)
		}
		want, _, err := big.ParseFloat(text, 10, 2000, big.ToNearestEven)
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		if err != nil || want.Sign() == 0 && strings.ContainsAny(mantissa, "123456789") {
			t.Skip() // too far out for big.Float too
		}
		if rat.Sign() != want.Sign() {
			t.Errorf("got sign %d, want %d", rat.Sign(), want.Sign())
		}
		for _, bound := range []string{"-1", "0.0001", "1", "30", "86400"} {
			exact, _, _ := big.ParseFloat(bound, 10, 2000, big.ToNearestEven)
			limit, _ := new(big.Rat).SetString(bound)
			if _, isText := got.(json.Number); !isText && rat.Cmp(limit) != want.Cmp(exact) {
				t.Errorf("%s against %s: got %d, want %d", text, bound, rat.Cmp(limit), want.Cmp(exact))
			}
		}
	})
}
