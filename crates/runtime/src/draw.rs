//! Drawing: fill, copy, flush; and resource priority and residency.
#![expect(unsafe_code, reason = "calls a driver through its tables")]

use crate::device::Device;
use crate::resource_description::{Rect, Resource};
use abi::hresult::{E_INVALIDARG, succeeded};
use abi::umd::{
    D3DDDI_DEVICEFUNCS, D3DDDIARG_BLT, D3DDDIARG_COLORFILL, D3DDDIARG_QUERYRESOURCERESIDENCY,
    D3DDDIARG_SETPRIORITY,
};
use abi::{D3DKMT_HANDLE, HANDLE, HRESULT, RECT};
use flight::{Passive, RuleId};
use std::ptr;

impl From<Rect> for RECT {
    fn from(it: Rect) -> Self {
        let side = |number: u32| number.cast_signed();
        let (left, right) = (side(it.left), side(it.right));
        RECT { left, top: side(it.top), right, bottom: side(it.bottom) }
    }
}

/// The state before a draw: the previous draw of each resource, and the submission count.
struct DrawState {
    before: Vec<(usize, Option<u64>)>,
    submissions: u64,
}

/// Converts a driver's result to success or an error.
pub(crate) fn check_result(answer: HRESULT) -> Result<(), HRESULT> {
    if succeeded(answer) { Ok(()) } else { Err(answer) }
}

impl Device {
    /// The driver's handle for one of the application's resources.
    pub(crate) fn driver_handle(&self, resource: Resource) -> Result<HANDLE, HRESULT> {
        let ledger = self.0.ledger();
        let group = ledger
            .resources
            .get(&resource.0)
            .filter(|resource_entry| resource_entry.is_application_owned());
        group.map(|it| ptr::with_exposed_provenance_mut(it.driver_handle)).ok_or(E_INVALIDARG)
    }

    /// The number of surfaces of a resource.
    pub(crate) fn surface_count(&self, resource: Resource) -> usize {
        self.0
            .ledger()
            .resources
            .get(&resource.0)
            .map_or(0, |resource_entry| resource_entry.locks.len())
    }

    /// Records that the application is about to draw with these resources. Returns the state
    /// before.
    fn begin_draw(&self, with: &[Resource]) -> DrawState {
        let ledger = &mut *self.0.ledger();
        ledger.drawn_in_call = with.iter().map(|resource| resource.0).collect();
        let mut before = Vec::new();
        for it in with {
            before.extend(ledger.note_draw(it.0));
        }
        DrawState { before, submissions: ledger.submissions }
    }

    /// Records that the application has drawn to a surface, or that the draw failed.
    fn end_draw(&self, drawing: DrawState, (to, index): (Resource, u32), answer: HRESULT) {
        let ledger = &mut *self.0.ledger();
        if !succeeded(answer) {
            // If a resource is listed twice, its first entry has the original state.
            for (handle, before) in drawing.before.into_iter().rev() {
                if let Some(group) = ledger.resources.get_mut(&handle) {
                    group.drawn = before;
                }
            }
            return;
        }
        // The CPU may have drawn into memory that the driver keeps mapped: no submission is due.
        for (handle, _) in &drawing.before {
            let Some(group) = ledger.resources.get_mut(handle) else { continue };
            let mapped = |number: &D3DKMT_HANDLE| {
                ledger
                    .allocations
                    .get(number)
                    .is_some_and(|allocation_entry| allocation_entry.locks > 0)
            };
            if group.members.iter().any(mapped) {
                group.drawn = None;
            }
        }
        // A submission during the call may contain this draw, or only earlier ones.
        let waits = ledger.submissions == drawing.submissions;
        let group = ledger
            .resources
            .get(&to.0)
            .filter(|resource_entry| waits && resource_entry.is_displayable());
        if group.is_some_and(|resource_entry| resource_entry.drawn.is_some()) {
            ledger.note_write(to.0, index);
        }
    }

    /// Judges that an index beyond the last surface fails.
    pub(crate) fn judge_index(
        &self,
        name: &'static str,
        (resource, surface): (Resource, u32),
        answer: HRESULT,
    ) {
        let count = self.surface_count(resource);
        let beyond = surface as usize >= count;
        let broken = (beyond && succeeded(answer))
            .then(|| format!("{name} took surface {surface} of a resource that has {count}"));
        self.0.judge(RuleId::UMD_RES_002, name, broken);
    }

