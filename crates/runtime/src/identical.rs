//! Judges that identical requests get identical results, and that a callback's failure is
//! forwarded.

use crate::adapter::SharedDescription;
use crate::device::Device;
use crate::ledger::Description;
use crate::resource_description::ResourceDescription;
use crate::result;
use abi::HRESULT;
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, succeeded};
use abi::ukm::D3DDDI_RATIONAL;
use abi::umd::{D3DDDI_RESOURCEFLAGS as Flags, D3DDDIARG_CREATERESOURCE2, D3DDDIPOOL_SYSTEMMEM};
use flight::RuleId;
use std::sync::PoisonError;

/// Sets the members that are reserved for a resource of this kind.
///
/// WINDOWS: the page of `CreateResource` lists them, by flags (documented); the `Output` it names
/// is `VidPnSourceId` (our reading).
pub(crate) fn set_reserved_members(
    wanted: &ResourceDescription,
    args: &mut D3DDDIARG_CREATERESOURCE2,
) {
    let noise = wanted.reserved_values;
    if !wanted.has_flag(Flags::Primary) {
        args.RefreshRate = D3DDDI_RATIONAL { Numerator: noise, Denominator: noise };
        args.VidPnSourceId = noise;
    }
    let target = Flags::RenderTarget | Flags::DecodeRenderTarget | Flags::VideoProcessRenderTarget;
    if !wanted.has_flag(target) {
        args.MultisampleType = noise.cast_signed();
        args.MultisampleQuality = noise;
    }
    if !wanted.has_flag(Flags::VertexBuffer) {
        args.Fvf = noise;
    }
    let levels = wanted.has_flag(Flags::Texture | Flags::CubeMap | Flags::Volume);
    args.MipLevels = if levels { 1 } else { noise };
}

impl Device {
    /// Judges a driver's description of a resource against its descriptions of identical resources.
    ///
    /// Private data belongs to the driver: it may contain a counter or a time that differs on each
    /// call. So the bytes are compared only after the driver was seen to repeat them for an
    /// identical request. The number of allocations of a shared resource is always compared.
    pub(crate) fn judge_identical(&self, handle: usize) {
        const NAME: &str = "pfnCreateResource";
        let ledger = &mut *self.0.ledger();
        let Some(group) = ledger.resources.get(&handle) else { return };
        let (about, noise, private_data) =
            (group.subject, group.surfaces.reserved_values, group.private_data.clone());
        let (request, shared) = (group.surfaces.to_bytes(), group.is_shared());
        let (first, mut again) = (
            Description {
                reserved_values: noise,
                private_data: private_data.clone(),
                repeatable: None,
            },
            true,
        );
        let before = ledger.descriptions.entry(request.clone()).or_insert_with(|| {
            again = false;
            first
        });
        let differs = describe_difference(&private_data, &before.private_data);
        if again && before.reserved_values == noise {
            before.repeatable = Some(before.repeatable.unwrap_or(true) && differs.is_none());
        }
        let repeatable = before.repeatable == Some(true);
        let broken = differs.map(|text| {
            format!("{about} differs from another one in reserved members only, but: {text}")
        });
        if before.reserved_values != noise && repeatable {
            self.0.judge(RuleId::UMD_RES_008, NAME, broken);
        }
        if !shared {
            return;
        }
        let all = &self.0.adapter.run.shared_descriptions;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let (device, mut again) = (self.0.handle, true);
        let before = all.entry(request).or_insert_with(|| {
            again = false;
            SharedDescription { device, private_data: private_data.clone(), repeatable: None }
        });
        let differs = describe_difference(&private_data, &before.private_data);
        if again && before.device == device {
            before.repeatable = Some(before.repeatable.unwrap_or(true) && differs.is_none());
        }
        let counted = private_data.len() != before.private_data.len();
        let judged = counted || before.repeatable == Some(true);
        drop(all);
        let broken = differs
            .map(|text| format!("{about} is shared, and differs from one created alike: {text}"));
        if judged {
            self.0.judge(RuleId::UMD_RES_005, NAME, broken);
        }
    }

    /// Judges that a resource in the application's memory allocates no kernel memory.
    pub(crate) fn judge_system_memory(
        &self,
        wanted: &ResourceDescription,
        callback_errors: &[HRESULT],
        answer: HRESULT,
    ) {
        let last =
            callback_errors.last().filter(|_| !callback_errors.contains(&D3DDDIERR_DEVICEREMOVED));
        let Some(last) = last.filter(|_| wanted.pool == D3DDDIPOOL_SYSTEMMEM) else { return };
        let broken = (!succeeded(answer)).then(|| {
            let (last, answer) = (result::hresult_name(*last), result::hresult_name(answer));
            format!(
                "a callback returned {last} for a resource in system memory, and the driver \
                 returns {answer}, although the CPU can use it"
            )
        });
        self.0.judge(RuleId::UMD_RES_007, "pfnCreateResource", broken);
    }

    /// Judges that a driver that could not allocate memory for a resource reports the failure.
    pub(crate) fn judge_ignored_error(
        &self,
        name: &'static str,
        handle: usize,
        callback_errors: &[HRESULT],
    ) {
        let Some(last) = callback_errors.last().copied() else { return };
        let ledger = self.0.ledger();
        let Some(group) = ledger.resources.get(&handle) else { return };
        let bare = group.members.is_empty() && group.surfaces.pool != D3DDDIPOOL_SYSTEMMEM;
        let about = group.subject;
        drop(ledger);
        let broken = bare.then(|| {
            let last = result::hresult_name(last);
            format!("a callback returned {last}, {about} has no memory, and {name} returns S_OK")
        });
        self.0.judge(RuleId::UMD_RES_010, name, broken);
    }
}

/// Describes how private data differs; `None` if it does not.
fn describe_difference(one: &[Vec<u8>], other: &[Vec<u8>]) -> Option<String> {
    if one.len() != other.len() {
        return Some(format!("{} pieces of private data, not {}", one.len(), other.len()));
    }
    let place = one.iter().zip(other).position(|(one, other)| one != other)?;
    let (one, other) = (one.get(place)?, other.get(place)?);
    if one.len() != other.len() {
        let (one, other) = (one.len(), other.len());
        return Some(format!("private data {place} has {one} bytes, not {other}"));
    }
    let at = one.iter().zip(other).position(|(one, other)| one != other)?;
    let (one, other) = (one.get(at)?, other.get(at)?);
    Some(format!("byte {at} of private data {place} is {one:#04x}, not {other:#04x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let all = [vec![1, 2], vec![3]];
        assert_eq!(describe_difference(&all, &all), None);
        let difference = |other: &[Vec<u8>]| describe_difference(&all, other).unwrap_or_default();
        assert_eq!(difference(&[vec![1, 2]]), "2 pieces of private data, not 1");
        assert_eq!(difference(&[vec![1, 2], vec![]]), "private data 1 has 1 bytes, not 0");
        assert_eq!(
            difference(&[vec![1, 9], vec![3]]),
            "byte 1 of private data 0 is 0x02, not 0x09"
        );
    }
}
