//! The code between a driver's import and our function.
//!
//! A thunk records the return address, the stack pointer, the frame pointer and the number of the
//! import in the processor block, then jumps to the function. So an event or a fault in our function
//! has the place in the driver that called it.
//!
//! Before the jump, if the stack pointer is lower than at any call before, the use of the stack is
//! measured; then the IRQL is compared with the limits of the import, and [`irql_breach`] is called
//! if it is outside.
#![cfg_attr(test, expect(unsafe_code, reason = "a test calls thunks by their addresses"))]

use super::load::Binding;
use super::mapping::{Mapping, Protection};
use super::parse::ImageError;
use super::processor_block::{
    CALLER, CALLER_FRAME, CALLER_STACK, IMPORT_NUMBER, IRQL, LOWEST_CALL, ProcessorBlock,
};
use super::stack_use::{call_is_lower, frame_is_lower};
use super::thunk_call::called_by_thunk;
use crate::crt_memory::__chkstk;
use crate::entry::judge_in_thunk;
use crate::import_irql::ImportIrql;

/// The room for one thunk.
const THUNK: usize = 160;

/// The thunks of an image.
#[derive(Debug)]
pub(super) struct Thunks(Mapping);

impl Thunks {
    /// Writes a thunk for each import that is a function.
    pub(super) fn new(bindings: &[Binding]) -> Result<Self, ImageError> {
        let mapping = Mapping::new((bindings.len() * THUNK).max(1))?;
        for (number, binding) in bindings.iter().enumerate() {
            if let Binding::Function { address, irql } = binding {
                mapping.write(number * THUNK, &code(number, *address, *irql));
            }
        }
        mapping.protect(0..mapping.range().len(), Protection::Execute)?;
        Ok(Self(mapping))
    }

    /// The address of a thunk.
    pub(super) fn address(&self, number: usize) -> usize {
        self.0.start() + number * THUNK
    }
}

/// The code of a thunk. It changes r11 and the flags only, which a caller does not rely on, not even
/// that of `__chkstk`.
fn code(number: usize, target: usize, irql: Option<&'static ImportIrql>) -> Vec<u8> {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mut code = Vec::with_capacity(THUNK);
    code.extend([0x4c, 0x8b, 0x1c, 0x24]); // mov r11, [rsp]
    code.extend([0x65, 0x4c, 0x89, 0x1c, 0x25]); // mov gs:[CALLER], r11
    code.extend(CALLER.to_le_bytes());
    code.extend([0x65, 0x48, 0x89, 0x24, 0x25]); // mov gs:[CALLER_STACK], rsp
    code.extend(CALLER_STACK.to_le_bytes());
    code.extend([0x65, 0x48, 0x89, 0x2c, 0x25]); // mov gs:[CALLER_FRAME], rbp
    code.extend(CALLER_FRAME.to_le_bytes());
    code.extend([0x65, 0xc7, 0x04, 0x25]); // mov dword gs:[IMPORT_NUMBER], number
    code.extend(IMPORT_NUMBER.to_le_bytes());
    code.extend(number.to_le_bytes());
    // A probe has the size of a frame in rax.
    let measure = if target == (__chkstk as *const ()).addr() {
        code.extend([0x49, 0x89, 0xe3]); // mov r11, rsp
        code.extend([0x49, 0x29, 0xc3]); // sub r11, rax
        code.extend([0x65, 0x4c, 0x3b, 0x1c, 0x25]); // cmp r11, gs:[LOWEST_CALL]
        frame_is_lower as *const ()
    } else {
        code.extend([0x65, 0x48, 0x3b, 0x24, 0x25]); // cmp rsp, gs:[LOWEST_CALL]
        call_is_lower as *const ()
    };
    code.extend(LOWEST_CALL.to_le_bytes());
    code.extend([0x73, 6]); // jae over the call
    let judge = irql.filter(|irql| irql.is_judged()).map(judge_code).unwrap_or_default();
    // call [rip + what is between here and the address behind the target]
    code.extend([0xff, 0x15, 14 + u8::try_from(judge.len()).unwrap_or(0), 0, 0, 0]);
    code.extend(judge);
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
    code.extend(target.to_le_bytes());
    code.extend(measure.expose_provenance().to_le_bytes());
    code
}

