/* SPDX-License-Identifier: Apache-2.0
 *
 * void *tt_fibre_swap(void **save, void *load, void *carry)
 *
 * Saves the callee-saved registers on the current stack, writes its pointer to *save, and continues on the stack `load`,
 * where a matching call returns `carry`. FPCR is not saved: kernels do not change it.
 */
    .text
    .globl  tt_fibre_swap
    .hidden tt_fibre_swap
    .type   tt_fibre_swap, %function
    .p2align 4
tt_fibre_swap:
    .cfi_startproc
    sub     sp, sp, #160
    .cfi_adjust_cfa_offset 160
    stp     x29, x30, [sp, #0]
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp     x19, x20, [sp, #16]
    .cfi_rel_offset x19, 16
    .cfi_rel_offset x20, 24
    stp     x21, x22, [sp, #32]
    .cfi_rel_offset x21, 32
    .cfi_rel_offset x22, 40
    stp     x23, x24, [sp, #48]
    .cfi_rel_offset x23, 48
    .cfi_rel_offset x24, 56
    stp     x25, x26, [sp, #64]
    .cfi_rel_offset x25, 64
    .cfi_rel_offset x26, 72
    stp     x27, x28, [sp, #80]
    .cfi_rel_offset x27, 80
    .cfi_rel_offset x28, 88
    stp     d8, d9, [sp, #96]
    stp     d10, d11, [sp, #112]
    stp     d12, d13, [sp, #128]
    stp     d14, d15, [sp, #144]
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    /* Both stacks have the same layout here, so the unwind rules above hold on the new one too. */
    mov     x0, x2
    ldp     d14, d15, [sp, #144]
    ldp     d12, d13, [sp, #128]
    ldp     d10, d11, [sp, #112]
    ldp     d8, d9, [sp, #96]
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp, #0]
    add     sp, sp, #160
    .cfi_adjust_cfa_offset -160
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size   tt_fibre_swap, . - tt_fibre_swap

/* The first return address of a fibre. x19: the entry, x20: its argument (see fibre.cpp). Ends the unwind. */
    .globl  tt_fibre_begin
    .hidden tt_fibre_begin
    .type   tt_fibre_begin, %function
    .p2align 4
tt_fibre_begin:
    .cfi_startproc
    .cfi_undefined x30
    mov     x29, xzr
    mov     x0, x20
    blr     x19
    brk     #1
    .cfi_endproc
    .size   tt_fibre_begin, . - tt_fibre_begin

    .section .note.GNU-stack, "", %progbits
