package rawjson

import (
	"math"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestInt(t *testing.T) {
	const most = min(1<<53-1, math.MaxInt)
	for text, want := range map[string]int{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "1.0": 1, "1e2": 100, "120e-1": 12, "2.50e1": 25, "0e99": 0, strconv.Itoa(most): most,
	} {
		if got, ok := Int(jsontext.Value(text)); !ok || got != want {
			t.Errorf("%s: got %d, %t, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"1.5", "1e-1", "9007199254740992", "1e16", "1e999999999", "1.0000000000000000001", "-9007199254740992", "99999999999999999999", `"1"`, "null", "true", "[1]",
	} {
		if got, ok := Int(jsontext.Value(text)); ok {
			t.Errorf("%s: got %d, want no integer", text, got)
		}
	}
}