/// Compares the IRQL with the limits of an import, and judges a call outside of them.
fn judge_code(irql: &'static ImportIrql) -> Vec<u8> {
    /// `mov r11, row; call [rip + 2]; jmp behind the address of the function that is called`.
    const JUDGE: u8 = 10 + 6 + 2 + 8;
    let mut code = Vec::new();
    let (lowest, highest) = irql.limits();
    let compare = |code: &mut Vec<u8>, limit: u8, jump: [u8; 2]| {
        code.extend([0x65, 0x83, 0x3c, 0x25]); // cmp dword gs:[IRQL], limit
        code.extend(IRQL.to_le_bytes());
        code.push(limit);
        code.extend(jump);
    };
    // At a level that is too low, the second comparison is skipped.
    if lowest > 0 {
        compare(&mut code, lowest, [0x72, 11]); // jb judge
    }
    compare(&mut code, highest, [0x76, JUDGE]); // jbe go
    code.extend([0x49, 0xbb]); // judge: mov r11, row
    code.extend(std::ptr::from_ref(irql).expose_provenance().to_le_bytes());
    code.extend([0xff, 0x15, 2, 0, 0, 0]); // call [rip + 2]
    code.extend([0xeb, 8]); // jmp go
    code.extend((irql_breach as *const ()).expose_provenance().to_le_bytes());
    code // go:
}

called_by_thunk! {
    /// Judges a call, with the row in r11.
    irql_breach, judge
}

extern "win64" fn judge(row: &'static ImportIrql) {
    if let Some(block) = ProcessorBlock::existing() {
        judge_in_thunk(row, block.irql());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import_irql::irql_of;
    use crate::import_table::imports;
    use crate::processor::set_irql_number;
    use crate::testing::{broken_rules, fly_with};

    type Function = extern "win64" fn(u64, f64, u64, f64, u64, f64) -> f64;

    /// Stands for any import. Its arguments are in registers of both kinds and on the stack.
    extern "win64" fn target(
        in_rcx: u64,
        in_xmm1: f64,
        in_r8: u64,
        in_xmm3: f64,
        fifth: u64,
        sixth: f64,
    ) -> f64 {
        let integers = [in_rcx, in_r8, fifth].map(|value| f64::from(u32::try_from(value).unwrap()));
        integers.iter().sum::<f64>() * 1000.0 + in_xmm1 + in_xmm3 + sixth
    }

    /// The rules that a call at an IRQL breaks, through the thunk of an import.
    fn call_at(irql: u8, thunks: &Thunks, number: usize) -> Vec<String> {
        let address = std::ptr::with_exposed_provenance::<()>(thunks.address(number));
        // SAFETY: The thunk jumps to `target`, which has this type.
        let function: Function = unsafe { std::mem::transmute(address) };
        fly_with(0, |host, log, _| {
            ProcessorBlock::of_this_thread();
            crate::processor::run_driver(host, log, || {
                ProcessorBlock::of_this_thread().set_irql(0);
                set_irql_number(irql);
                let sum = function(1, 0.5, 2, 0.25, 4, 0.125);
                assert!((sum - 7000.875).abs() < 1e-9, "the thunk changed an argument: {sum}");
                set_irql_number(0);
            });
            broken_rules(log)
        })
    }

    #[test]
    fn each_import_is_accused_one_level_outside_its_limits_and_not_at_them() {
        let functions: Vec<&str> =
            imports().filter(|import| !import.is_variable).map(|import| import.name).collect();
        let address = (target as *const ()).expose_provenance();
        let binding = |name: &&str| Binding::Function { address, irql: irql_of(name) };
        let bindings: Vec<Binding> = functions.iter().map(binding).collect();
        let thunks = Thunks::new(&bindings).unwrap();
        let mut judged = 0;
        for (number, name) in functions.iter().enumerate() {
            let (lowest, highest) = irql_of(name).unwrap().limits();
            for irql in [lowest, highest] {
                assert_eq!(call_at(irql, &thunks, number), Vec::<String>::new(), "{name}");
            }
            let below = lowest.checked_sub(1);
            let above = (highest < 15).then_some(highest + 1);
            for irql in below.into_iter().chain(above) {
                let found = call_at(irql, &thunks, number);
                let is_named = found.len() == 1
                    && found[0].contains("WT-LEVEL-001")
                    && found[0].contains(&format!("{name} was called at"));
                assert!(is_named, "{name} at IRQL {irql}: {found:?}");
                judged += 1;
            }
        }
        assert!(judged > 250, "{judged} limits are judged");
    }

    #[test]
    fn a_function_that_judges_itself_is_not_accused_twice() {
        let address = (crate::zw::ZwClose as *const ()).expose_provenance();
        let binding = Binding::Function { address, irql: irql_of("ZwClose") };
        let thunks = Thunks::new(&[binding]).unwrap();
        let address = std::ptr::with_exposed_provenance::<()>(thunks.address(0));
        // SAFETY: The thunk jumps to `ZwClose`, which takes and returns an integer.
        let close: extern "win64" fn(usize) -> i32 = unsafe { std::mem::transmute(address) };
        fly_with(0, |host, log, _| {
            ProcessorBlock::of_this_thread();
            crate::processor::run_driver(host, log, || {
                set_irql_number(2);
                close(0);
                close(0);
                set_irql_number(0);
            });
            assert_eq!(broken_rules(log).len(), 2, "once for each call");
        });
    }
}
