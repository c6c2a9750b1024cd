//! The devices that are connected to an adapter (`DxgkDdiQueryChildRelations`,
//! `DxgkDdiQueryChildStatus`).
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::fill::{Fill, judge_outputs};
use crate::private_data::{PrivateData, pointer, prefix};
use crate::query::judge;
use crate::shown;
use crate::status::result_from_status;
use abi::miniport::{
    DXGK_CHILD_DESCRIPTOR, DXGK_CHILD_STATUS, StatusConnection, TypeUninitialized, TypeVideoOutput,
};
use flight::RuleId;
use kernel::miniport::{DriverError, DriverResult};
use std::sync::atomic::Ordering;

/// The maximum number of children that is plausible.
pub(crate) const MAX_CHILDREN: u32 = 256;

const CHILD: usize = size_of::<DXGK_CHILD_DESCRIPTOR>();

impl TableDriver {
    /// The `ChildUid` of each video output.
    ///
    /// WINDOWS: there is room for one descriptor more than the driver has children: zeros end the
    /// list (documented).
    pub(crate) fn call_query_child_relations(&self) -> DriverResult<Vec<u32>> {
        let call = self.table.DxgkDdiQueryChildRelations.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let children = self.children.load(Ordering::SeqCst).min(MAX_CHILDREN);
        let mut list = PrivateData::output(&vec![0; (children as usize + 1) * CHILD])?;
        let size = list.size();

        let status = self.run_driver(&door, || {
            // SAFETY: By invariants 1 and 2 the function and `context` are valid; the list outlives
            // the call, even if it unwinds.
            unsafe { call(pointer(context), list.pointer().cast(), size) }
        });

        let answer = result_from_status(status);
        let bytes = list.bytes();
        let described = bytes.chunks_exact(CHILD).map(|bytes| {
            // SAFETY: Any bytes are a valid descriptor.
            unsafe { prefix(bytes, DXGK_CHILD_DESCRIPTOR::ZERO) }
        });
        let described: Vec<DXGK_CHILD_DESCRIPTOR> =
            described.take_while(|child| child.ChildDeviceType != TypeUninitialized).collect();
        if answer.is_ok() {
            let broken = relations_error(children, described.len(), list.written_outside());
            judge(door.services(), RuleId::KMD_PNP_004, "DxgkDdiQueryChildRelations", broken);
        }
        let outputs = described.iter().filter(|child| child.ChildDeviceType == TypeVideoOutput);
        answer.map(|()| outputs.map(|child| child.ChildUid).collect())
    }

    /// Whether a display is connected to a video output.
    pub(crate) fn call_query_child_status(&self, child: u32) -> DriverResult<bool> {
        let call = self.table.DxgkDdiQueryChildStatus.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        let query = |fill: Fill| {
            let mut status = DXGK_CHILD_STATUS {
                Type: StatusConnection,
                ChildUid: child,
                Data: [fill.value(); 2],
            };
            let answer = self.run_driver(&door, || {
                shown::in_out(&mut status, |status| {
                    // SAFETY: By invariants 1 and 2 the function and `context` are valid; `status`
                    // outlives the call, even if it unwinds.
                    unsafe { call(pointer(context), status, 1) }
                })
            });
            result_from_status(answer).map(|()| is_connected(&status))
        };
        let unset = |answer: &DriverResult<u8>, fill: Fill| match answer {
            Ok(connected) if fill.is_in(connected) => vec!["HotPlug.Connected"],
            _ => Vec::new(),
        };
        let (answer, unset) = door.next_fill().query(query, unset);
        let connected = answer?;
        Ok(judge_outputs(&door, "DxgkDdiQueryChildStatus", &unset) && connected != 0)
    }
}

/// `HotPlug.Connected`: the first byte of the union.
fn is_connected(status: &DXGK_CHILD_STATUS) -> u8 {
    status.Data[0].to_le_bytes()[0]
}

/// How the list of children differs from the count of `DxgkDdiStartDevice`.
fn relations_error(children: u32, described: usize, outside: Option<String>) -> Option<String> {
    if let Some(text) = outside {
        let room = children + 1;
        return Some(format!("ChildRelations has room for {room} descriptors, but {text}"));
    }
    (described != children as usize).then(|| {
        format!(
            "NumberOfChildren was {children}, but DxgkDdiQueryChildRelations described {described}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_as_many_children_as_were_counted() {
        assert_eq!(relations_error(2, 2, None), None);
        let text = "NumberOfChildren was 2, but DxgkDdiQueryChildRelations described 3";
        assert_eq!(relations_error(2, 3, None).as_deref(), Some(text));
        let outside = Some("up to 4 bytes behind it were written".to_owned());
        assert!(relations_error(1, 1, outside).unwrap().contains("for 2 descriptors, but up to 4"));
    }
}
