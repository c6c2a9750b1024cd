//! Calls of our functions from a thunk, between a driver's call of an import and the import.

/// Defines a function that a thunk calls before the import. It passes r11 on to a function of ours.
/// All registers stay as they are, except for the flags: the import gets its arguments in them.
macro_rules! called_by_thunk {
    ($(#[$attribute:meta])* $name:ident, $function:ident) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub(super) extern "win64" fn $name() {
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "and rsp, -16",
                "sub rsp, 192",
                "movups [rsp + 32], xmm0",
                "movups [rsp + 48], xmm1",
                "movups [rsp + 64], xmm2",
                "movups [rsp + 80], xmm3",
                "movups [rsp + 96], xmm4",
                "movups [rsp + 112], xmm5",
                "mov [rsp + 128], rax",
                "mov [rsp + 136], rcx",
                "mov [rsp + 144], rdx",
                "mov [rsp + 152], r8",
                "mov [rsp + 160], r9",
                "mov [rsp + 168], r10",
                "mov [rsp + 176], r11",
                "mov rcx, r11",
                "call {function}",
                "movups xmm0, [rsp + 32]",
                "movups xmm1, [rsp + 48]",
                "movups xmm2, [rsp + 64]",
                "movups xmm3, [rsp + 80]",
                "movups xmm4, [rsp + 96]",
                "movups xmm5, [rsp + 112]",
                "mov rax, [rsp + 128]",
                "mov rcx, [rsp + 136]",
                "mov rdx, [rsp + 144]",
                "mov r8, [rsp + 152]",
                "mov r9, [rsp + 160]",
                "mov r10, [rsp + 168]",
                "mov r11, [rsp + 176]",
                "leave",
                "ret",
                function = sym $function,
            );
        }
    };
}
pub(super) use called_by_thunk;
