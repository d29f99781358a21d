/* dlsym(handle, name) and dlvsym(handle, name, version): asks headgate_decide_dlsym(), then answers or jumps to the real
   function with arguments, stack and return address as its caller left them. */
        .text

        .globl  dlsym
        .type   dlsym, %function
dlsym:
        mov     x2, xzr
        b       .Lask
        .size   dlsym, .-dlsym

        .globl  dlvsym
        .type   dlvsym, %function
dlvsym:
        .cfi_startproc
.Lask:
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset 29, -48
        .cfi_offset 30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x3, x30                 /* the caller's address */
        add     x4, sp, #40             /* where the answer goes */
        bl      headgate_decide_dlsym
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldr     x17, [sp, #40]
        ldp     x29, x30, [sp], #48
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        cbz     x16, .Lanswered
        br      x16
.Lanswered:
        mov     x0, x17
        ret
        .cfi_endproc
        .size   dlvsym, .-dlvsym

        .section .note.GNU-stack, "", %progbits
