//! Ranges: an allocator of address ranges within a memory.
//!
//! The bookkeeping is outside the memory, because the memory may be a GPU's. Free ranges are sorted
//! into classes by length, so that two bit searches find one that fits. `allocate` and `free` take
//! constant time. Only an `allocate` that is about to fail, because no class certainly fits,
//! searches the ranges of the classes that may fit.
//!
//! # Invariants
//!
//! 1. The pieces, from `first` along `after`, cover the whole memory in order, without a gap.
//! 2. Two free pieces are never neighbors.
//! 3. A free piece is in the list of its length's class, once; a placed piece is in no list.
//! 4. A bit of `columns` is set if the class's list is not empty; a bit of `rows` is set if a bit
//!    of that row's columns is.
//! 5. Every node is a piece or spare. A placed range keeps its node until it is freed.
//! 6. Starts and lengths of pieces are counted in granules, in 32 bits. Granules beyond that are
//!    never placed.

#[cfg(test)]
mod tests;
mod validate;

/// No node.
const NONE: u32 = u32::MAX;
/// Replaces the previous list node: the piece is placed.
const PLACED: u32 = u32::MAX - 1;

/// Number of classes in a row. A row has the lengths with the same highest bit.
const COLUMNS: u32 = 16;
const COLUMN_BITS: u32 = COLUMNS.trailing_zeros();
/// The first row has the lengths below `COLUMNS`, each with its own class.
const ROWS: usize = (u32::BITS - COLUMN_BITS + 1) as usize;

/// A memory and its placed ranges.
#[derive(Debug)]
pub struct Ranges {
    nodes: Vec<Node>,
    /// The first spare node. Spare nodes are linked by `after`.
    spare: u32,
    first: u32,
    heads: [u32; ROWS << COLUMN_BITS],
    rows: u32,
    columns: [u16; ROWS],
    free: u32,
    shift: u32,
}

/// A piece of the memory, in granules.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    length: u32,
    before: u32,
    after: u32,
    /// The previous node of its class, or `PLACED`.
    previous: u32,
    next: u32,
}

/// A placed range. Not `Clone`: freeing it consumes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a dropped range is never freed"]
pub struct PlacedRange {
    node: u32,
    start: u32,
    length: u32,
    shift: u32,
}

/// A part of the memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangePiece {
    /// Start in bytes.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// The number of its placed range, if it is placed.
    pub placed: Option<u32>,
}

impl PlacedRange {
    /// Start in bytes.
    pub fn start(&self) -> u64 {
        u64::from(self.start) << self.shift
    }

    /// Size in bytes: the requested size, rounded up to granules.
    pub fn size(&self) -> u64 {
        u64::from(self.length) << self.shift
    }

    /// Its number, unique among the placed ranges.
    pub fn number(&self) -> u32 {
        self.node
    }
}

impl Ranges {
    /// A free memory of `size` bytes, allocated in granules of `granule` bytes, a power of two.
    pub fn new(size: u64, granule: u64) -> Self {
        debug_assert!(granule.is_power_of_two(), "a granule is a power of two");
        let shift = granule.trailing_zeros();
        let length = u32::try_from(size >> shift).unwrap_or(u32::MAX);
        let mut it = Self {
            nodes: Vec::new(),
            spare: NONE,
            first: NONE,
            heads: [NONE; ROWS << COLUMN_BITS],
            rows: 0,
            columns: [0; ROWS],
            free: length,
            shift,
        };
        if length > 0 {
            it.first = it.add(Node { start: 0, length, ..Node::ALONE });
            it.link(it.first);
        }
        it
    }

    /// Places `size` bytes at a multiple of `align`, a power of two. Returns `None` if they do not
    /// fit, if `size` is zero, or if `align` is not a power of two.
    pub fn allocate(&mut self, size: u64, align: u64) -> Option<PlacedRange> {
        let length = u32::try_from(self.granules(size)).ok().filter(|number| *number > 0)?;
        let step = u32::try_from(self.granules(align)).ok().filter(|_| align.is_power_of_two())?;
        let fits = rounded_class(length).and_then(|class| self.at_or_above(class));
        let node = match fits {
            // The first range that is long enough may also be aligned.
            Some(node) if self.fit_in_node(node, length, step).is_some() => node,
            _ => self.aligned(length, step)?,
        };
        let start = self.fit_in_node(node, length, step)?;
        let node = self.carve(node, start, length);
        Some(PlacedRange { node, start, length, shift: self.shift })
    }

