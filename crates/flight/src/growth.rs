//! How the tables of live objects grow.

/// A list of at least this many elements is long.
const LONG: usize = 4096;

/// Of a long list, one element in this many is room for more.
const ROOM: usize = 16;

/// Makes room for more elements of a list. A long one grows by a sixteenth: doubled, it would leave
/// up to half of its memory unused, and the memory of a program with a million objects is mostly that
/// of such lists.
#[inline]
pub fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        grow(list, more);
    }
}

#[cold]
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.len() >= LONG {
        list.reserve_exact(more.max(list.len() / ROOM));
    } else {
        list.reserve(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_has_little_room_and_seldom_moves() {
        let (mut list, mut grown) = (Vec::new(), 0);
        for number in 0..200_000 {
            let before = list.capacity();
            make_room(&mut list, 1);
            list.push(number);
            grown += u32::from(list.capacity() != before);
            if list.len() > LONG {
                assert!(list.capacity() <= list.len() + list.len() / ROOM, "{}", list.len());
            }
        }
        assert!(grown < 100, "{grown}");
        assert!(list.into_iter().eq(0..200_000));
    }
}
