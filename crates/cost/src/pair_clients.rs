//! Pairs that are more than one client's plain pair: an allocation that a second process opens by
//! its global handle, and the pair with a planted slow-down.

use crate::fixture::{Part, Site};
use crate::ring::TwoPassDriver;
use crate::{MeasureError, wanted};
use abi::D3DKMT_HANDLE;
use flight::Passive;

/// Creates the clients of a row, and returns them when the row ends.
pub(crate) trait PairClients: TwoPassDriver<Passive> + Sized {
    fn open(site: &Site, at: &mut Passive) -> Result<Self, MeasureError>;
    fn parts(&self) -> Vec<&Part>;
}

impl PairClients for Part {
    fn open(site: &Site, at: &mut Passive) -> Result<Self, MeasureError> {
        site.part(at)
    }

    fn parts(&self) -> Vec<&Part> {
        vec![self]
    }
}

/// A process that creates shared resources with one allocation, and another that opens each by its
/// global handle. Both know the size of the private data.
pub(crate) struct SharingClients {
    owner: Part,
    opener: Part,
}

impl PairClients for SharingClients {
    fn open(site: &Site, at: &mut Passive) -> Result<Self, MeasureError> {
        Ok(Self { owner: site.part(at)?, opener: site.part(at)? })
    }

    fn parts(&self) -> Vec<&Part> {
        vec![&self.owner, &self.opener]
    }
}

impl TwoPassDriver<Passive> for SharingClients {
    /// The resource of the owner, and that of the opener.
    type Name = (D3DKMT_HANDLE, D3DKMT_HANDLE);

    fn create(&mut self, at: &mut Passive) -> Result<Self::Name, MeasureError> {
        let Self { owner, opener } = self;
        let created = owner.client.create_shared_one(at, owner.device, &mut owner.private);
        let (resource, global) = wanted("D3DKMTCreateAllocation", created)?;
        let opened = opener.client.open_shared_one(at, opener.device, global, &mut opener.private);
        Ok((resource, wanted("D3DKMTOpenResource", opened)?))
    }

    fn destroy(&mut self, at: &mut Passive, name: Self::Name) -> Result<(), MeasureError> {
        for (part, resource) in [(&self.opener, name.1), (&self.owner, name.0)] {
            let destroyed = part.client.destroy_resource(at, part.device, resource);
            wanted("D3DKMTDestroyAllocation2", destroyed)?;
        }
        Ok(())
    }

    fn watch(&mut self) {
        self.owner.watch();
    }
}

/// A client with a planted slow-down: it looks its device up once more for each pair. The guard
/// against regressions must notice it.
pub(crate) struct SlowedClient(Part);

impl PairClients for SlowedClient {
    fn open(site: &Site, at: &mut Passive) -> Result<Self, MeasureError> {
        site.part(at).map(Self)
    }

    fn parts(&self) -> Vec<&Part> {
        vec![&self.0]
    }
}

impl TwoPassDriver<Passive> for SlowedClient {
    type Name = D3DKMT_HANDLE;

    fn create(&mut self, at: &mut Passive) -> Result<D3DKMT_HANDLE, MeasureError> {
        let looked_up = self.0.client.device_state(at, self.0.device);
        wanted("D3DKMTGetDeviceState", looked_up)?;
        self.0.create(at)
    }

    fn destroy(&mut self, at: &mut Passive, name: D3DKMT_HANDLE) -> Result<(), MeasureError> {
        self.0.destroy(at, name)
    }

    fn watch(&mut self) {
        self.0.watch();
    }
}
