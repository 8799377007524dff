/*
 * loader/stubs/call_routine.S - calls into the MPI half whose arguments need looking at, and no wrapper of
 * their own: lh_routine_arguments changes them, then the call goes on as any other (call.S). How many
 * there are does not matter: those of the longest routine are passed, and what the caller has not set is
 * not looked at.
 *
 * Each routine is "movl $index, %eax; jmp lh_routine" (generated, see write_routines in loader/gen/common.py).
 */
#define WORDS 16 /* on the stack; with the registers, MOST in common.py */

	.text
	.globl	lh_routine
	.hidden	lh_routine
	.type	lh_routine, @function
lh_routine:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rax
	pushq	%rax
	.set	word, WORDS
	.rept	WORDS
	.set	word, word - 1
	pushq	16+8*word(%rbp)
	.endr
	pushq	%r9
	pushq	%r8
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	movl	%eax, %edi
	movq	%rsp, %rsi
	call	lh_routine_arguments
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%r8
	popq	%r9
	movl	-8(%rbp), %eax
	call	lh_call16
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	lh_routine, . - lh_routine

	.section .note.GNU-stack, "", @progbits
