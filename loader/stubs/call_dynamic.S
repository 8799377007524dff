/*
 * loader/stubs/call_dynamic.S - a call of a function without a name: lh_convert checks the
 * arguments in registers, then the call continues like any other.
 */
	.text
	.globl	lh_call_dynamic
	.hidden	lh_call_dynamic
	.type	lh_call_dynamic, @function
lh_call_dynamic:
	.cfi_startproc
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	pushq	%r9
	.cfi_adjust_cfa_offset 8
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	movq	%rsp, %rdi
	call	lh_convert
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%r8
	.cfi_adjust_cfa_offset -8
	popq	%r9
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	jmp	lh_call16
	.cfi_endproc
	.size	lh_call_dynamic, . - lh_call_dynamic

	.section .note.GNU-stack, "", @progbits
