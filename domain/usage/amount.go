package usage

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"

	"github.com/shopspring/decimal"
)

// amountDigits is how many decimal places an amount has.
const amountDigits = 18

// amount is a sum of costs in units of 10^-18: exact, and never negative. It ends at
// 3×10^20.
type amount struct{ hi, lo uint64 }

var maxAmount = amount{math.MaxUint64, math.MaxUint64}

// maxCost is more than a request can cost.
var maxCost = decimal.New(1, 18)

// amountOf returns d to 18 decimal places, and whether d can be a cost, which is not negative and less
// than maxCost.
func amountOf(d decimal.Decimal) (amount, bool) {
	switch exponent := d.Exponent(); {
	case d.IsZero():
		return amount{}, true
	case d.IsNegative():
		return amount{}, false
	case -amountDigits <= exponent && exponent <= 0 && d.NumDigits() <= amountDigits: // nearly every cost
		power := uint64(1)
		for range amountDigits + exponent {
			power *= 10
		}
		hi, lo := bits.Mul64(uint64(d.CoefficientInt64()), power) // at most 18 digits, and not negative
		return amount{hi, lo}, true
	case exponent < -64, exponent > amountDigits, d.Cmp(maxCost) >= 0: // 1e999999 would need a megabyte
		return amount{}, false
	}
	var words [16]byte
	d.Shift(amountDigits).Round(0).BigInt().FillBytes(words[:])
	return amount{binary.BigEndian.Uint64(words[:8]), binary.BigEndian.Uint64(words[8:])}, true
}

// plus returns a+b, at most the greatest amount.
func (a amount) plus(b amount) amount {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, carry := bits.Add64(a.hi, b.hi, carry)
	if carry != 0 {
		return maxAmount
	}
	return amount{hi, lo}
}

// appendText appends a as decimal text without trailing zeros.
func (a amount) appendText(b []byte) []byte { return append(b, a.decimal().String()...) }

func (a amount) decimal() decimal.Decimal {
	units := new(big.Int).SetUint64(a.hi)
	units.Lsh(units, 64).Or(units, new(big.Int).SetUint64(a.lo))
	return decimal.NewFromBigInt(units, -amountDigits)
}

// float returns the number that is nearest to a.
func (a amount) float() float64 { return a.decimal().InexactFloat64() }
