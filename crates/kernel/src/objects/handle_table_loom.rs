//! Handle tables under loom, as the kernel uses them: under its one lock, next to the objects, from
//! a few threads in every possible order. `cargo xtask test` builds it (`--cfg loom`).
//!
//! No lock is held while a driver creates an object, so a handle is reserved and published in two
//! separate locked sections. A lookup and the action based on it share one.

use crate::base::id_list::ids;
use crate::lock::Lock;
use crate::objects::handle_table::{Handle, HandleError, HandleTable, ObjectId, ReservedHandle};
use loom::model;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

/// A small kernel state: a handle table and the objects.
struct Desk {
    handles: HandleTable,
    there: Vec<ObjectId>,
}

type Shared = Arc<Lock<Desk>>;

/// The first and the second value of a table: a client can guess them.
const FIRST: Handle = Handle(0x4000_0000);
const SECOND: Handle = Handle(0x4000_0040);

/// The device of that number, from one to three.
fn device(number: usize) -> ObjectId {
    ObjectId::Device(ids::<_, 3>()[number - 1])
}

fn desk() -> Shared {
    Arc::new(Lock::new(Desk { handles: HandleTable::local(), there: Vec::new() }))
}

fn spawn<T: 'static>(desk: &Shared, body: impl FnOnce(&Shared) -> T + 'static) -> JoinHandle<T> {
    let desk = desk.clone();
    thread::spawn(move || body(&desk))
}

fn reserve(desk: &Shared, object: ObjectId) -> ReservedHandle {
    let mut it = desk.lock();
    let reserved = it.handles.reserve().expect("room for a handle");
    it.handles.bind(&reserved, object);
    reserved
}

/// A create: the handle is published and the object added in one locked section.
fn create(desk: &Shared, number: usize) -> Handle {
    let object = device(number);
    let reserved = reserve(desk, object);
    let mut it = desk.lock();
    it.there.push(object);
    it.handles.publish(reserved, object)
}

/// A create that the driver fails.
fn fail(desk: &Shared, number: usize) -> Handle {
    let reserved = reserve(desk, device(number));
    let handle = reserved.handle();
    desk.lock().handles.cancel(reserved);
    handle
}

/// A client's lookup: the object of a handle exists.
fn look(desk: &Shared, handle: Handle) {
    let it = desk.lock();
    if let Ok(object) = it.handles.lookup(handle) {
        assert!(it.there.contains(&object), "a handle has no object");
    }
}

/// A destroy: the handle is closed and the object removed in one locked section.
fn destroy(desk: &Shared, handle: Handle) -> Result<ObjectId, HandleError> {
    let mut it = desk.lock();
    let object = it.handles.close(handle)?;
    remove(&mut it, object);
    Ok(object)
}

fn remove(desk: &mut Desk, object: ObjectId) {
    let place = desk.there.iter().position(|it| *it == object);
    desk.there.remove(place.expect("the object exists"));
}

/// The invariants while no thread is inside a call.
fn check(desk: &Shared) {
    let it = desk.lock();
    let named: Vec<ObjectId> = it.handles.iter().map(|(_, object)| object).collect();
    assert_eq!(it.handles.live(), named.len());
    assert!(named.iter().all(|object| it.there.contains(object)), "{named:?}");
    assert_eq!(named.len(), it.there.len(), "each object has one handle");
}

#[test]
fn a_name_leads_to_what_is_there_or_nowhere() {
    model(|| {
        let desk = desk();
        let creates = spawn(&desk, |desk| create(desk, 1));
        let destroys = spawn(&desk, |desk| {
            look(desk, FIRST);
            destroy(desk, FIRST)
        });
        // The driver may look up at any time: the handle is unbound, or bound to its object.
        let promised = desk.lock().handles.lookup_for_driver(FIRST);
        assert!(promised.is_none_or(|it| it == device(1)), "{promised:?}");
        let handle = creates.join().unwrap();
        match destroys.join().unwrap() {
            Ok(object) => {
                assert_eq!(object, device(1));
                let stale = HandleError::Closed(Some(object.subject()));
                assert_eq!(desk.lock().handles.lookup(handle), Err(stale));
            }
            Err(why) => {
                assert!(matches!(why, HandleError::Unknown | HandleError::Unpublished), "{why:?}");
                assert_eq!(desk.lock().handles.lookup(handle), Ok(device(1)));
            }
        }
        check(&desk);
    });
}

#[test]
fn a_name_that_is_taken_back_is_given_to_one_and_was_never_live() {
    model(|| {
        let desk = desk();
        let creates = spawn(&desk, |desk| create(desk, 1));
        let fails = spawn(&desk, |desk| fail(desk, 2));
        look(&desk, FIRST);
        look(&desk, SECOND);
        let (made, error) = (creates.join().unwrap(), fails.join().unwrap());
        assert!([FIRST, SECOND].contains(&made) && [FIRST, SECOND].contains(&error));
        assert_eq!(desk.lock().handles.lookup(made), Ok(device(1)));
        // The canceled value is not used up: the next create gets it.
        let next = create(&desk, 3);
        assert_eq!(next, if made == FIRST { SECOND } else { FIRST });
        check(&desk);
    });
}

#[test]
fn of_two_that_close_a_name_one_has_what_it_named() {
    model(|| {
        let desk = desk();
        let handle = create(&desk, 1);
        let others = [(); 2].map(|()| spawn(&desk, move |desk| destroy(desk, handle).is_ok()));
        look(&desk, handle);
        let had = others.map(|it| it.join().unwrap());
        assert_eq!(had.iter().filter(|it| **it).count(), 1, "{had:?}");
        check(&desk);
    });
}

/// A deliberate bug: the handle is published in one locked section, and the object added in the
/// next.
#[test]
#[should_panic(expected = "a handle has no object")]
fn a_planted_publish_before_its_object_is_found() {
    model(|| {
        let desk = desk();
        let creates = spawn(&desk, |desk| {
            let object = device(1);
            let reserved = reserve(desk, object);
            desk.lock().handles.publish(reserved, object);
            desk.lock().there.push(object);
        });
        look(&desk, FIRST);
        creates.join().unwrap();
    });
}

/// A deliberate bug: the handle is looked up in one locked section, and acted upon in the next.
#[test]
#[should_panic(expected = "the object exists")]
fn a_planted_look_and_close_under_two_holds_is_found() {
    model(|| {
        let desk = desk();
        let handle = create(&desk, 1);
        let careless = move |desk: &Shared| {
            let Ok(object) = desk.lock().handles.lookup(handle) else { return };
            let mut it = desk.lock();
            let _ = it.handles.close(handle); // It was live in the section before.
            remove(&mut it, object);
        };
        let other = spawn(&desk, careless);
        careless(&desk);
        other.join().unwrap();
    });
}
