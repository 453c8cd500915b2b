//go:build gc && !purego && !race && !msan && !asan

#include "textflag.h"

// BYTE is a byte that stands 32 times in a register.
#define BYTE(name, value) \
	DATA name<>+0(SB)/1, $value \
	GLOBL name<>(SB), RODATA|NOPTR, $1

BYTE(quoteBit, 0x02)
BYTE(space, 0x20)
BYTE(backslash, 0x5c)
BYTE(letterBit, 0x10)
BYTE(letterR, 0x72)
BYTE(code, 0x75)
BYTE(zero, 0x30)
BYTE(nine, 9)
BYTE(lowerCase, 0x20)
BYTE(letterA, 0x61)
BYTE(five, 5)

// A simple escape is one of "\/bfnrt. Each has an entry at its lower half, but for b and r, which differ in one bit.
// Other entries stand at the half of another character.
DATA simple<>+0(SB)/8, $0x0066007400220001
DATA simple<>+8(SB)/8, $0x2f6e005c00000000
GLOBL simple<>(SB), RODATA|NOPTR, $16

// MASK sets a bit of mask for each byte of the block that compares equal in low and high. It uses other.
#define MASK(low, high, mask, other) \
	VPMOVMSKB low, mask  \
	VPMOVMSKB high, other \
	SHLQ      $32, other \
	ORQ       other, mask

// ENDS compares equal where half has a quote or a control character: with the bit 0x02 inverted, both are at most
// 0x20, and a space is not.
#define ENDS(half, result, other) \
	VPXOR    Y10, half, other  \
	VPMINUB  Y12, other, result \
	VPCMPEQB other, result, result

// SIMPLE compares equal where half has a character of a simple escape.
#define SIMPLE(half, result, other) \
	VPSHUFB  half, Y14, result     \
	VPCMPEQB half, result, result  \
	VPOR     Y13, half, other      \
	VPCMPEQB Y15, other, other     \
	VPOR     other, result, result

// HEX compares equal where half has a digit of sixteen. It changes half.
#define HEX(half, number, most) \
	VPSUBB   Y2, half, number     \
	VPMINUB  Y3, number, most     \
	VPCMPEQB number, most, number \
	VPOR     Y4, half, half       \
	VPSUBB   Y5, half, half       \
	VPMINUB  Y6, half, most       \
	VPCMPEQB half, most, half     \
	VPOR     number, half, half

// func skipSimpleAVX2(text []byte) int
//
// Each bit of a mask is one byte of a block of 64. Text of agents has escapes at irregular places, so nothing branches
// on them but the rare codes.
TEXT ·skipSimpleAVX2(SB), NOSPLIT, $0-32
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), DX
	XORL AX, AX // what was skipped
	XORL R8, R8 // 1 where the block's first byte is escaped
	XORL CX, CX // the block's first bytes that must be digits of a code
	SUBQ $64, DX
	JLT  done

	VPBROADCASTB   quoteBit<>(SB), Y10
	VPBROADCASTB   backslash<>(SB), Y11
	VPBROADCASTB   space<>(SB), Y12
	VPBROADCASTB   letterBit<>(SB), Y13
	VBROADCASTI128 simple<>(SB), Y14
	VPBROADCASTB   letterR<>(SB), Y15
	MOVQ           $0xaaaaaaaaaaaaaaaa, R14

block:
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	ENDS(Y0, Y2, Y4)
	ENDS(Y1, Y3, Y5)
	MASK(Y2, Y3, R9, R10)
	VPCMPEQB Y11, Y0, Y2
	VPCMPEQB Y11, Y1, Y3
	MASK(Y2, Y3, R10, R11)

	// Of each run of backslashes, the first escapes what follows, so the second does not, and
	// so on. Subtracting finds every second one at once, by what it carries through a run.
	MOVQ R10, R11
	ORQ  R8, R11
	ANDNQ R10, R8, R12         // backslashes, but an escaped one at the begin
	LEAQ  (R12)(R12*1), R13
	ORQ   R14, R13
	SUBQ  R12, R13
	XORQ  R14, R13             // backslashes that escape, and what is behind a run
	XORQ  R13, R11             // what is escaped
	ANDQ  R10, R13
	SHRQ  $63, R13             // for the next block

	SIMPLE(Y0, Y2, Y4)
	SIMPLE(Y1, Y3, Y5)
	MASK(Y2, Y3, R12, R10)
	ANDNQ R11, R12, R12
	ANDNQ R9, R11, R9          // where to stop
	XORL  DI, DI               // where digits of codes are
	MOVQ R12, R10
	ORQ  CX, R10
	JNZ  codes

next:
	TESTQ R9, R9
	JNZ   stop
	MOVQ  R13, R8
	ADDQ  $64, AX
	CMPQ  AX, DX
	JLE   block

done:
	SUBQ  R8, AX // an escape is skipped whole or not at all
	TESTQ CX, CX
	JNZ   back

end:
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET

codes:
	VPBROADCASTB code<>(SB), Y4
	VPCMPEQB     Y4, Y0, Y2
	VPCMPEQB     Y4, Y1, Y3
	MASK(Y2, Y3, BX, R10)
	ANDQ  R11, BX // where codes begin
	ANDNQ R12, BX, R12
	ORQ   R12, R9
	LEAQ (BX)(BX*1), DI
	LEAQ (DI)(DI*1), R12
	ORQ  R12, DI
	LEAQ (DI*4), R12
	ORQ  R12, DI
	ORQ  CX, DI
	MOVQ BX, CX
	SHRQ $60, CX
	MOVQ CX, R12
	SHRQ $1, R12
	ORQ  R12, CX
	MOVQ CX, R12
	SHRQ $2, R12
	ORQ  R12, CX

	VPBROADCASTB zero<>(SB), Y2
	VPBROADCASTB nine<>(SB), Y3
	VPBROADCASTB lowerCase<>(SB), Y4
	VPBROADCASTB letterA<>(SB), Y5
	VPBROADCASTB five<>(SB), Y6
	HEX(Y0, Y7, Y8)
	HEX(Y1, Y7, Y8)
	MASK(Y0, Y1, R12, R10)
	ANDNQ DI, R12, R12
	ORQ   R12, R9
	JMP   next

stop:
	BSFQ R9, R9
	ADDQ R9, AX
	BTQ  R9, DI
	JCS  back
	BTQ  R9, R11 // an escape stops at its backslash
	SBBQ $0, AX
	JMP  end

back: // so does a code
	DECQ AX
	CMPB (SI)(AX*1), $0x5c
	JNE  back
	JMP  end