    /// Fills a part of a surface with a color (`ColorFill`).
    pub fn color_fill(
        &self,
        at: &mut Passive,
        (resource, surface): (Resource, u32),
        area: Rect,
        color: u32,
    ) -> Result<(), HRESULT> {
        const NAME: &str = "pfnColorFill";
        let args = D3DDDIARG_COLORFILL {
            hResource: self.driver_handle(resource)?,
            SubResourceIndex: surface,
            DstRect: area.into(),
            Color: color,
            ..D3DDDIARG_COLORFILL::ZERO
        };
        let inside = self.0.enter(at, (NAME, Some(resource.0)))?;
        // An empty rectangle draws nothing.
        let with = [resource];
        let drawing = self.begin_draw(if area.is_empty() { &[] } else { &with });
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnColorFill;
        let answer = inside.call(at, slot, |fill, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { fill(driver, &raw const args) }
        });
        self.end_draw(drawing, (resource, surface), answer);
        self.judge_index(NAME, (resource, surface), answer);
        check_result(answer)
    }

    /// Copies a part of a surface to an equally large part of another surface (`Blt`).
    pub fn blt(
        &self,
        at: &mut Passive,
        (from, from_surface, from_area): (Resource, u32, Rect),
        (to, to_surface, to_area): (Resource, u32, Rect),
    ) -> Result<(), HRESULT> {
        const NAME: &str = "pfnBlt";
        let args = D3DDDIARG_BLT {
            hSrcResource: self.driver_handle(from)?,
            SrcSubResourceIndex: from_surface,
            SrcRect: from_area.into(),
            hDstResource: self.driver_handle(to)?,
            DstSubResourceIndex: to_surface,
            DstRect: to_area.into(),
            ..D3DDDIARG_BLT::ZERO
        };
        let inside = self.0.enter(at, (NAME, Some(to.0)))?;
        let with = [from, to];
        let drawing = self.begin_draw(if to_area.is_empty() { &[] } else { &with });
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnBlt;
        let answer = inside.call(at, slot, |blt, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { blt(driver, &raw const args) }
        });
        self.end_draw(drawing, (to, to_surface), answer);
        self.judge_index(NAME, (from, from_surface), answer);
        self.judge_index(NAME, (to, to_surface), answer);
        check_result(answer)
    }

    /// Makes the driver submit its batched commands (`Flush`).
    pub fn flush(&self, at: &mut Passive) -> Result<(), HRESULT> {
        const NAME: &str = "pfnFlush";
        let inside = self.0.enter(at, (NAME, None))?;
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnFlush;
        let answer = inside.call(at, slot, |flush, driver| {
            // SAFETY: The driver supplied the function and its handle.
            unsafe { flush(driver) }
        });
        self.0.judge_shared_leaks(NAME);
        check_result(answer)
    }

    /// Sets the residency priority of a resource (`SetPriority`).
    pub fn set_priority(
        &self,
        at: &mut Passive,
        resource: Resource,
        priority: u32,
    ) -> Result<(), HRESULT> {
        let args =
            D3DDDIARG_SETPRIORITY { hResource: self.driver_handle(resource)?, Priority: priority };
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnSetPriority;
        let name = ("pfnSetPriority", Some(resource.0));
        check_result(self.0.call(at, name, slot, |set, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { set(driver, &raw const args) }
        }))
    }

    /// Whether resources are resident (`QueryResourceResidency`): `S_OK` if all are,
    /// `S_RESIDENT_IN_SHARED_MEMORY` if some are in system memory, `S_NOT_RESIDENT` otherwise.
    pub fn residency(&self, at: &mut Passive, list: &[Resource]) -> Result<HRESULT, HRESULT> {
        let handles = list
            .iter()
            .map(|resource| self.driver_handle(*resource))
            .collect::<Result<Vec<_>, _>>()?;
        let args = D3DDDIARG_QUERYRESOURCERESIDENCY {
            pHandleList: handles.as_ptr(),
            NumResources: u32::try_from(handles.len()).unwrap_or(u32::MAX),
        };
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnQueryResourceResidency;
        let name = ("pfnQueryResourceResidency", None);
        let answer = self.0.call(at, name, slot, |query, driver| {
            // SAFETY: The driver supplied the function and its handles; `args` outlives the call.
            unsafe { query(driver, &raw const args) }
        });
        check_result(answer).map(|()| answer)
    }
}
