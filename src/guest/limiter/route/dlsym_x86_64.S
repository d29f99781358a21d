/* dlsym(handle, name) and dlvsym(handle, name, version): asks headgate_decide_dlsym(), then answers or jumps to the real
   function with arguments, stack and return address as its caller left them. */
        .text

        .globl  dlsym
        .type   dlsym, @function
dlsym:
        .cfi_startproc
        endbr64
        xorl    %edx, %edx
        jmp     .Lask
        .cfi_endproc
        .size   dlsym, .-dlsym

        .globl  dlvsym
        .type   dlvsym, @function
dlvsym:
        .cfi_startproc
        endbr64
.Lask:
        subq    $40, %rsp
        .cfi_adjust_cfa_offset 40
        movq    %rdi, 0(%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    40(%rsp), %rcx          /* the caller's address */
        leaq    24(%rsp), %r8           /* where the answer goes */
        call    headgate_decide_dlsym
        movq    %rax, %r11
        movq    0(%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rax
        addq    $40, %rsp
        .cfi_adjust_cfa_offset -40
        testq   %r11, %r11
        jz      .Lanswered
        jmp     *%r11
.Lanswered:
        ret
        .cfi_endproc
        .size   dlvsym, .-dlvsym

        .section .note.GNU-stack, "", @progbits
