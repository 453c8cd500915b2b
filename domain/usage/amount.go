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

// powers are those of ten that fit a uint64.
var powers = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = p[i-1] * 10
	}
	return p
}()

// amountOf returns d to 18 decimal places, and whether d can be a cost. A cost is not
// negative, and less than 10^18.
func amountOf(d decimal.Decimal) (amount, bool) {
	if d.Sign() < 0 || d.Exponent() < -64 || d.Exponent() > amountDigits {
		return amount{}, false // 1e999999 would need a megabyte
	}
	if c := d.Coefficient(); c.IsUint64() && -d.Exponent() >= 0 && -d.Exponent() <= amountDigits {
		hi, lo := bits.Mul64(c.Uint64(), powers[amountDigits+d.Exponent()])
		return amount{hi, lo}, hi < maxCost.hi
	}
	units := d.Shift(amountDigits).Round(0).BigInt()
	if units.BitLen() > 120 {
		return amount{}, false
	}
	var words [16]byte
	units.FillBytes(words[:])
	a := amount{binary.BigEndian.Uint64(words[:8]), binary.BigEndian.Uint64(words[8:])}
	return a, a.hi < maxCost.hi
}

// maxCost is 10^18, more than a request can cost.
var maxCost = func() amount {
	hi, lo := bits.Mul64(powers[18], powers[18])
	return amount{hi, lo}
}()

// plus returns a+b, at most the greatest amount.
func (a amount) plus(b amount) amount {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, carry := bits.Add64(a.hi, b.hi, carry)
	if carry != 0 {
		return maxAmount
	}
	return amount{hi, lo}
}

// trimmed returns a without its trailing decimal zeros, at most 18, and their number.
func (a amount) trimmed() (b amount, zeros int) {
	if a == (amount{}) {
		return a, 0
	}
	for zeros < amountDigits {
		hi, rest := a.hi/10, a.hi%10
		lo, rest := bits.Div64(rest, a.lo, 10)
		if rest != 0 {
			break
		}
		a, zeros = amount{hi, lo}, zeros+1
	}
	return a, zeros
}

// padded is the reverse of trimmed. It reports whether the amount is in range.
func (a amount) padded(zeros int) (amount, bool) {
	over, hi := bits.Mul64(a.hi, powers[zeros])
	carry, lo := bits.Mul64(a.lo, powers[zeros])
	hi, more := bits.Add64(hi, carry, 0)
	return amount{hi, lo}, over == 0 && more == 0
}

// appendText appends a as decimal text without trailing zeros.
func (a amount) appendText(b []byte) []byte {
	if a.hi == 0 {
		return appendFixed(b, a.lo, amountDigits)
	}
	units := new(big.Int).SetUint64(a.hi)
	units.Lsh(units, 64).Or(units, new(big.Int).SetUint64(a.lo))
	return append(b, decimal.NewFromBigInt(units, -amountDigits).String()...)
}

// appendFixed appends n×10^-digits without trailing zeros.
func appendFixed(b []byte, n uint64, digits int) []byte {
	var text [24]byte
	i := len(text)
	for place := 0; place < digits || n > 0 || place == digits; place++ {
		if place == digits && i < len(text) {
			i--
			text[i] = '.'
		}
		if digit := byte(n % 10); digit != 0 || i < len(text) || place >= digits {
			i--
			text[i] = '0' + digit
		}
		n /= 10
	}
	return append(b, text[i:]...)
}
