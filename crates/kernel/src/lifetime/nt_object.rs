//! NT handles: objects that are shared by handles which any process can be passed.
//!
//! `D3DKMTShareObjects` creates an *NT object* for one resource, one synchronization object, or a
//! bundle of three objects, and an *NT handle* to it. An NT object can have a name, by which any
//! process gets another NT handle. The caller of the kernel decides what number an NT handle has:
//! here it is an [`NtHandleId`].
//!
//! # Invariants
//!
//! 1. An NT object keeps its objects alive, without any local handle of them (WINDOWS: observed).
//! 2. An NT object and its name live as long as an NT handle of it does, whatever local handles
//!    exist (WINDOWS: observed). Local handles that were opened by it outlive it.
//! 3. Names are compared without regard to case, and `names` has the names of exactly the NT objects
//!    that have one.
//! 4. A resource that only an NT object keeps alive has no view. Its driver sees no device, and its
//!    memory keeps its contents.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::{Id, Slab};
use crate::kernel::Kernel;
use crate::lifetime::process::{Process, ProcessId};
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::{Handle, ObjectId};
use crate::objects::resource::Resource;
use crate::state::KernelState;
use crate::sync::SyncObject;
use crate::sync::keyed_mutex::KeyedMutex;
use flight::{EventKind, LiveObject, Passive, Subject};
use std::collections::{BTreeMap, VecDeque};

/// What NT handles refer to.
pub(crate) struct NtObject {
    pub(super) parts: NtParts,
    name: Option<String>,
    /// Number of NT handles.
    handles: u32,
}

/// The objects that an NT object keeps alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NtParts {
    pub(super) kind: NtObjectKind,
    /// Its resource, unless that ended with its adapter.
    pub(super) resource: Option<Id<Resource>>,
    pub(super) keyed_mutex: Option<Id<KeyedMutex>>,
    pub(super) sync: Option<Id<SyncObject>>,
}

/// An NT handle.
pub(crate) struct NtHandle {
    pub(super) object: Id<NtObject>,
    pub(super) access: NtAccess,
    /// The process that has the handle; `None` if the caller of the kernel closes it.
    owner: Option<Id<Process>>,
}

/// Identifies an NT handle to the caller of the kernel. It is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NtHandleId(pub(super) Id<NtHandle>);

/// The type of an NT object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NtObjectKind {
    /// A resource, alone or in a bundle (`DxgkSharedResource`).
    Resource,
    /// A synchronization object (`DxgkSharedSyncObject`).
    Sync,
    /// A keyed mutex. None can be created: it is what `D3DKMTOpenKeyedMutexFromNtHandle` expects.
    KeyedMutex,
}

/// What an NT handle may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NtAccess {
    /// Any right was requested.
    pub any: bool,
    /// Its resource can be opened.
    pub read: bool,
    /// Its resource can be written.
    pub write: bool,
}

/// A request to share objects (`D3DKMTShareObjects`).
#[derive(Clone, Debug)]
pub struct ShareObjectsRequest<'a> {
    /// The local handles of the objects.
    pub objects: &'a [Handle],
    /// The name, if it gets one.
    pub name: Option<&'a str>,
    /// What the NT handle may be used for.
    pub access: NtAccess,
    /// Whether the NT handle belongs to the calling process and is closed with it.
    pub owned: bool,
}

/// What is known about an NT handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtHandleInfo {
    /// The type of its NT object.
    pub kind: NtObjectKind,
    /// The name of its NT object.
    pub name: Option<String>,
    /// What it may be used for.
    pub access: NtAccess,
}

/// The NT objects, of all processes.
#[derive(Default)]
pub(crate) struct NtState {
    pub(super) objects: Slab<NtObject>,
    pub(super) handles: Slab<NtHandle>,
    /// NT objects by their names, in upper case.
    names: BTreeMap<String, Id<NtObject>>,
    /// Resources with one reference of an NT object to release, each as often as it has one.
    pub(super) ends: VecDeque<Id<Resource>>,
    /// NT objects whose resource is being opened, each with a reference to the resource.
    pub(super) opening: Vec<(Id<NtObject>, Id<Resource>)>,
}

impl NtState {
    /// Whether a resource waits to be released.
    pub(super) fn has_jobs(&self) -> bool {
        !self.ends.is_empty()
    }
}

impl NtObjectKind {
    /// The name of the object type on Windows.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Resource => "DxgkSharedResource",
            Self::Sync => "DxgkSharedSyncObject",
            Self::KeyedMutex => "DxgkSharedKeyedMutexObject",
        }
    }
}

