//! The control state of the processor that a function keeps: the control bits of MXCSR, the control
//! word and the empty register stack of the x87 unit, and the direction flag.
//!
//! WINDOWS: a function returns with the control bits of MXCSR and the x87 control word as they were,
//! and with a clear direction flag (documented: x64 calling convention). The x87 and MMX registers
//! are prohibited in kernel mode, so that their stack is empty (documented there, too).
//!
//! Not seen: MMX registers that were used without a change of the top of the register stack.
#![expect(unsafe_code, reason = "reads and writes control registers of the processor")]

use std::arch::asm;

/// The bits of MXCSR that a function keeps: all but the sticky flags of exceptions.
const MXCSR_CONTROL: u32 = 0xffc0;

/// The top of the register stack in the x87 status word.
const X87_TOP: u16 = 0x3800;

/// The direction flag.
const DIRECTION: u64 = 0x400;

/// The control state at the begin or the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ControlState {
    mxcsr: u32,
    x87_control: u16,
    x87_top: u16,
    direction: bool,
}

impl ControlState {
    /// That of this thread.
    #[inline]
    fn read() -> Self {
        let (mut mxcsr, mut x87_control) = (0_u32, 0_u16);
        let (at_mxcsr, at_control) = (&raw mut mxcsr, &raw mut x87_control);
        let (x87_status, flags): (u16, u64);
        // SAFETY: The instructions write the two variables and the outputs only; the stack is used
        // as the compiler expects.
        unsafe {
            asm!(
                "stmxcsr [{mxcsr}]",
                "fnstcw [{control}]",
                "fnstsw ax",
                "pushfq",
                "pop {flags}",
                mxcsr = in(reg) at_mxcsr,
                control = in(reg) at_control,
                flags = lateout(reg) flags,
                lateout("ax") x87_status,
            );
        }
        Self {
            mxcsr: mxcsr & MXCSR_CONTROL,
            x87_control,
            x87_top: x87_status & X87_TOP,
            direction: flags & DIRECTION != 0,
        }
    }

    /// Makes it that of this thread.
    #[cold]
    fn restore(self) {
        let at_mxcsr = &raw const self.mxcsr;
        let at_control = &raw const self.x87_control;
        // SAFETY: The instructions read the two variables; the register stack of the x87 unit is
        // not used across a call, and the direction flag is clear as the compiler expects.
        unsafe {
            asm!(
                "cld",
                "fninit",
                "fldcw [{control}]",
                "ldmxcsr [{mxcsr}]",
                mxcsr = in(reg) at_mxcsr,
                control = in(reg) at_control,
            );
        }
    }
}

/// A call that returned with another control state than it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlChange {
    before: ControlState,
    left: ControlState,
}

impl ControlChange {
    /// The sentence on a component that did this.
    pub fn breach(&self, noun: &str) -> String {
        let Self { before, left } = self;
        let mut parts = Vec::new();
        if before.mxcsr != left.mxcsr {
            let (is, was) = (left.mxcsr, before.mxcsr);
            parts.push(format!("the control bits of MXCSR are {is:#x} and were {was:#x}"));
        }
        if before.x87_control != left.x87_control {
            let (is, was) = (left.x87_control, before.x87_control);
            parts.push(format!("the x87 control word is {is:#x} and was {was:#x}"));
        }
        if before.x87_top != left.x87_top {
            parts.push("the register stack of the x87 unit is not as it was".to_owned());
        }
        if before.direction != left.direction {
            parts.push("the direction flag is set".to_owned());
        }
        let parts = parts.join("; ");
        format!("{noun} returned with another control state of the processor: {parts}")
    }
}

/// Runs code of a driver. If it is one of a file, restores the control state if it has changed.
#[inline]
pub fn keep_control_state<R>(
    is_from_file: bool,
    body: impl FnOnce() -> R,
) -> (R, Option<ControlChange>) {
    if !is_from_file {
        return (body(), None);
    }
    let before = ControlState::read();
    let answer = body();
    // First: our own code relies on the direction flag.
    let left = ControlState::read();
    if left == before {
        return (answer, None);
    }
    before.restore();
    (answer, Some(ControlChange { before, left }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What differs after code that changes the state.
    fn changed(code: fn()) -> String {
        let before = ControlState::read();
        code();
        let left = ControlState::read();
        before.restore();
        assert_eq!(ControlState::read(), before, "the state is restored");
        if left == before { String::new() } else { ControlChange { before, left }.breach("it") }
    }

    #[test]
    fn each_part_of_the_state_is_compared_and_restored() {
        assert_eq!(changed(|| ()), "");
        // SAFETY: The state is restored at once.
        let sticky = || unsafe { asm!("push 0x1fbf", "ldmxcsr [rsp]", "pop rax", out("rax") _) };
        assert_eq!(changed(sticky), "", "the flags of exceptions are not control bits");
        // SAFETY: As above.
        let mxcsr = || unsafe { asm!("push 0x7f80", "ldmxcsr [rsp]", "pop rax", out("rax") _) };
        let expected = "the control bits of MXCSR are 0x7f80 and were 0x1f80";
        assert!(changed(mxcsr).ends_with(expected));
        // SAFETY: As above.
        let control = || unsafe { asm!("push 0x27f", "fldcw [rsp]", "pop rax", out("rax") _) };
        assert!(changed(control).ends_with("the x87 control word is 0x27f and was 0x37f"));
        // SAFETY: As above.
        let stack = || unsafe { asm!("fld1") };
        assert!(changed(stack).ends_with("the register stack of the x87 unit is not as it was"));
        // SAFETY: As above.
        let direction = || unsafe { asm!("std") };
        assert!(changed(direction).ends_with("the direction flag is set"));
    }
}
