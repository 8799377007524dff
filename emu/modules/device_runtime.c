/*
 * emu/modules/device_runtime.c - the device runtime library: how it is recognised, and its
 * replacement.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#include "emu/modules/device_runtime.h"
#include "util/util.h"

#define MAGIC "!<arch>\n"
#define MEMBER "cuda_device_runtime.o"
#define HEADER 60 /* bytes before a member: its name first, its size in decimal at 48 */

/*
 * The barrier is the one that cooperative_groups.h makes in the same workspace, so that a program
 * may use both. Thread 0 of each block adds to the word behind the first; all additions of a phase
 * make 2^31, and a block continues when the highest bit has changed. The fences keep the library's
 * promise that writes before the barrier are visible behind it.
 */
const char ck_emu_device_runtime[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".weak .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)\n{\n"
	".reg .b32 %r<4>;\n.reg .b64 %h;\n.reg .pred %p;\n"
	"ld.param.u32 %r0, [scope];\n"
	"mov.u32 %r1, %envreg2;\nmov.u32 %r2, %envreg1;\nmov.b64 %h, {%r1, %r2};\n"
	"setp.ne.u32 %p, %r0, 1;\n" /* cudaCGScopeGrid is all there is */
	"@%p mov.u64 %h, 0;\n"
	"st.param.b64 [result], %h;\nret;\n}\n"
	".weak .func (.param .b32 result) "
	"cudaCGSynchronize(.param .b64 handle, .param .b32 flags)\n{\n"
	".reg .b32 %r<9>;\n.reg .b64 %h;\n.reg .pred %p<3>;\n"
	"ld.param.u64 %h, [handle];\n"
	"mov.u32 %r0, 1;\n" /* cudaErrorInvalidValue: not a cooperative launch */
	"setp.eq.u64 %p0, %h, 0;\n@%p0 bra DONE;\n"
	"barrier.sync 0;\n"
	"mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nor.b32 %r1, %r1, %r2;\n"
	"mov.u32 %r2, %tid.z;\nor.b32 %r1, %r1, %r2;\n"
	"setp.ne.u32 %p1, %r1, 0;\n@%p1 bra MEET;\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ctaid.y;\nor.b32 %r1, %r1, %r2;\n"
	"mov.u32 %r2, %ctaid.z;\nor.b32 %r1, %r1, %r2;\n"
	"mov.u32 %r3, %nctaid.x;\nmov.u32 %r4, %nctaid.y;\nmul.lo.u32 %r3, %r3, %r4;\n"
	"mov.u32 %r4, %nctaid.z;\nmul.lo.u32 %r3, %r3, %r4;\n"
	"sub.u32 %r3, 0x80000001, %r3;\n" /* 2^31 less the ones of the other blocks */
	"setp.eq.u32 %p2, %r1, 0;\nselp.b32 %r5, %r3, 1, %p2;\n"
	"membar.gl;\n"
	"atom.global.add.u32 %r6, [%h+4], %r5;\n"
	"WAIT:\nld.volatile.global.u32 %r7, [%h+4];\n"
	"xor.b32 %r7, %r7, %r6;\nsetp.ge.s32 %p2, %r7, 0;\n@%p2 bra WAIT;\n"
	"membar.gl;\n"
	"MEET:\nbarrier.sync 0;\nmov.u32 %r0, 0;\n"
	"DONE:\nst.param.b32 [result], %r0;\nret;\n}\n";

/* The member's size, or SIZE_MAX for text that is no number. */
static size_t member_size(const char *header)
{
	size_t size = 0;

	for (int i = 48; i < 58 && header[i] != ' '; i++) {
		if (header[i] < '0' || header[i] > '9')
			return SIZE_MAX;
		size = 10 * size + (size_t)(header[i] - '0');
	}
	return size;
}

/*
 * A name of more than 15 bytes stands in the member "//", each ended by "/\n"; so it is enough to
 * look there.
 */
bool ck_emu_is_device_runtime(const void *data, size_t size)
{
	const char *at = data, *end = at + size;

	if (size < strlen(MAGIC) || memcmp(at, MAGIC, strlen(MAGIC)) != 0)
		return false;
	at += strlen(MAGIC);
	while ((size_t)(end - at) >= HEADER) {
		size_t bytes = member_size(at);

		if (bytes > (size_t)(end - at) - HEADER)
			return false;
		if (memcmp(at, "// ", 3) == 0)
			return memmem(at + HEADER, bytes, MEMBER "/", strlen(MEMBER "/")) != NULL;
		bytes += bytes & 1; /* members begin at even offsets */
		at += HEADER + ck_min(bytes, (size_t)(end - at) - HEADER);
	}
	return false;
}
