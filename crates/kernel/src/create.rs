//! Creating allocations: alone, with a new resource, into one that is there.
//!
//! Names are reserved first and published last, all at once. A step that fails is undone in
//! reverse: views that were opened are closed, what was created is destroyed, names go back.

use crate::build::still_there;
use crate::ddi::{Driver, For};
use crate::device::Device;
use crate::device::Inside;
use crate::gate::{Class, Key, Mode, Pass};
use crate::handle::{Handle, Reservations};
use crate::kernel::Kernel;
use crate::lock::Held;
use crate::miniport::{
    Birth, Births, Blank, Born, DriverResource, Home, Refusal, Shape, Standard, StandardPrivate,
};
use crate::process::Process;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::resource::Resource;
use crate::resource::ResourceView;
use crate::store::Id;
use crate::world::World;
use flight::{Hex, Log, Passive, RuleId, What, Who};
use smallvec::SmallVec;

/// No driver has more private data for a standard allocation.
const MOST_PRIVATE: u32 = 1 << 24;

/// What a client asks to create (`D3DKMT_CREATEALLOCATION`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOrder {
    /// On which device.
    pub device: Handle,
    /// Into this resource.
    pub resource: Option<Handle>,
    /// With a new resource.
    pub new_resource: bool,
    /// Whether others may open the new resource.
    pub sharing: Sharing,
    /// The client runtime's private data, kept as it is.
    pub runtime: Vec<u8>,
    /// The new resource's private data for the driver.
    pub private: Vec<u8>,
    /// Each allocation's private data for the driver.
    pub allocations: Vec<Vec<u8>>,
    /// Which of them are primaries, by their places in the list.
    pub primaries: Vec<usize>,
    /// One standard allocation of so many bytes, whose private data the driver supplies.
    pub standard: Option<u64>,
}

/// Whether others may open a resource, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody else.
    #[default]
    None,
    /// By a global handle.
    Global,
    /// By NT handles only.
    Nt,
}

impl Sharing {
    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::None => "none",
            Sharing::Global => "global",
            Sharing::Nt => "nt",
        }
    }
}

/// What was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The name of the new resource, or of the one they joined.
    pub resource: Option<Handle>,
    /// The global name of the new resource.
    pub global: Option<Handle>,
    /// The names of the allocations, in order.
    pub allocations: Vec<Handle>,
    /// The resource's private data as the driver left it.
    pub private: Vec<u8>,
    /// Each allocation's private data as the driver left it.
    pub privates: Vec<Vec<u8>>,
}

/// The resource that new allocations belong to.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) resource: Id<Resource>,
    pub(crate) view: Id<ResourceView>,
    pub(crate) new: bool,
}

/// The digests of private data, one for each allocation.
pub(crate) type Digests = SmallVec<[Hex; 4]>;

/// A create call, while it is under way.
pub(crate) struct Making<'a> {
    pub(crate) process: Id<Process>,
    pub(crate) inside: &'a Inside<'a>,
    /// The resource that is there already.
    pub(crate) joins: Option<Place>,
    /// The shared resource that is opened, by its global name: nothing is created.
    pub(crate) opens: Option<(Handle, Id<Resource>)>,
}

impl Kernel {
    /// Creates allocations (`D3DKMTCreateAllocation`, `D3DKMTCreateAllocation2`).
    pub fn create(
        &self,
        at: &mut Passive,
        process: ProcessId,
        mut order: CreateOrder,
    ) -> Result<Made, Refused> {
        let inside; // Before the world, so that it is dropped after it.
        let mut world = self.world.hold();
        let device = world.working_device(process, order.device)?;
        if order.allocations.is_empty() {
            return Err(Refused::NothingToCreate);
        }
        let find = |it| world.find_home(process, device, it, order.standard.is_some());
        let joins = order.resource.map(find).transpose()?;
        inside = self.inside(&mut world, device)?;
        // A new resource's name comes first.
        let count = order.allocations.len() + usize::from(order.new_resource && joins.is_none());
        let mut names = self.reserve_some(&mut world, process.0, count)?;
        let making = Making { process: process.0, inside: &inside, joins, opens: None };
        match self.create_under_pass(at, world, &making, &mut order, &mut names) {
            Ok((made, mut world)) => {
                inside.leave(&mut world);
                Ok(made)
            }
            Err(why) => {
                self.take_back(&mut self.world.hold(), process.0, names);
                Err(why)
            }
        }
    }

