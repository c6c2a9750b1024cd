//! Creating allocations: alone, with a new resource, into one that is there.
//!
//! Names are reserved first and published last, all at once. A step that fails is undone in
//! reverse: views that were opened are closed, what was created is destroyed, names go back.

use crate::allocation::Allocation;
use crate::ddi::{Driver, For};
use crate::device::Inside;
use crate::end::By;
use crate::gate::{Class, Key, Mode, Pass};
use crate::handle::{Handle, Reserved};
use crate::kernel::Kernel;
use crate::miniport::{
    Birth, Births, Blank, Born, DriverResource, Home, Opening, Shape, Standard, StandardPrivate,
    ViewBirth,
};
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::resource::{Resource, ResourceView};
use crate::view::{Stage, View};
use crate::world::World;
use flight::{Hex, Kind, Log, Passive, Subject, What};
use std::collections::BTreeSet;

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
struct Place {
    resource: u32,
    view: u32,
    new: bool,
}

/// A create call, while it is under way.
struct Making<'a> {
    process: u32,
    inside: &'a Inside<'a>,
    /// The resource that is there already.
    joins: Option<Place>,
}

/// What has been built so far.
#[derive(Default)]
struct Built {
    place: Option<Place>,
    allocations: Vec<u32>,
    views: Vec<u32>,
}

impl Kernel {
    /// Creates allocations (`D3DKMTCreateAllocation`, `D3DKMTCreateAllocation2`).
    pub fn create(
        &self,
        at: &mut Passive,
        process: ProcessId,
        mut order: CreateOrder,
    ) -> Result<Made, Refused> {
        let inside = self.enter_device(process, order.device)?;
        if order.allocations.is_empty() {
            return Err(Refused::NothingToCreate);
        }
        let joins = order.resource.map(|it| self.find_home(process, &inside, it)).transpose()?;
        let mut names = self.reserve_all(process, &order, joins.is_some())?;
        let making = Making { process: process.0, inside: &inside, joins };
        let made = self.create_under_pass(at, &making, &mut order, &mut names);
        if made.is_err() {
            self.take_back(&mut self.world.hold(), process.0, names);
        }
        made
    }

    /// The resource that a client's handle names on its device, open to growth.
    fn find_home(
        &self,
        process: ProcessId,
        inside: &Inside<'_>,
        handle: Handle,
    ) -> Result<Place, Refused> {
        let world = self.world.hold();
        let argument = Argument::Resource;
        let number = world.resolve(process, argument, handle, Kind::ResourceView)?;
        let gone = Refused::Removed(Kind::ResourceView.nr(number));
        let view = world.resource_views.get(number).ok_or(gone.clone())?;
        if view.device != inside.device {
            let owner = Kind::Device.nr(view.device);
            return Err(Refused::OtherDevice { argument, handle, owner });
        }
        if world.resources.get(view.resource).ok_or(gone)?.shared {
            return Err(Refused::Sealed(Kind::Resource.nr(view.resource)));
        }
        Ok(Place { resource: view.resource, view: number, new: false })
    }

    /// Names for everything, a new resource first.
    fn reserve_all(
        &self,
        process: ProcessId,
        order: &CreateOrder,
        joins: bool,
    ) -> Result<Vec<Reserved>, Refused> {
        let mut world = self.world.hold();
        let mut names = Vec::new();
        let count = order.allocations.len() + usize::from(order.new_resource && !joins);
        for _ in 0..count {
            match self.reserve(&mut world, process.0) {
                Ok(name) => names.push(name),
                Err(why) => {
                    self.take_back(&mut world, process.0, names);
                    return Err(why);
                }
            }
        }
        Ok(names)
    }