    /// Places `size` bytes at `start`. Returns `None` if these bytes are not free. Searches all
    /// ranges.
    pub fn allocate_at(&mut self, start: u64, size: u64) -> Option<PlacedRange> {
        let length = u32::try_from(self.granules(size)).ok().filter(|number| *number > 0)?;
        let start = u32::try_from(start >> self.shift).ok()?;
        let holds = |node: &u32| {
            let it = self.nodes[*node as usize];
            let before = start.checked_sub(it.start);
            let capacity = before.and_then(|it_is| it.length.checked_sub(it_is));
            it.previous != PLACED && capacity.is_some_and(|number| number >= length)
        };
        let node = self.in_order().find(holds)?;
        let node = self.carve(node, start, length);
        Some(PlacedRange { node, start, length, shift: self.shift })
    }

    /// Frees a range.
    #[expect(clippy::needless_pass_by_value, reason = "freeing a range consumes it")]
    pub fn free(&mut self, range: PlacedRange) {
        let PlacedRange { node, start, length, .. } = range;
        let it = self.nodes[node as usize];
        debug_assert!(it.is(start, length), "a range of another memory");
        self.free += length;
        // Both neighbors are far away in memory: reading them together overlaps the cache misses.
        let (ahead, waits) = (self.free_length(it.before), self.free_length(it.after));
        if waits > 0 {
            self.unlink(it.after);
            self.nodes[node as usize].length += waits;
            self.remove_node(it.after);
        }
        if ahead == 0 {
            self.link(node);
        } else {
            self.remove_node(node);
            self.resize(it.before, ahead + length + waits);
        }
    }

    /// The longest free range, in bytes.
    pub fn largest(&self) -> u64 {
        let Some(row) = self.rows.checked_ilog2() else { return 0 };
        let column = self.columns[row as usize].ilog2();
        let longest =
            self.listed(row << COLUMN_BITS | column).map(|number| self.length(number)).max();
        u64::from(longest.unwrap_or(0)) << self.shift
    }

    /// Number of free bytes.
    pub fn free_bytes(&self) -> u64 {
        u64::from(self.free) << self.shift
    }