    /// The part that calls the driver, and comes back with the world held. On failure everything
    /// but the names is undone.
    fn create_under_pass<'k>(
        &'k self,
        at: &mut Passive,
        world: Held<'k, World>,
        making: &Making<'_>,
        order: &mut CreateOrder,
        names: &mut Reservations,
    ) -> Result<(Made, Held<'k, World>), Refused> {
        let Making { process, inside, joins, .. } = *making;
        let driver = &inside.driver;
        let mut keys = Class::Zero.keys(inside.adapter, driver.generation, process);
        keys.extend(joins.map(|it| (Key::Resource(it.resource), Mode::Alone)));
        let (pass, world) = self.enter_held(at, world, keys)?;
        // Who parked looks again.
        still_there(&world, making)?;
        drop(world);
        let mut given = self.digests(&order.allocations);
        if let Some(bytes) = order.standard {
            standard_private(at, driver, &pass, process, bytes, order)?;
            given = self.digests(&order.allocations);
        }
        let described = self.describe(at, &pass, making, order);
        if order.standard.is_some() {
            let why = described.as_ref().err().filter(|it| doubts_the_data(it));
            let broken =
                why.map(|it| format!("its private data was refused by its own create: {it:?}"));
            judge_standard(driver, RuleId::KMD_STD_004, broken);
        }
        let (born, seen) = described?;
        let crooked = born.allocations.iter().any(|(_, shape)| shape.is_crooked());
        let shapes: SmallVec<[Shape; 1]> = born.allocations.iter().map(|it| it.1).collect();
        let mut world = self.world.hold();
        let mut built = self.build(&mut world, making, order, born, (&given, &seen));
        let astray = !self.wants_are_sound(&world, making.inside.adapter, &built, &shapes);
        if built.allocations.len() != order.allocations.len() || crooked || astray {
            drop(world);
            self.undo(at, making, &pass, built);
            return Err(Refused::BadShape);
        }
        world.promise_views(making, &mut built, names);
        drop(world);
        let opened = self.open(at, &pass, making, order, &built);
        let described = opened.map(|world| {
            if !order.primaries.is_empty() {
                drop(world);
                self.describe_primaries(at, &pass, making, order, &built);
                return self.world.hold();
            }
            world
        });
        let finished = described.and_then(|mut world| {
            let made = self.finish(&mut world, making, &built, order, names)?;
            Ok((made, world))
        });
        match finished {
            Ok((made, mut world)) => {
                pass.leave(&mut world);
                Ok((made, world))
            }
            Err(why) => {
                self.undo(at, making, &pass, built);
                Err(why)
            }
        }
    }

    /// Has the driver describe the allocations. Answers the digests of what it was shown, too.
    fn describe(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        making: &Making<'_>,
        order: &mut CreateOrder,
    ) -> Result<(Born, Digests), Refused> {
        let seen = self.digests(&order.allocations);
        let lengths = lengths(&order.allocations);
        let known = making.joins.and_then(|it| self.take_word(it.resource));
        let resource = match &known {
            Some(word) => Some(Home::Known(word, Blank::new())),
            None => order.new_resource.then(|| Home::New(Blank::new())),
        };
        let primaries = &order.primaries;
        let birth = |(place, private)| {
            let primary = primaries.contains(&place);
            Birth { private, primary, word: Blank::new() }
        };
        let births = Births {
            allocations: order.allocations.iter_mut().enumerate().map(birth).collect(),
            resource,
            private: &mut order.private,
        };
        let driver = &making.inside.driver;
        let lent = making.joins.zip(known.as_ref()).map(|(it, word)| (it.resource, word.word()));
        let carries = |log: &Log| {
            if let Some((resource, word)) = lent {
                let carried = What::DdiResource { word: log.word(word), goes: false, alone: false };
                log.emit(resource.subject(), carried);
            }
        };
        let whom = For { process: Some(making.process), carries: &carries };
        let mut born = driver.create_allocations(at, pass, whom, births);
        for (private, length) in order.allocations.iter_mut().zip(lengths) {
            private.resize(length, 0); // A driver edits bytes; it does not change how many.
        }
        if let (Some(place), Some(word)) = (making.joins, known) {
            let changed = born.as_mut().ok().and_then(|it| it.resource.take());
            let old = word.word();
            let mut world = self.world.hold();
            self.keep_word(&mut world, place.resource, old, changed.unwrap_or(word));
        }
        Ok((born?, seen))
    }

    /// The digests of private data, for events; of none where nobody listens.
    fn digests(&self, private: &[Vec<u8>]) -> Digests {
        let listens = self.log.keeps();
        private.iter().map(|it| if listens { digest(it) } else { Hex(0) }).collect()
    }

    /// Takes a resource's word out, to lend it. Its key is held.
    fn take_word(&self, resource: Id<Resource>) -> Option<DriverResource> {
        self.world.hold().resources.get_mut(resource).and_then(|it| it.word.take())
    }
}