impl NtAccess {
    /// Everything.
    pub const ALL: Self = Self { any: true, read: true, write: true };

    /// The rights in events.
    pub fn name(self) -> &'static str {
        match (self.any, self.read, self.write) {
            (_, true, true) => "read-write",
            (_, true, false) => "read",
            (_, false, true) => "write",
            (true, false, false) => "other",
            (false, false, false) => "none",
        }
    }
}

impl Kernel {
    /// Creates an NT object and its first NT handle (`D3DKMTShareObjects`).
    ///
    /// Fails if a handle is invalid, if the objects are no bundle or were not created for NT
    /// handles, or if the name is in use.
    pub fn share_objects(
        &self,
        process: ProcessId,
        request: &ShareObjectsRequest<'_>,
    ) -> Result<NtHandleId, KernelError> {
        let state = &mut *self.state.lock();
        let parts = state.find_parts(process, request.objects)?;
        let key = request.name.map(name_key);
        if let Some(other) = key.as_ref().and_then(|key| state.lifetime.nt.names.get(key)) {
            return Err(KernelError::NameInUse(other.subject()));
        }
        let name = request.name.map(str::to_owned);
        let object = state.lifetime.nt.objects.insert(NtObject { parts, name, handles: 0 });
        if let Some(key) = key {
            state.lifetime.nt.names.insert(key, object);
        }
        if let Some(resource) = parts.resource {
            state.resources[resource].nt_holds += 1;
        }
        state.hold_sync_objects(parts.sync, parts.keyed_mutex);
        let (process_subject, access) = (process.subject(), request.access.name());
        self.log.emit(object.subject(), || EventKind::NtObjectCreated {
            process: process_subject,
            name: request.name.unwrap_or_default().to_owned().into(),
            access: access.into(),
            resource: parts.resource.map(Id::subject),
            keyed_mutex: parts.keyed_mutex.map(Id::subject),
            sync: parts.sync.map(Id::subject),
        });
        let owner = request.owned.then_some(process.0);
        Ok(state.lifetime.nt.add_handle(object, request.access, owner))
    }

    /// Creates another NT handle of the NT object with a name (`D3DKMTOpenNtHandleFromName`,
    /// `D3DKMTOpenSyncObjectNtHandleFromName`).
    ///
    /// Fails if no NT object has the name, if it has another type, or if no access is requested.
    pub fn open_nt_name(
        &self,
        process: ProcessId,
        kind: NtObjectKind,
        name: &str,
        access: NtAccess,
        owned: bool,
    ) -> Result<NtHandleId, KernelError> {
        let state = &mut *self.state.lock();
        let Some(&object) = state.lifetime.nt.names.get(&name_key(name)) else {
            self.log.emit(process.subject(), || EventKind::NtNameNotFound {
                name: name.to_owned().into(),
            });
            return Err(KernelError::NameNotFound);
        };
        let subject = object.subject();
        if state.lifetime.nt.objects[object].parts.kind != kind {
            return Err(KernelError::NtObjectType(subject));
        }
        if !access.any {
            return Err(KernelError::NtAccessDenied(subject));
        }
        self.log.emit(subject, || EventKind::NtObjectOpened {
            process: process.subject(),
            name: name.to_owned().into(),
            access: access.name().into(),
        });
        let owner = owned.then_some(process.0);
        Ok(state.lifetime.nt.add_handle(object, access, owner))
    }

    /// Creates another NT handle with the same access in a process, as `DuplicateHandle` does.
    pub fn duplicate_nt_handle(
        &self,
        handle: NtHandleId,
        process: ProcessId,
    ) -> Result<NtHandleId, KernelError> {
        let state = &mut *self.state.lock();
        let nt = &mut state.lifetime.nt;
        let &NtHandle { object, access, .. } =
            nt.handles.get(handle.0).ok_or(KernelError::NtHandleNotFound)?;
        self.log.emit(object.subject(), || EventKind::NtObjectOpened {
            process: process.subject(),
            name: "".into(),
            access: access.name().into(),
        });
        Ok(nt.add_handle(object, access, Some(process.0)))
    }

    /// Closes an NT handle. With the last one the NT object ends, with its name and with the objects
    /// that nothing else keeps alive. A handle that is closed already is left alone.
    pub fn close_nt_handle(&self, at: &mut Passive, handle: NtHandleId) {
        if self.release_nt_handle(handle) {
            self.try_nt_end(at);
        }
    }

