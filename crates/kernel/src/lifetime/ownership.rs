//! Display sources: which device owns which source, and how. Nothing is displayed.
//!
//! # Invariants
//!
//! 1. A device is in the list at most once for a source.
//! 2. At most one device owns a source, exclusively or emulated: the desktop shares all sources.
//! 3. A device that ends owns nothing.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::miniport::DriverKind;
use crate::kernel::Kernel;
use crate::lifetime::device::Device;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::EventKind;

/// The queued presents that a device may have unless its client says otherwise.
///
/// WINDOWS: three frames is the documented default of the runtime above; that the kernel has the
/// same is our reading.
const DEFAULT_PRESENT_LIMIT: u32 = 3;

/// How a device owns a display source (`D3DKMT_VIDPNSOURCEOWNER_TYPE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOwnership {
    /// With others. No device gets it: the desktop owns all sources in this way.
    Shared,
    /// Alone: what others show is occluded.
    Exclusive,
    /// Alone, while the system shows the result.
    Emulated,
}

impl SourceOwnership {
    /// The way in events.
    pub fn name(self) -> &'static str {
        match self {
            SourceOwnership::Shared => "shared",
            SourceOwnership::Exclusive => "exclusive",
            SourceOwnership::Emulated => "emulated",
        }
    }
}

/// A device that owns a display source.
pub(crate) struct SourceOwner {
    adapter: Id<Adapter>,
    source: u32,
    device: Id<Device>,
    how: SourceOwnership,
}

impl Kernel {
    /// Changes how a device owns display sources, each to a new way or to none
    /// (`D3DKMTSetVidPnSourceOwner`); without sources, releases all that it owns. A call that fails
    /// changes nothing.
    ///
    /// WINDOWS: another device that owns a source alone fails the call; the same device may repeat
    /// its way, but not go from exclusive to shared or emulated, nor from emulated to exclusive; no
    /// other device can share a source, because the desktop owns all; the release by a device that
    /// owns nothing is a success, and a call without sources releases all (all observed).
    pub fn set_source_owner(
        &self,
        process: ProcessId,
        device: Handle,
        sources: &[(u32, Option<SourceOwnership>)],
    ) -> Result<(), KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = &mut *self.state.lock();
        let (adapter, me) = (guard.adapter, guard.device);
        for (source, how) in sources {
            state.check_source(adapter, *source)?;
            let of_source =
                |owner: &&SourceOwner| (owner.adapter, owner.source) == (adapter, *source);
            let Some(how) = *how else { continue };
            let owner = state.lifetime.source_owners.iter().find(of_source);
            let is_shared = how == SourceOwnership::Shared;
            match owner.map(|owner| (owner.device, owner.how)) {
                Some((device, from)) if device == me && from != how => {
                    if is_shared && from == SourceOwnership::Emulated {
                        return Err(KernelError::SourceOfDesktop);
                    }
                    let device = me.subject();
                    return Err(KernelError::SourceOwned { device, from, to: how });
                }
                _ if is_shared => return Err(KernelError::SourceOfDesktop),
                Some((device, _)) if device != me => {
                    return Err(KernelError::SourceInUse(device.subject()));
                }
                _ => (),
            }
        }
        if sources.is_empty() {
            self.release_sources(state, me);
        }
        let owners = &mut state.lifetime.source_owners;
        for (source, how) in sources {
            let (source_number, way) = (*source, how.map_or("none", SourceOwnership::name));
            self.log.emit(adapter.subject(), || EventKind::SourceOwned {
                device: me.subject(),
                source: source_number,
                how: way.into(),
            });
            // A source that is named twice gets the last way.
            owners.retain(|owner| owner.device != me || owner.source != *source);
            if let Some(how) = *how {
                owners.push(SourceOwner { adapter, source: *source, device: me, how });
            }
        }
        Ok(())
    }

    /// Returns whether a device owns a display source exclusively
    /// (`D3DKMTCheckVidPnExclusiveOwnership`).
    pub fn is_source_exclusive(
        &self,
        process: ProcessId,
        adapter: Handle,
        source: u32,
    ) -> Result<bool, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
        state.check_source(number, source)?;
        let exclusive = state.lifetime.source_owners.iter().any(|owner| {
            (owner.adapter, owner.source, owner.how) == (number, source, SourceOwnership::Exclusive)
        });
        self.log.emit(number.subject(), || EventKind::SourceChecked { source, exclusive });
        Ok(exclusive)
    }

    /// Returns whether windows are occluded (`D3DKMTCheckOcclusion`), on a system with so many
    /// monitors.
    ///
    /// WINDOWS: while a device owns the source of the only monitor exclusively, each window is
    /// occluded, and with several monitors none is (observed).
    pub fn is_occluded(&self, process: ProcessId, monitors: u32) -> bool {
        let state = self.state.lock();
        let occluded = monitors == 1 && state.is_any_source_exclusive();
        let subject = process.subject();
        self.log.emit(subject, || EventKind::OcclusionChecked { monitors, occluded });
        occluded
    }

    /// Returns whether a device owns any display source exclusively.
    pub fn is_any_source_exclusive(&self) -> bool {
        self.state.lock().is_any_source_exclusive()
    }

    /// Releases what a device that ends owns of displays.
    pub(crate) fn end_source_ownership(&self, device: Id<Device>) {
        let state = &mut *self.state.lock();
        self.release_sources(state, device);
        state.lifetime.present_limits.remove(&device);
    }

    /// Releases the display sources of a device.
    fn release_sources(&self, state: &mut KernelState, device: Id<Device>) {
        state.lifetime.source_owners.retain(|owner| {
            if owner.device != device {
                return true;
            }
            let (subject, source) = (device.subject(), owner.source);
            self.log.emit(owner.adapter.subject(), || EventKind::SourceOwned {
                device: subject,
                source,
                how: "none".into(),
            });
            false
        });
    }

    /// Limits the queued presents of a device (`D3DKMTSetQueuedLimit`).
    pub fn set_present_limit(
        &self,
        process: ProcessId,
        device: Handle,
        limit: u32,
    ) -> Result<(), KernelError> {
        let guard = self.enter_device(process, device)?;
        self.state.lock().lifetime.present_limits.insert(guard.device, limit);
        Ok(())
    }

    /// Returns the limit of a device's queued presents (`D3DKMTSetQueuedLimit`).
    pub fn present_limit(&self, process: ProcessId, device: Handle) -> Result<u32, KernelError> {
        let guard = self.enter_device(process, device)?;
        let limit = self.state.lock().lifetime.present_limits.get(&guard.device).copied();
        Ok(limit.unwrap_or(DEFAULT_PRESENT_LIMIT))
    }
}

impl KernelState {
    /// Fails if an adapter has no such display source.
    fn check_source(&self, adapter: Id<Adapter>, source: u32) -> Result<(), KernelError> {
        let kind = self.adapters.get(adapter).map(|adapter| adapter.driver.miniport.kind());
        let sources = u32::from(kind != Some(DriverKind::ComputeOnly));
        if source < sources { Ok(()) } else { Err(KernelError::NoSource { source, sources }) }
    }

    /// Whether a device owns any display source exclusively.
    fn is_any_source_exclusive(&self) -> bool {
        let mut owners = self.lifetime.source_owners.iter();
        owners.any(|owner| owner.how == SourceOwnership::Exclusive)
    }
}