impl World {
    /// The resource that a client's handle names on its device, open to growth.
    fn find_home(
        &self,
        process: ProcessId,
        device: Id<Device>,
        handle: Handle,
        standard: bool,
    ) -> Result<Place, Refused> {
        let argument = Argument::Resource;
        let number = self.resolve::<ResourceView>(process, argument, handle)?;
        let gone = Refused::Removed(number.subject());
        let view = self.resource_views.get(number).ok_or(gone.clone())?;
        if view.device != device {
            let owner = view.device.subject();
            return Err(Refused::OtherDevice { argument, handle, owner });
        }
        let resource = view.resource.subject();
        if self.resources.get(view.resource).ok_or(gone)?.shared {
            return Err(Refused::Sealed(resource));
        }
        if standard {
            return Err(Refused::NoHome(resource));
        }
        Ok(Place { resource: view.resource, view: number, new: false })
    }
}

impl Shape {
    /// Whether no memory could have it.
    fn is_crooked(&self) -> bool {
        self.size == 0 || !(self.alignment == 0 || self.alignment.is_power_of_two())
    }
}

/// How long each one's private data is.
pub(crate) fn lengths(private: &[Vec<u8>]) -> SmallVec<[usize; 4]> {
    private.iter().map(Vec::len).collect()
}

/// Has the driver supply the private data of a standard allocation: sizes, then bytes.
fn standard_private(
    at: &mut Passive,
    driver: &Driver,
    pass: &Pass<'_>,
    process: Id<Process>,
    bytes: u64,
    order: &mut CreateOrder,
) -> Result<(), Refused> {
    let mut standard = Standard { bytes, private: None, allocation_size: 0, resource_size: 0 };
    driver.standard_data(at, pass, process, &mut standard)?;
    let sizes = [standard.allocation_size, standard.resource_size];
    let broken = (sizes == [0, 0]).then(|| "it gave both private data no bytes".to_owned());
    judge_standard(driver, RuleId::KMD_STD_003, broken);
    if standard.allocation_size.max(standard.resource_size) > MOST_PRIVATE {
        return Err(Refused::BadShape);
    }
    standard.private = Some(StandardPrivate {
        allocation: vec![0; standard.allocation_size as usize],
        resource: vec![0; standard.resource_size as usize],
    });
    driver.standard_data(at, pass, process, &mut standard)?;
    let private = standard.private.unwrap_or_default();
    let again = [standard.allocation_size, standard.resource_size];
    let given = [&private.allocation, &private.resource].map(Vec::len);
    let agree = sizes == again && sizes.map(|it| it as usize) == given;
    let broken = (!agree).then(|| {
        format!("it asked for {sizes:?} bytes of private data, then gave {given:?} of {again:?}")
    });
    judge_standard(driver, RuleId::KMD_STD_004, broken);
    order.allocations = vec![private.allocation];
    order.private = private.resource;
    Ok(())
}

/// Whether a driver refused private data for what is in it.
fn doubts_the_data(why: &Refused) -> bool {
    matches!(why, Refused::Driver(Refusal::Invalid | Refusal::Mismatch))
}

/// Entry rules on what a driver says of a standard allocation: it has no object yet.
fn judge_standard(driver: &Driver, rule: RuleId, broken: Option<String>) {
    let place = "DxgkDdiGetStandardAllocationDriverData";
    driver.log.judge(rule, Who::Driver, driver.adapter.subject(), place, broken);
}

/// A short digest of private data, for events (FNV-1a).
pub(crate) fn digest(bytes: &[u8]) -> Hex {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Hex(bytes.iter().fold(0x811c_9dc5, step))
}