    /// The placed and free pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = RangePiece> {
        self.in_order().map(|node| {
            let it = self.nodes[node as usize];
            let (start, size) = (u64::from(it.start) << self.shift, u64::from(it.length));
            let range = (it.previous == PLACED).then_some(node);
            RangePiece { start, size: size << self.shift, placed: range }
        })
    }

    fn granules(&self, bytes: u64) -> u64 {
        bytes.div_ceil(1 << self.shift)
    }

    fn length(&self, node: u32) -> u32 {
        self.nodes[node as usize].length
    }

    /// The length of a node, or zero if it is not a free piece.
    fn free_length(&self, node: u32) -> u32 {
        self.nodes
            .get(node as usize)
            .filter(|node| node.previous != PLACED)
            .map_or(0, |node| node.length)
    }

    fn in_order(&self) -> impl Iterator<Item = u32> {
        let some = |node: u32| Some(node).filter(|number| *number != NONE);
        std::iter::successors(some(self.first), move |number| {
            some(self.nodes[*number as usize].after)
        })
    }

    fn listed(&self, class: u32) -> impl Iterator<Item = u32> {
        let some = |node: u32| Some(node).filter(|number| *number != NONE);
        let head = some(self.heads[class as usize]);
        std::iter::successors(head, move |number| some(self.nodes[*number as usize].next))
    }

    /// Where `length` granules fit in a free piece, at a multiple of `step`, a power of two.
    fn fit_in_node(&self, node: u32, length: u32, step: u32) -> Option<u32> {
        let it = self.nodes[node as usize];
        let start = it.start.checked_add(step - 1)? & !(step - 1);
        (start - it.start <= it.length.checked_sub(length)?).then_some(start)
    }

    /// The first piece of the lowest non-empty class at or above this one.
    fn at_or_above(&self, class: u32) -> Option<u32> {
        let (mut row, column) = (class >> COLUMN_BITS, class % COLUMNS);
        let mut columns = self.columns[row as usize] & u16::MAX << column;
        if columns == 0 {
            let rows = self.rows & u32::MAX << (row + 1);
            row = rows.trailing_zeros();
            columns = *self.columns.get(row as usize)?;
        }
        Some(self.heads[(row << COLUMN_BITS | columns.trailing_zeros()) as usize])
    }

    /// A piece that fits: one that is long enough for any alignment, or else any that fits.
    fn aligned(&self, length: u32, step: u32) -> Option<u32> {
        let anywhere = length.checked_add(step - 1).and_then(rounded_class);
        if let Some(node) = anywhere.and_then(|class| self.at_or_above(class)) {
            return Some(node);
        }
        let classes = class(length)..=anywhere.unwrap_or(LAST);
        let listed = classes.flat_map(|class| self.listed(class));
        listed.into_iter().find(|number| self.fit_in_node(*number, length, step).is_some())
    }

    /// Takes a part out of a free piece. The rest before and after it stays free.
    fn carve(&mut self, node: u32, start: u32, length: u32) -> u32 {
        let it = self.nodes[node as usize];
        let (ahead, waits) = (start - it.start, it.length - length - (start - it.start));
        self.free -= length;
        if ahead == 0 && waits == 0 {
            self.unlink(node);
            self.nodes[node as usize].previous = PLACED;
            return node;
        }
        let placed = Node { start, length, previous: PLACED, ..Node::ALONE };
        if ahead == 0 {
            // The rest keeps the node, and usually its position in the list.
            self.nodes[node as usize].start += length;
            self.resize(node, waits);
            return self.insert(placed, it.before, node);
        }
        self.resize(node, ahead);
        let placed = self.insert(placed, node, it.after);
        if waits > 0 {
            let rest = Node { start: start + length, length: waits, ..Node::ALONE };
            let rest = self.insert(rest, placed, it.after);
            self.link(rest);
        }
        placed
    }

    /// Inserts a node for a piece between two others, or at an end.
    fn insert(&mut self, node: Node, before: u32, after: u32) -> u32 {
        let it = self.add(Node { before, after, ..node });
        self.join(before, it);
        self.join(it, after);
        it
    }

    fn join(&mut self, before: u32, after: u32) {
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.first = after,
        }
        if let Some(node) = self.nodes.get_mut(after as usize) {
            node.before = before;
        }
    }

    fn add(&mut self, node: Node) -> u32 {
        let spare = self.spare;
        if let Some(it) = self.nodes.get_mut(spare as usize) {
            self.spare = it.after;
            *it = node;
            return spare;
        }
        self.nodes.push(node);
        // A piece has at least one granule, and granules are counted in 32 bits.
        u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
    }

    /// Removes a piece: its neighbors become adjacent.
    fn remove_node(&mut self, node: u32) {
        let it = self.nodes[node as usize];
        self.join(it.before, it.after);
        self.nodes[node as usize] = Node { after: self.spare, ..Node::ALONE };
        self.spare = node;
    }

    /// Changes the length of a free piece, and moves it to another list if its class changes.
    fn resize(&mut self, node: u32, length: u32) {
        if class(self.length(node)) == class(length) {
            self.nodes[node as usize].length = length;
        } else {
            self.unlink(node);
            self.nodes[node as usize].length = length;
            self.link(node);
        }
    }

    fn link(&mut self, node: u32) {
        let class = class(self.length(node));
        let (row, column) = ((class >> COLUMN_BITS) as usize, class % COLUMNS);
        let head = std::mem::replace(&mut self.heads[class as usize], node);
        let it = &mut self.nodes[node as usize];
        (it.previous, it.next) = (NONE, head);
        if let Some(next) = self.nodes.get_mut(head as usize) {
            next.previous = node;
        }
        self.columns[row] |= 1 << column;
        self.rows |= 1 << row;
    }

    fn unlink(&mut self, node: u32) {
        let Node { length, previous, next, .. } = self.nodes[node as usize];
        if let Some(it) = self.nodes.get_mut(next as usize) {
            it.previous = previous;
        }
        if let Some(it) = self.nodes.get_mut(previous as usize) {
            it.next = next;
            return;
        }
        let class = class(length);
        self.heads[class as usize] = next;
        if next == NONE {
            let (row, column) = ((class >> COLUMN_BITS) as usize, class % COLUMNS);
            self.columns[row] &= !(1 << column);
            self.rows &= !(u32::from(self.columns[row] == 0) << row);
        }
    }
}

impl Node {
    const ALONE: Self =
        Self { start: 0, length: 0, before: NONE, after: NONE, previous: NONE, next: NONE };

    /// Whether it is placed at `start` with this length.
    fn is(&self, start: u32, length: u32) -> bool {
        (self.start, self.length, self.previous) == (start, length, PLACED)
    }
}

const LAST: u32 = class(u32::MAX);

/// The class of a length. Classes do not decrease with length.
const fn class(length: u32) -> u32 {
    if length < COLUMNS {
        return length;
    }
    let shift = length.ilog2() - COLUMN_BITS;
    (shift << COLUMN_BITS) + (length >> shift)
}

/// The lowest class whose ranges all have at least this length.
fn rounded_class(length: u32) -> Option<u32> {
    let finer = length.max(COLUMNS).ilog2() - COLUMN_BITS;
    Some(class(length.checked_add((1 << finer) - 1)?))
}