    /// Closes an NT handle like [`Kernel::close_nt_handle`], but calls no driver: a resource that
    /// nothing else keeps alive ends in a job, or in [`Kernel::end_released_resources`]. Returns
    /// whether the NT handle was open.
    pub fn release_nt_handle(&self, handle: NtHandleId) -> bool {
        let state = &mut *self.state.lock();
        let taken = state.lifetime.nt.handles.take(handle.0);
        let is_open = taken.is_some();
        if let Some(NtHandle { object, .. }) = taken {
            self.close_nt_object(state, object);
        }
        is_open
    }

    /// Ends resources that NT handles kept alive, as far as their permits are free. The others end
    /// in jobs.
    pub fn end_released_resources(&self, at: &mut Passive) {
        while self.try_nt_end(at) {}
    }

    /// Closes the NT handles of a process that has ended.
    pub(super) fn close_nt_handles(&self, at: &mut Passive, process: Id<Process>) {
        let mine = |handle: &NtHandle| handle.owner == Some(process);
        let handles = self.state.lock().lifetime.nt.handles.select(mine);
        for handle in handles {
            self.close_nt_handle(at, NtHandleId(handle));
        }
    }

    fn close_nt_object(&self, state: &mut KernelState, object: Id<NtObject>) {
        let nt = &mut state.lifetime.nt;
        let it = &mut nt.objects[object];
        it.handles -= 1;
        let handles = it.handles;
        self.log.emit(object.subject(), || EventKind::NtHandleClosed { handles });
        if handles > 0 {
            return;
        }
        let NtObject { parts, name, .. } = nt.objects.remove(object);
        if let Some(name) = name {
            nt.names.remove(&name_key(&name));
        }
        self.log.emit(object.subject(), || EventKind::NtObjectEnded {});
        self.release_held_parts(state, &parts);
        if let Some(resource) = parts.resource {
            self.release_held_resource(state, resource);
        }
    }

    /// Nothing keeps the parts of an NT object alive for it any more, except its resource.
    pub(super) fn release_held_parts(&self, state: &mut KernelState, parts: &NtParts) {
        if let Some(keyed_mutex) = parts.keyed_mutex {
            self.release_held_keyed_mutex(state, keyed_mutex);
        }
        if let Some(sync) = parts.sync {
            self.release_held_sync(state, sync);
        }
    }

    /// The NT handle of a process with this number, which [`NtHandleId::number`] returned.
    pub fn find_nt_handle(&self, process: ProcessId, number: u32) -> Option<NtHandleId> {
        let state = self.state.lock();
        let handles = &state.lifetime.nt.handles;
        let found = handles.find_serial(number)?;
        (handles[found].owner == Some(process.0)).then_some(NtHandleId(found))
    }

    /// The type and name of an NT handle's object, and its access.
    pub fn nt_handle_info(&self, handle: NtHandleId) -> Result<NtHandleInfo, KernelError> {
        let state = self.state.lock();
        let nt = &state.lifetime.nt;
        let &NtHandle { object, access, .. } =
            nt.handles.get(handle.0).ok_or(KernelError::NtHandleNotFound)?;
        let it = &nt.objects[object];
        Ok(NtHandleInfo { kind: it.parts.kind, name: it.name.clone(), access })
    }
}

impl NtHandleId {
    /// Its number, which no other NT handle of the kernel has.
    pub fn number(self) -> u32 {
        self.0.serial()
    }
}

impl NtState {
    /// A resource ends with its adapter. Returns the NT objects that kept it alive.
    pub(super) fn forget_resource(&mut self, resource: Id<Resource>) -> Vec<Id<NtObject>> {
        let objects = self.objects.select(|object| object.parts.resource == Some(resource));
        for object in &objects {
            self.objects[*object].parts.resource = None;
        }
        self.ends.retain(|waiting| *waiting != resource);
        self.opening.retain(|pair| pair.1 != resource);
        objects
    }

    fn add_handle(
        &mut self,
        object: Id<NtObject>,
        access: NtAccess,
        owner: Option<Id<Process>>,
    ) -> NtHandleId {
        self.objects[object].handles += 1;
        NtHandleId(self.handles.insert(NtHandle { object, access, owner }))
    }
}

