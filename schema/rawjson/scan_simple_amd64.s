//go:build gc && !purego && !race && !msan && !asan

#include "textflag.h"

// Bytes that stand 32 times in a register.
DATA quote<>+0(SB)/1, $0x22
GLOBL quote<>(SB), RODATA|NOPTR, $1
DATA backslash<>+0(SB)/1, $0x5c
GLOBL backslash<>(SB), RODATA|NOPTR, $1
DATA lastControl<>+0(SB)/1, $0x1f
GLOBL lastControl<>(SB), RODATA|NOPTR, $1
DATA lowHalf<>+0(SB)/1, $0x0f
GLOBL lowHalf<>(SB), RODATA|NOPTR, $1

// A character is a simple escape, one of "\/bfnrt, where the entries of its lower and its upper
// half have a bit in common. The bits stand for the upper halves 2, 5, 6 and 7.
DATA lower<>+0(SB)/8, $0x00040008000d0000
DATA lower<>+8(SB)/8, $0x0104000200000000
GLOBL lower<>(SB), RODATA|NOPTR, $16
DATA upper<>+0(SB)/8, $0x0804020000010000
DATA upper<>+8(SB)/8, $0x0000000000000000
GLOBL upper<>(SB), RODATA|NOPTR, $16

// func skipSimpleAVX2(text []byte) int
//
// Each bit of a mask is one byte of the block. Carry is 1 where the block's first byte is escaped.
TEXT ·skipSimpleAVX2(SB), NOSPLIT, $0-32
	MOVQ text_base+0(FP), SI
	MOVQ text_len+8(FP), DX
	XORQ AX, AX // what was skipped
	XORL R8, R8 // carry
	SUBQ $32, DX
	JLT  done

	VPBROADCASTB   quote<>(SB), Y10
	VPBROADCASTB   backslash<>(SB), Y11
	VPBROADCASTB   lastControl<>(SB), Y12
	VPBROADCASTB   lowHalf<>(SB), Y13
	VBROADCASTI128 lower<>(SB), Y14
	VBROADCASTI128 upper<>(SB), Y15
	VPXOR          Y9, Y9, Y9

block:
	VMOVDQU   (SI)(AX*1), Y0
	VPCMPEQB  Y10, Y0, Y1
	VPMINUB   Y12, Y0, Y2
	VPCMPEQB  Y0, Y2, Y2
	VPOR      Y2, Y1, Y1
	VPMOVMSKB Y1, R9  // quotes and control characters
	VPCMPEQB  Y11, Y0, Y3
	VPMOVMSKB Y3, R10 // backslashes
	MOVL      R10, R11
	ORL       R8, R11
	JNZ       escapes
	TESTL     R9, R9
	JNZ       stop

next:
	ADDQ $32, AX
	CMPQ AX, DX
	JLE  block

done:
	SUBQ R8, AX // an escape is skipped whole or not at all
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET

escapes:
	// Of each run of backslashes, the first escapes what follows, so the second does not, and
	// so on. Subtracting finds every second one at once, by what it carries through a run.
	MOVL R8, R12
	NOTL R12
	ANDL R10, R12        // backslashes, but an escaped one at the begin
	LEAL (R12)(R12*1), R13
	ORL  $0xaaaaaaaa, R13
	SUBL R12, R13
	XORL $0xaaaaaaaa, R13 // backslashes that escape, and what is behind a run
	XORL R13, R11        // what is escaped
	ANDL R10, R13
	SHRL $31, R13        // the next carry

	// What is escaped and no simple escape.
	VPSHUFB   Y0, Y14, Y5
	VPSRLW    $4, Y0, Y6
	VPAND     Y13, Y6, Y6
	VPSHUFB   Y6, Y15, Y6
	VPAND     Y5, Y6, Y6
	VPCMPEQB  Y9, Y6, Y6
	VPMOVMSKB Y6, R12
	ANDL      R11, R12

	MOVL R11, BX
	NOTL BX
	ANDL BX, R9
	ORL  R12, R9
	JNZ  stopEscaped
	MOVL R13, R8
	JMP  next

stop:
	BSFL R9, R9
	ADDQ R9, AX
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET

stopEscaped:
	BSFL R9, R9
	ADDQ R9, AX
	BTL  R9, R11 // an escape stops at its backslash
	SBBQ $0, AX
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET
