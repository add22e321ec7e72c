/* SPDX-License-Identifier: Apache-2.0
 *
 * void *tt_fibre_swap(void **save, void *load, void *carry)
 *
 * Saves the callee-saved registers on the current stack, writes its pointer to *save, and continues on the stack `load`,
 * where a matching call returns `carry`. The floating-point control words are not saved: kernels do not change them.
 */
    .text
    .globl  tt_fibre_swap
    .hidden tt_fibre_swap
    .type   tt_fibre_swap, @function
    .p2align 4
tt_fibre_swap:
    .cfi_startproc
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    movq    %rsp, (%rdi)
    movq    %rsi, %rsp
    /* Both stacks have the same layout here, so the unwind rules above hold on the new one too. */
    movq    %rdx, %rax
    popq    %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq    %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq    %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq    %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size   tt_fibre_swap, . - tt_fibre_swap

/* The first return address of a fibre. %rbx: the entry, %r12: its argument (see fibre.cpp). Ends the unwind. */
    .globl  tt_fibre_begin
    .hidden tt_fibre_begin
    .type   tt_fibre_begin, @function
    .p2align 4
tt_fibre_begin:
    .cfi_startproc
    .cfi_undefined %rip
    xorl    %ebp, %ebp
    movq    %r12, %rdi
    callq   *%rbx
    ud2
    .cfi_endproc
    .size   tt_fibre_begin, . - tt_fibre_begin

    .section .note.GNU-stack, "", @progbits
