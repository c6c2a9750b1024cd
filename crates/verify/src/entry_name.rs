//! The name of the entry point in a place: the one that the client called.
//!
//! Entry points that share an implementation, such as `D3DKMTDestroyAllocation` and
//! `D3DKMTDestroyAllocation2`, also share their rules, whose places name one of them.

use flight::Text;

/// More virtual threads than any flight has.
pub(crate) const THREADS: usize = 1 << 16;

/// The calls of entry points that each virtual thread is in, by its number.
#[derive(Debug, Default)]
pub(crate) struct CurrentCalls(Vec<Vec<Text>>);

impl CurrentCalls {
    /// Records the start of a call.
    #[inline(never)]
    pub(crate) fn enter(&mut self, thread: u32, call: &Text) {
        let thread = thread as usize;
        if thread >= THREADS {
            return; // Not a number that a host gives: a trace was edited.
        }
        if self.0.len() <= thread {
            self.0.resize_with(thread + 1, Vec::new);
        }
        self.0[thread].push(call.clone());
    }

    /// Records the end of a call.
    #[inline(never)]
    pub(crate) fn leave(&mut self, thread: u32) {
        if let Some(calls) = self.0.get_mut(thread as usize) {
            calls.pop();
        }
    }

    /// The place with the name of the entry point that the thread is in, if that entry point
    /// shares the implementation of the one that the place names.
    pub(crate) fn place(&self, thread: u32, place: Text) -> Text {
        let current = self.0.get(thread as usize).and_then(|calls| calls.last());
        current.and_then(|call| renamed(&place, call)).map_or(place, Text::from)
    }
}

/// The place under the name of `call`; `None` if it stays as it is.
fn renamed(place: &str, call: &str) -> Option<String> {
    let end = place.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(place.len());
    let (name, rest) = place.split_at(end);
    let shares = name.starts_with("D3DKMT") && name != call && family(name) == family(call);
    shares.then(|| {
        // The versions before monitored fences have no array of values.
        let values = [".MonitoredFenceValueArray", ".FenceValueArray"];
        match call {
            _ if !values.contains(&rest) => format!("{call}{rest}"),
            _ if call.contains("FromGpu") => format!("{call}{}", values[0]),
            _ if call.contains("FromCpu") => format!("{call}{}", values[1]),
            _ => format!("{call}.ObjectHandleArray"),
        }
    })
}

/// The name without the version and without what signals or waits.
fn family(name: &str) -> &str {
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    name.strip_suffix("FromGpu").or(name.strip_suffix("FromCpu")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_entry_point_are_called_by_their_own_names() {
        for (place, call, named) in [
            (
                "D3DKMTDestroyAllocation2.hDevice",
                "D3DKMTDestroyAllocation",
                "D3DKMTDestroyAllocation.hDevice",
            ),
            ("D3DKMTOpenResource", "D3DKMTOpenResource2", "D3DKMTOpenResource2"),
            (
                "D3DKMTCreateAllocation of more than 1024",
                "D3DKMTCreateAllocation2",
                "D3DKMTCreateAllocation2 of more than 1024",
            ),
            (
                "D3DKMTSignalSynchronizationObjectFromGpu.MonitoredFenceValueArray",
                "D3DKMTSignalSynchronizationObject2",
                "D3DKMTSignalSynchronizationObject2.ObjectHandleArray",
            ),
        ] {
            assert_eq!(renamed(place, call).as_deref(), Some(named));
        }
    }

    #[test]
    fn other_places_stay() {
        for (place, call) in [
            ("D3DKMTDestroyAllocation2", "D3DKMTDestroyAllocation2"),
            ("D3DKMTLock.Flags", "D3DKMTUnlock"),
            ("DxgkDdiCreateDevice", "D3DKMTCreateDevice"),
            ("D3DKMTCreateContext.hDevice", "D3DKMTCreateContextVirtual"),
            ("", "D3DKMTLock"),
        ] {
            assert_eq!(renamed(place, call), None);
        }
    }
}
