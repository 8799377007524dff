/*
 * loader/entry.S - the ways into the loader: from the kernel, from a patched system call, from a
 * lower half that calls back.
 */
#include <asm/unistd.h>
#include "loader/lhinfo.h"

	.text
	.globl _start
	.type _start, @function
_start:
	xorl	%ebp, %ebp
	movq	%rsp, %rdi
	andq	$-16, %rsp
	call	ck_main
	hlt

/*
 * The registers that a called function must keep are saved on this stack, whose place goes to *rdi;
 * rsi is the next one.
 */
	.macro	leave_stack
	.irp	register, rbp, rbx, r12, r13, r14, r15
	pushq	%\register
	.endr
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	.endm

	.macro	come_back
	.irp	register, r15, r14, r13, r12, rbx, rbp
	popq	%\register
	.endr
	ret
	.endm

/*
 * void ck_switch(uint64_t *save, uint64_t rsp): leaves this stack for another that ck_switch left,
 * or that ck_switch_prepare made. FS is the caller's business.
 */
	.globl ck_switch
	.type ck_switch, @function
ck_switch:
	leave_stack
	come_back

/* void ck_enter_program(uint64_t *save, uint64_t rsp, uint64_t entry): as the kernel starts one. */
	.globl ck_enter_program
	.type ck_enter_program, @function
ck_enter_program:
	leave_stack
	xorl	%ebp, %ebp
	xorl	%edi, %edi
	movq	%rdx, %rax
	xorl	%edx, %edx
	cld
	jmp	*%rax

/*
 * A patched system call comes here, by its stub (patch.c), with
 *   rax number   rcx where to go on   r11 half   and the arguments.
 * rax, rcx and r11 are all that a system call may change. The red zone is the caller's.
 */
	.globl ck_hook_entry
	.type ck_hook_entry, @function
ck_hook_entry:
	leaq	-128(%rsp), %rsp
	pushq	%rcx
	pushq	%rbx
	pushq	%r9
	pushq	%r8
	pushq	%r10
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	movq	%rsp, %rbx
	movq	%rsp, %rdx		/* the arguments, in order */
	movq	%rax, %rdi
	movl	%r11d, %esi
	andq	$-16, %rsp
	cld
	call	ck_hook
	movq	%rbx, %rsp
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%r10
	popq	%r8
	popq	%r9
	popq	%rbx
	popq	%rcx
	leaq	128(%rsp), %rsp
	jmp	*%rcx

/* One signal handler for each half: the kernel gets it in place of the half's own. */
	.balign 16
	.globl ck_signal_entries
ck_signal_entries:
	.set	half, 0
	.rept	LHINFO_HALVES
	.balign	16
	movl	$half, %ecx
	jmp	ck_signal
	.set	half, half + 1
	.endr

/* The functions that lower halves may call: each is its number. */
	.balign	16
	.globl ck_callback_entries
ck_callback_entries:
	.set	number, 0
	.rept	4096
	.balign	16
	movl	$number, %r11d
	jmp	callback_common
	.set	number, number + 1
	.endr

/* long ck_callback(const struct call *call), which is laid out as the stack is here. */
callback_common:
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%r11
	pushq	%r9
	pushq	%r8
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	movq	%rsp, %rdi
	andq	$-16, %rsp
	call	ck_callback
	leave
	ret

	.section .note.GNU-stack, "", @progbits
