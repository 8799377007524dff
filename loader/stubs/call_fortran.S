/*
 * loader/stubs/call_fortran.S - from a Fortran program into the MPI half: lh_fortran_arguments sees and
 * changes the arguments, then the call goes on as one of C (call.S). The number of arguments does not
 * matter: those of the longest routine are passed, and what the caller has not set is not looked at.
 *
 * Each routine is "movl $index, %eax; jmp lh_fortran" (generated, see loader/gen/mpi_fortran.py).
 */
#define WORDS 16 /* on the stack; with the registers, MOST in mpi_fortran.py */

	.text
	.globl	lh_fortran
	.hidden	lh_fortran
	.type	lh_fortran, @function
lh_fortran:
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
	call	lh_fortran_arguments
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
	.size	lh_fortran, . - lh_fortran

	.section .note.GNU-stack, "", @progbits
