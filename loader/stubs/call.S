/*
 * loader/stubs/call.S - from the application into a lower half: the function is looked up in the half's
 * table, FS becomes the lower half's for the call, and the application's again.
 *
 * Each function of a stub is "movl $index, %eax; jmp lh_callN", N words of arguments being on the
 * stack (generated, see loader/gen). Arguments and results in registers pass untouched, so this
 * serves any signature without a varying number of arguments.
 *
 *	-8(%rbp)	index
 *	%r10		the function
 *	%r11		FS in the lower half
 */
#include "loader/lhinfo.h"

#define SYS_arch_prctl 158
#define ARCH_SET_FS 0x1002
#define SELF %fs:0x10	/* a thread block's own address, the FS that it belongs to */

	/* r10 and r11, or away to slow */
	.macro	look_up
	movq	lh_half_at(%rip), %r10
	testq	%r10, %r10
	jz	1f
	movq	LHINFO_HALF_TABLE(%r10), %r10
	testq	%r10, %r10
	jz	1f
	movq	(%r10,%rax,8), %r10
	testq	%r10, %r10
	jz	1f
	movq	SELF, %r11
	cmpq	%gs:LHTHREAD_FS, %r11
	jne	1f
	movl	lh_fs_offset(%rip), %eax
	movq	%gs:(%rax), %r11
	testq	%r11, %r11
	jnz	2f
1:	call	slow
	testl	%eax, %eax
	jz	failed
2:
	.endm

	.macro	call_with words
	.globl	lh_call\words
	.hidden	lh_call\words
	.type	lh_call\words, @function
lh_call\words:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rax
	.if	(\words % 2) == 0
	pushq	%rax
	.endif
	look_up
	.set	word, \words
	.rept	\words
	.set	word, word - 1
	pushq	16+8*word(%rbp)
	.endr
	cmpb	$0, lh_fsgsbase(%rip)
	jz	3f
	wrfsbase %r11
	call	*%r10
	movq	%gs:LHTHREAD_FS, %r11
	wrfsbase %r11
	leave
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
3:	call	set_fs
	call	*%r10
	movq	%gs:LHTHREAD_FS, %r11
	call	set_fs
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	lh_call\words, . - lh_call\words
	.endm

	.text
	.irp	words, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
	call_with \words
	.endr

/* The call cannot be made: lh_failed's answer is the function's. */
	.type failed, @function
failed:
	movq	-8(%rbp), %rdi
	andq	$-16, %rsp
	call	lh_failed
	leave
	ret

/* Where the kernel does not let user code write FS: r11 by a system call. Keeps all registers but r11. */
	.type set_fs, @function
set_fs:
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	movl	$ARCH_SET_FS, %edi
	movq	%r11, %rsi
	movl	$SYS_arch_prctl, %eax
	syscall
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rax
	ret

/*
 * The thread has no block in the half yet: lh_enter gets one. Keeps the arguments. eax 0: there is
 * none, or no such function.
 */
	.type slow, @function
slow:
	pushq	%rbx
	movq	%rsp, %rbx
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	subq	$144, %rsp
	andq	$-16, %rsp
	movaps	%xmm0, (%rsp)
	movaps	%xmm1, 16(%rsp)
	movaps	%xmm2, 32(%rsp)
	movaps	%xmm3, 48(%rsp)
	movaps	%xmm4, 64(%rsp)
	movaps	%xmm5, 80(%rsp)
	movaps	%xmm6, 96(%rsp)
	movaps	%xmm7, 112(%rsp)
	movq	-8(%rbp), %rdi
	leaq	128(%rsp), %rsi
	call	lh_enter
	movq	128(%rsp), %r10
	movq	136(%rsp), %r11
	movaps	(%rsp), %xmm0
	movaps	16(%rsp), %xmm1
	movaps	32(%rsp), %xmm2
	movaps	48(%rsp), %xmm3
	movaps	64(%rsp), %xmm4
	movaps	80(%rsp), %xmm5
	movaps	96(%rsp), %xmm6
	movaps	112(%rsp), %xmm7
	movq	-8(%rbx), %rdi
	movq	-16(%rbx), %rsi
	movq	-24(%rbx), %rdx
	movq	-32(%rbx), %rcx
	movq	-40(%rbx), %r8
	movq	-48(%rbx), %r9
	movq	%rbx, %rsp
	popq	%rbx
	ret

	.section .note.GNU-stack, "", @progbits
