/*
 * tests/unit/emu_kernels.h - the PTX kernels of the emulated driver's unit tests.
 */
#ifndef CK_TESTS_EMU_KERNELS_H
#define CK_TESTS_EMU_KERNELS_H

#define EMU_PTX_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define EMU_KERNEL_COUNT 6

/*
 * store(p, value): *p = value.      nothing(): nothing.
 * tile(): 1024 bytes of shared memory, at most 64 threads.
 * bump(): counter += 1 (a variable that starts at 5).
 * spin(p): wait until *p is not 0.  add(p, value): *p += value, one thread at a time.
 */
static const char emu_kernels[] =
	EMU_PTX_HEAD ".visible .global .align 4 .u32 counter = 5;\n"
		     ".visible .entry store(.param .u64 p, .param .u32 value)\n"
		     "{\n"
		     "	.reg .b64 %rd<2>;\n"
		     "	.reg .b32 %r<2>;\n"
		     "	ld.param.u64 %rd1, [p];\n"
		     "	ld.param.u32 %r1, [value];\n"
		     "	st.global.u32 [%rd1], %r1;\n"
		     "	ret;\n"
		     "}\n"
		     ".visible .entry nothing()\n"
		     "{\n"
		     "	ret;\n"
		     "}\n"
		     ".visible .entry tile()\n"
		     ".maxntid 64, 1, 1\n"
		     "{\n"
		     "	.shared .align 4 .b8 room[1024];\n"
		     "	.reg .b32 %r<2>;\n"
		     "	mov.u32 %r1, 1;\n"
		     "	st.shared.u32 [room], %r1;\n"
		     "	ret;\n"
		     "}\n"
		     ".visible .entry bump()\n"
		     "{\n"
		     "	.reg .b32 %r<3>;\n"
		     "	ld.global.u32 %r1, [counter];\n"
		     "	add.s32 %r2, %r1, 1;\n"
		     "	st.global.u32 [counter], %r2;\n"
		     "	ret;\n"
		     "}\n"
		     ".visible .entry spin(.param .u64 p)\n"
		     "{\n"
		     "	.reg .b64 %rd<2>;\n"
		     "	.reg .b32 %r<2>;\n"
		     "	.reg .pred %p<2>;\n"
		     "	ld.param.u64 %rd1, [p];\n"
		     "again:\n"
		     "	ld.volatile.global.u32 %r1, [%rd1];\n"
		     "	setp.eq.s32 %p1, %r1, 0;\n"
		     "	@%p1 bra again;\n"
		     "	ret;\n"
		     "}\n"
		     ".visible .entry add(.param .u64 p, .param .u32 value)\n"
		     "{\n"
		     "	.reg .b64 %rd<2>;\n"
		     "	.reg .b32 %r<4>;\n"
		     "	ld.param.u64 %rd1, [p];\n"
		     "	ld.param.u32 %r1, [value];\n"
		     "	ld.global.u32 %r2, [%rd1];\n"
		     "	add.s32 %r3, %r2, %r1;\n"
		     "	st.global.u32 [%rd1], %r3;\n"
		     "	ret;\n"
		     "}\n";

#endif