impl KernelState {
    /// The objects of the local handles, which form an NT object.
    fn find_parts(&self, process: ProcessId, objects: &[Handle]) -> Result<NtParts, KernelError> {
        let find = |(index, handle): (usize, &Handle)| {
            self.find_handle(process, Argument::Shared(index), *handle)
        };
        let found: Vec<ObjectId> =
            objects.iter().enumerate().map(find).collect::<Result<_, KernelError>>()?;
        let none = |kind| NtParts { kind, resource: None, keyed_mutex: None, sync: None };
        let resource = |view| Some(self.resource_views[view].resource);
        let parts = match *found {
            [ObjectId::ResourceView(view)] => {
                NtParts { resource: resource(view), ..none(NtObjectKind::Resource) }
            }
            [ObjectId::SyncObject(sync)] => {
                NtParts { sync: Some(sync), ..none(NtObjectKind::Sync) }
            }
            [
                ObjectId::ResourceView(view),
                ObjectId::KeyedMutex(keyed_mutex),
                ObjectId::SyncObject(sync),
            ] => NtParts {
                kind: NtObjectKind::Resource,
                resource: resource(view),
                keyed_mutex: Some(keyed_mutex),
                sync: Some(sync),
            },
            _ => {
                let kinds = found.iter().map(|object| object.subject().kind.name()).collect();
                return Err(KernelError::NotABundle { kinds });
            }
        };
        let shared = |shared: bool, object: Subject| (!shared).then_some(object);
        let refused = parts
            .resource
            .and_then(|id| shared(self.resources[id].nt_shared, id.subject()))
            .or_else(|| {
                let keyed_mutex = parts.keyed_mutex?;
                shared(self.is_keyed_mutex_nt_shared(keyed_mutex), keyed_mutex.subject())
            })
            .or_else(|| {
                let sync = parts.sync?;
                shared(self.is_sync_nt_shared(sync), sync.subject())
            });
        refused.map_or(Ok(parts), |object| Err(KernelError::NotNtShared(object)))
    }

    /// Whether NT objects keep an allocation alive that has no view.
    pub(crate) fn is_nt_held(&self, allocation: Id<Allocation>) -> bool {
        let resource = self.allocations.get(allocation).and_then(|allocation| allocation.resource);
        is_resource_nt_held(&self.resources, resource)
    }

    /// The adapter of the resource that a global handle or an NT handle refers to.
    pub(super) fn adapter_of_resource(
        &self,
        resource: Id<Resource>,
    ) -> Result<Id<Adapter>, KernelError> {
        let destroyed = KernelError::ResourceDestroyed(resource.subject());
        Ok(self.resources.get(resource).ok_or(destroyed)?.adapter)
    }

    /// Checks the invariants of NT objects. Returns the first that does not hold.
    pub(crate) fn validate_nt_objects(&self) -> Result<(), String> {
        let nt = &self.lifetime.nt;
        for (number, it) in nt.objects.iter() {
            let handles = nt.handles.select(|handle| handle.object == number).len();
            if handles == 0 || handles != it.handles as usize {
                return Err(format!("{number} counts {} NT handles of {handles}", it.handles));
            }
            let named = it.name.as_ref().is_none_or(|name| {
                nt.names.get(&name_key(name)).is_some_and(|object| *object == number)
            });
            if !named {
                return Err(format!("{number} is not found by its name"));
            }
        }
        for (number, it) in self.resources.iter() {
            let holds = nt.objects.select(|object| object.parts.resource == Some(number)).len()
                + nt.ends.iter().filter(|resource| **resource == number).count();
            if (it.nt_holds as usize) < holds {
                return Err(format!("{number} counts {} of {holds} NT objects", it.nt_holds));
            }
        }
        Ok(())
    }

    /// Lists NT objects among the live objects.
    pub(crate) fn list_nt_objects(&self, all: &mut Vec<LiveObject>) {
        for (number, it) in self.lifetime.nt.objects.iter() {
            let mut why = vec![format!("{} NT handles", it.handles)];
            why.extend(it.name.as_ref().map(|name| format!("named {name}")));
            let parts = [
                it.parts.resource.map(Id::subject),
                it.parts.keyed_mutex.map(Id::subject),
                it.parts.sync.map(Id::subject),
            ];
            why.extend(parts.iter().flatten().map(|part| format!("keeps {part}")));
            all.push(LiveObject { subject: number.subject(), owner: None, reasons: why });
        }
    }
}

/// Whether NT handles keep the resource of an allocation alive, if it has one.
#[inline]
pub(crate) fn is_resource_nt_held(
    resources: &Slab<Resource>,
    resource: Option<Id<Resource>>,
) -> bool {
    let resource = resource.and_then(|resource| resources.get(resource));
    resource.is_some_and(|resource| resource.nt_holds > 0)
}

/// A name as it is compared.
///
/// WINDOWS: names are found without regard to case, also without `OBJ_CASE_INSENSITIVE` (observed).
fn name_key(name: &str) -> String {
    name.to_uppercase()
}
