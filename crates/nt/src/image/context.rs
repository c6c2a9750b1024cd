//! The registers of a thread (`CONTEXT` of x64), and switching to them.
#![expect(unsafe_code, reason = "changes the registers of the running code")]

use std::arch::naked_asm;
use std::mem::offset_of;

/// The index of a general register in [`Context::general`].
pub(super) const RAX: usize = 0;
/// As above.
pub(super) const RSP: usize = 4;
/// As above.
pub(super) const RBP: usize = 5;

/// `CONTEXT` of x64.
///
/// WINDOWS: the layout is documented.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct Context {
    home: [u64; 6],
    pub(super) flags: u32,
    pub(super) mxcsr: u32,
    segments: [u16; 6],
    pub(super) eflags: u32,
    debug: [u64; 6],
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub(super) general: [u64; 16],
    pub(super) rip: u64,
    float_head: [u64; 4],
    float: [u128; 8],
    pub(super) xmm: [u128; 16],
    float_rest: [u64; 12],
    vector: [u128; 26],
    vector_control: [u64; 6],
}

const _: () = {
    assert!(size_of::<Context>() == 0x4d0);
    assert!(offset_of!(Context, flags) == 0x30);
    assert!(offset_of!(Context, eflags) == 0x44);
    assert!(offset_of!(Context, general) == 0x78);
    assert!(offset_of!(Context, rip) == 0xf8);
    assert!(offset_of!(Context, xmm) == 0x1a0);
};

impl Context {
    pub(super) const ZERO: Self = Self {
        home: [0; 6],
        flags: 0x0010_000f, // CONTEXT_AMD64 with all but the debug registers.
        mxcsr: 0x1f80,
        segments: [0; 6],
        eflags: 0x202,
        debug: [0; 6],
        general: [0; 16],
        rip: 0,
        float_head: [0; 4],
        float: [0; 8],
        xmm: [0; 16],
        float_rest: [0; 12],
        vector: [0; 26],
        vector_control: [0; 6],
    };
}

/// Goes on with these registers.
///
/// # Safety
///
/// The registers are those of code that can go on, and no frame between it and this call is needed
/// any more.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn go_on(context: *const Context) -> ! {
    naked_asm!(
        "mov rcx, rdi",
        "movaps xmm0, [rcx + 0x1a0]",
        "movaps xmm1, [rcx + 0x1b0]",
        "movaps xmm2, [rcx + 0x1c0]",
        "movaps xmm3, [rcx + 0x1d0]",
        "movaps xmm4, [rcx + 0x1e0]",
        "movaps xmm5, [rcx + 0x1f0]",
        "movaps xmm6, [rcx + 0x200]",
        "movaps xmm7, [rcx + 0x210]",
        "movaps xmm8, [rcx + 0x220]",
        "movaps xmm9, [rcx + 0x230]",
        "movaps xmm10, [rcx + 0x240]",
        "movaps xmm11, [rcx + 0x250]",
        "movaps xmm12, [rcx + 0x260]",
        "movaps xmm13, [rcx + 0x270]",
        "movaps xmm14, [rcx + 0x280]",
        "movaps xmm15, [rcx + 0x290]",
        "mov rax, [rcx + 0x78]",
        "mov rdx, [rcx + 0x88]",
        "mov rbx, [rcx + 0x90]",
        "mov rbp, [rcx + 0xa0]",
        "mov rsi, [rcx + 0xa8]",
        "mov rdi, [rcx + 0xb0]",
        "mov r8, [rcx + 0xb8]",
        "mov r9, [rcx + 0xc0]",
        "mov r10, [rcx + 0xc8]",
        "mov r11, [rcx + 0xd0]",
        "mov r12, [rcx + 0xd8]",
        "mov r13, [rcx + 0xe0]",
        "mov r14, [rcx + 0xe8]",
        "mov r15, [rcx + 0xf0]",
        // Code of an image keeps nothing below its stack pointer.
        "mov rsp, [rcx + 0x98]",
        "push qword ptr [rcx + 0xf8]",
        "push qword ptr [rcx + 0x44]", // The flags, and zeros above them.
        "popfq",
        "mov rcx, [rcx + 0x80]",
        "ret",
    )
}

/// A function that raises: it is entered with the registers of its caller, which are captured, and
/// passes them with the caller's first three arguments to `$raise`. If that returns, the caller goes
/// on with its result.
macro_rules! raising_entry {
    ($(#[$doc:meta])* $name:ident => $raise:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "win64" fn $name(first: usize, second: usize, third: usize) -> usize {
            std::arch::naked_asm!(
                // Room for a context, aligned: at entry rsp is 8 below a multiple of 16.
                "sub rsp, 0x4d8",
                "mov [rsp + 0x78], rax",
                "mov [rsp + 0x80], rcx",
                "mov [rsp + 0x88], rdx",
                "mov [rsp + 0x90], rbx",
                "lea rax, [rsp + 0x4e0]",
                "mov [rsp + 0x98], rax",
                "mov [rsp + 0xa0], rbp",
                "mov [rsp + 0xa8], rsi",
                "mov [rsp + 0xb0], rdi",
                "mov [rsp + 0xb8], r8",
                "mov [rsp + 0xc0], r9",
                "mov [rsp + 0xc8], r10",
                "mov [rsp + 0xd0], r11",
                "mov [rsp + 0xd8], r12",
                "mov [rsp + 0xe0], r13",
                "mov [rsp + 0xe8], r14",
                "mov [rsp + 0xf0], r15",
                "mov rax, [rsp + 0x4d8]",
                "mov [rsp + 0xf8], rax",
                "movaps [rsp + 0x200], xmm6",
                "movaps [rsp + 0x210], xmm7",
                "movaps [rsp + 0x220], xmm8",
                "movaps [rsp + 0x230], xmm9",
                "movaps [rsp + 0x240], xmm10",
                "movaps [rsp + 0x250], xmm11",
                "movaps [rsp + 0x260], xmm12",
                "movaps [rsp + 0x270], xmm13",
                "movaps [rsp + 0x280], xmm14",
                "movaps [rsp + 0x290], xmm15",
                "pushfq",
                "pop rax",
                "mov [rsp + 0x44], eax",
                "mov dword ptr [rsp + 0x30], 0x10000f",
                "mov rdi, rsp",
                "mov rsi, rcx",
                // rdx is the second argument in both conventions.
                "mov rcx, r8",
                "call {raise}",
                // The registers that a callee keeps on Windows and not on Linux.
                "movaps xmm6, [rsp + 0x200]",
                "movaps xmm7, [rsp + 0x210]",
                "movaps xmm8, [rsp + 0x220]",
                "movaps xmm9, [rsp + 0x230]",
                "movaps xmm10, [rsp + 0x240]",
                "movaps xmm11, [rsp + 0x250]",
                "movaps xmm12, [rsp + 0x260]",
                "movaps xmm13, [rsp + 0x270]",
                "movaps xmm14, [rsp + 0x280]",
                "movaps xmm15, [rsp + 0x290]",
                "mov rsi, [rsp + 0xa8]",
                "mov rdi, [rsp + 0xb0]",
                "add rsp, 0x4d8",
                "ret",
                raise = sym $raise,
            )
        }
    };
}
pub(super) use raising_entry;