    /// The part that calls the driver. On failure everything but the names is undone.
    fn create_under_pass(
        &self,
        at: &mut Passive,
        making: &Making<'_>,
        order: &mut CreateOrder,
        names: &mut Vec<Reserved>,
    ) -> Result<Made, Refused> {
        let Making { process, inside, joins } = *making;
        let driver = &inside.driver;
        let mut given: Vec<Hex> = order.allocations.iter().map(|it| digest(it)).collect();
        let mut keys = Class::Zero.keys(inside.adapter, driver.generation, process);
        keys.extend(joins.map(|it| (Key::Resource(it.resource), Mode::Alone)));
        let pass = self.enter(at, keys)?;
        // Who parked looks again.
        still_there(&self.world.hold(), making)?;
        if let Some(bytes) = order.standard {
            standard_private(at, driver, &pass, process, bytes, order)?;
            given = order.allocations.iter().map(|it| digest(it)).collect();
        }
        let (born, seen) = self.describe(at, &pass, making, order)?;
        let shapes: Vec<Shape> = born.allocations.iter().map(|(_, shape)| *shape).collect();
        let digests: Vec<(Hex, Hex)> = given.into_iter().zip(seen).collect();
        let mut built = self.build(making, order, born, &digests);
        let crooked =
            |it: &Shape| it.size == 0 || !(it.alignment == 0 || it.alignment.is_power_of_two());
        if built.allocations.len() != order.allocations.len() || shapes.iter().any(crooked) {
            self.undo(at, making, &pass, built);
            return Err(Refused::BadShape);
        }
        self.promise(making, &mut built, names);
        let opened = self.open(at, &pass, making, order, &built);
        match opened.and_then(|()| self.finish(making, &built, order, names)) {
            Ok(made) => Ok(made),
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
    ) -> Result<(Born, Vec<Hex>), Refused> {
        let lengths: Vec<usize> = order.allocations.iter().map(Vec::len).collect();
        let known = making.joins.and_then(|it| self.take_word(it.resource));
        let resource = match &known {
            Some(word) => Some(Home::Known(word, Blank::new())),
            None => order.new_resource.then(|| Home::New(Blank::new())),
        };
        let birth = |private| Birth { private, word: Blank::new() };
        let births = Births {
            allocations: order.allocations.iter_mut().map(birth).collect(),
            resource,
            private: &mut order.private,
        };
        let seen = births.allocations.iter().map(|it| digest(it.private)).collect();
        let driver = &making.inside.driver;
        let lent = making.joins.zip(known.as_ref()).map(|(it, word)| (it.resource, word.word()));
        let carries = |log: &Log| {
            if let Some((resource, word)) = lent {
                let carried = What::DdiResource { word: log.word(word), goes: false, alone: false };
                log.emit(Kind::Resource.nr(resource), carried);
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

    /// Takes a resource's word out, to lend it. Its key is held.
    fn take_word(&self, resource: u32) -> Option<DriverResource> {
        self.world.hold().resources.get_mut(resource).and_then(|it| it.word.take())
    }

    /// Enters what the driver described.
    fn build(
        &self,
        making: &Making<'_>,
        order: &CreateOrder,
        born: Born,
        digests: &[(Hex, Hex)],
    ) -> Built {
        let Making { inside, joins, .. } = *making;
        let world = &mut *self.world.hold();
        let mut built = Built { place: joins, ..Built::default() };
        if joins.is_none() && order.new_resource {
            built.place = Some(self.build_resource(world, inside, order, born.resource));
        }
        let home = built.place.map(|it| it.resource);
        for (((word, shape), private), (given, seen)) in
            born.allocations.into_iter().zip(&order.allocations).zip(digests)
        {
            let number = world.allocations.next();
            let what = What::AllocationCreated {
                adapter: inside.driver.adapter,
                device: inside.subject(),
                resource: home.map(|it| Kind::Resource.nr(it)),
                size: shape.size,
                pitch_size: shape.pitch_aligned_size,
                alignment: shape.alignment,
                given: *given,
                seen: *seen,
            };
            let subject = Kind::Allocation.nr(number);
            self.log.emit(subject, what);
            self.give_word(word.word(), subject);
            world.allocations.add(Allocation {
                adapter: inside.adapter,
                resource: home,
                word: Some(word),
                shape,
                private: private.clone(),
                views: BTreeSet::new(),
                unplaced: false,
            });
            if let Some(it) = home.and_then(|it| world.resources.get_mut(it)) {
                it.members.insert(number);
            }
            built.allocations.push(number);
        }
        built
    }

    fn build_resource(
        &self,
        world: &mut World,
        inside: &Inside<'_>,
        order: &CreateOrder,
        word: Option<DriverResource>,
    ) -> Place {
        // A driver that gives no word has given the NULL word.
        let word = word.unwrap_or_else(|| Blank::new().fill(0));
        let given = word.word();
        let (shared, sharing) = (order.sharing != Sharing::None, order.sharing.name().into());
        let resource = world.resources.add(Resource {
            adapter: inside.adapter,
            word: Some(word),
            shared,
            global: None,
            private: order.private.clone(),
            runtime: order.runtime.clone(),
            members: BTreeSet::new(),
            views: BTreeSet::new(),
        });
        let subject = Kind::Resource.nr(resource);
        let (adapter, device) = (inside.driver.adapter, inside.subject());
        self.log.emit(subject, What::ResourceCreated { adapter, device, sharing });
        self.give_word(given, subject);
        let view = world.resource_views.add(ResourceView {
            resource,
            device: inside.device,
            handle: Handle(0),
            named: false,
            views: BTreeSet::new(),
        });
        if let Some(it) = world.resources.get_mut(resource) {
            it.views.insert(view);
        }
        let opened = What::ResourceViewOpened { resource: subject, device };
        self.log.emit(Kind::ResourceView.nr(view), opened);
        Place { resource, view, new: true }
    }

    /// Enters the views that are about to be opened: their driver may use their names.
    fn promise(&self, making: &Making<'_>, built: &mut Built, names: &[Reserved]) {
        let process = making.process;
        let world = &mut *self.world.hold();
        let (first, rest) = match built.place {
            Some(place) if place.new => {
                names.split_first().map_or((None, names), |(a, b)| (Some(a), b))
            }
            _ => (None, names),
        };
        if let (Some(name), Some(place)) = (first, built.place) {
            if let Some(it) = world.resource_views.get_mut(place.view) {
                it.handle = name.handle();
            }
            world.promise(process, name, Kind::ResourceView.nr(place.view));
        }
        for (name, allocation) in rest.iter().zip(&built.allocations) {
            let number = world.views.add(View {
                allocation: *allocation,
                device: making.inside.device,
                part_of: built.place.map(|it| it.view),
                handle: name.handle(),
                stage: Stage::Building,
                word: None,
                retirement: None,
            });
            if let Some(it) = world.allocations.get_mut(*allocation) {
                it.views.insert(number);
            }
            world.promise(process, name, Kind::View.nr(number));
            built.views.push(number);
        }
    }

    /// Has the driver open the views.
    fn open(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        making: &Making<'_>,
        order: &mut CreateOrder,
        built: &Built,
    ) -> Result<(), Refused> {
        let inside = making.inside;
        let device = inside.word()?;
        let handles: Vec<Handle> = {
            let world = self.world.hold();
            built.views.iter().filter_map(|it| world.views.get(*it)).map(|it| it.handle).collect()
        };
        let birth = |(private, handle)| ViewBirth { handle, private, word: Blank::new() };
        let views = order.allocations.iter_mut().zip(handles).map(birth).collect();
        let opening = Opening { device, views, create: true, private: &order.private };
        let mut words = inside.driver.open_allocations(at, pass, making.process, opening)?;
        let world = &mut *self.world.hold();
        words.reverse();
        for view in &built.views {
            let subject = Kind::View.nr(*view);
            let word = words.pop().unwrap_or_else(|| Blank::new().fill(0));
            let Some(it) = world.views.get_mut(*view) else { continue };
            let opened = What::ViewOpened {
                allocation: Kind::Allocation.nr(it.allocation),
                device: inside.subject(),
                resource: built.place.map(|it| Kind::ResourceView.nr(it.view)),
                answered: word.word() != 0,
            };
            self.log.emit(subject, opened);
            self.give_word(word.word(), subject);
            it.word = Some(word);
        }
        Ok(())
    }

    /// Makes it all live and publishes the names, all at once, if what it belongs to is still
    /// there.
    fn finish(
        &self,
        making: &Making<'_>,
        built: &Built,
        order: &mut CreateOrder,
        names: &mut Vec<Reserved>,
    ) -> Result<Made, Refused> {
        let world = &mut *self.world.hold();
        still_there(world, making)?;
        let mut global = None;
        if let Some(place) = built.place.filter(|it| it.new) {
            if order.sharing == Sharing::Global {
                let name = world.shares.reserve()?;
                let of = Kind::Resource.nr(place.resource);
                let handle = world.shares.publish(name, of);
                let shared = What::NameShared { handle: Hex(handle.0), of };
                self.log.emit(Kind::Process.nr(making.process), shared);
                global = Some(handle);
            }
            if let Some(it) = world.resources.get_mut(place.resource) {
                it.global = global;
            }
            if let Some(it) = world.resource_views.get_mut(place.view) {
                it.named = true;
                let device = it.device;
                if let Some(it) = world.devices.get_mut(device) {
                    it.resource_views.insert(place.view);
                }
            }
        }
        for (view, private) in built.views.iter().zip(&order.allocations) {
            let Some(it) = world.views.get_mut(*view) else { continue };
            it.stage = Stage::Live;
            let (allocation, device) = (it.allocation, it.device);
            if let Some(it) = built.place.and_then(|it| world.resource_views.get_mut(it.view)) {
                it.views.insert(*view);
            } else if let Some(it) = world.devices.get_mut(device) {
                it.loose.insert(*view);
            }
            if let Some(it) = world.allocations.get_mut(allocation) {
                it.private.clone_from(private);
            }
        }
        let resource = built.place.and_then(|it| world.resource_views.get(it.view));
        let resource = resource.map(|it| it.handle);
        let skip = names.len() - built.views.len();
        let allocations = names[skip..].iter().map(Reserved::handle).collect();
        let new = built.place.filter(|it| it.new).map(|it| Kind::ResourceView.nr(it.view));
        let views = built.views.iter().map(|it| Kind::View.nr(*it));
        for (name, to) in names.drain(..).zip(new.into_iter().chain(views)) {
            self.publish(world, making.process, name, to);
        }
        Ok(Made {
            resource,
            global,
            allocations,
            private: std::mem::take(&mut order.private),
            privates: std::mem::take(&mut order.allocations),
        })
    }

    /// Undoes a create in reverse: what was opened is closed, what was created is destroyed,
    /// a new resource with it.
    ///
    /// WINDOWS: that the driver sees these calls is our decision; pages do not say.
    fn undo(&self, at: &mut Passive, making: &Making<'_>, pass: &Pass<'_>, built: Built) {
        let Built { place, allocations, views } = built;
        let (inside, process) = (making.inside, Some(making.process));
        let by = By { driver: &inside.driver, pass, process };
        let (opened, unopened): (Vec<u32>, Vec<u32>) = {
            let world = self.world.hold();
            let opened = |it: &u32| world.views.get(*it).is_some_and(|it| it.word.is_some());
            views.into_iter().partition(opened)
        };
        for view in &opened {
            self.log.emit(Kind::View.nr(*view), What::ViewIdle {});
        }
        self.close_views(at, &by, inside.device, &opened);
        for view in unopened {
            self.world.hold().remove_view(view);
        }
        let ended = place.filter(|it| it.new).and_then(|it| self.close_resource_view(it.view));
        self.destroy_orphans(at, &by, allocations, ended);
    }

    /// The driver's word behind a client's handle, in the process the running call is for.
    pub(crate) fn handle_data(
        &self,
        _at: &mut Passive,
        handle: Handle,
        of_device: bool,
    ) -> Option<usize> {
        let world = self.world.hold();
        let process = (*world.calls.get(&flight::InCall::current()?)?)?;
        let subject = world.processes.get(process)?.names.find_for_driver(handle)?;
        match subject.kind {
            Kind::View if of_device => Some(world.views.get(subject.number)?.word.as_ref()?.word()),
            Kind::View => {
                let allocation = world.views.get(subject.number)?.allocation;
                Some(world.allocations.get(allocation)?.word.as_ref()?.word())
            }
            Kind::ResourceView => {
                let resource = world.resource_views.get(subject.number)?.resource;
                Some(world.resources.get(resource)?.word.as_ref()?.word())
            }
            _ => None,
        }
    }
}

/// Whether the device still works and the resource is still named: for who parked, and again
/// for who publishes.
fn still_there(world: &World, making: &Making<'_>) -> Result<(), Refused> {
    world.works(making.inside)?;
    let Some(place) = making.joins else { return Ok(()) };
    let named = world.resource_views.get(place.view).is_some_and(|it| it.named);
    if named { Ok(()) } else { Err(Refused::ResourceEnded(Kind::Resource.nr(place.resource))) }
}

impl World {
    fn promise(&mut self, process: u32, name: &Reserved, subject: Subject) {
        if let Some(it) = self.processes.get_mut(process) {
            it.names.promise(name, subject);
        }
    }
}

/// Has the driver supply the private data of a standard allocation: sizes, then bytes.
fn standard_private(
    at: &mut Passive,
    driver: &Driver,
    pass: &Pass<'_>,
    process: u32,
    bytes: u64,
    order: &mut CreateOrder,
) -> Result<(), Refused> {
    let mut standard = Standard { bytes, private: None, allocation_size: 0, resource_size: 0 };
    driver.standard_data(at, pass, process, &mut standard)?;
    if standard.allocation_size.max(standard.resource_size) > MOST_PRIVATE {
        return Err(Refused::BadShape);
    }
    standard.private = Some(StandardPrivate {
        allocation: vec![0; standard.allocation_size as usize],
        resource: vec![0; standard.resource_size as usize],
    });
    driver.standard_data(at, pass, process, &mut standard)?;
    let private = standard.private.unwrap_or_default();
    order.allocations = vec![private.allocation];
    order.private = private.resource;
    Ok(())
}

/// A short digest of private data, for events (FNV-1a).
fn digest(bytes: &[u8]) -> Hex {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Hex(bytes.iter().fold(0x811c_9dc5, step))
}
