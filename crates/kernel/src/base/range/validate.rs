//! Checks the invariants of [`Ranges`].

use super::{COLUMN_BITS, COLUMNS, LAST, NONE, PLACED, Ranges, class};

impl Ranges {
    /// Checks all invariants. Returns the first one that does not hold.
    pub fn validate(&self) -> Result<(), &'static str> {
        let pieces = self.validate_order()?;
        let free = self.validate_lists()?;
        let mut spare = 0;
        let mut at = self.spare;
        while at != NONE && spare <= self.nodes.len() {
            at = self.nodes[at as usize].after;
            spare += 1;
        }
        let total: u64 = self.in_order().map(|number| u64::from(self.free_length(number))).sum();
        match () {
            () if pieces + spare != self.nodes.len() => Err("5: every node is a piece or spare"),
            () if free
                != self.in_order().filter(|number| self.free_length(*number) > 0).count() =>
            {
                Err("3: every free piece is in a list")
            }
            () if total != u64::from(self.free) => Err("what is free is counted"),
            () => Ok(()),
        }
    }

    /// Checks the order of the pieces and returns their number.
    fn validate_order(&self) -> Result<usize, &'static str> {
        let (mut end, mut last, mut count) = (0, NONE, 0);
        for node in self.in_order() {
            let it = self.nodes[node as usize];
            if it.start != end || it.length == 0 || it.before != last {
                return Err("1: the pieces are the whole memory in order");
            }
            if self.free_length(node) > 0 && self.free_length(last) > 0 {
                return Err("2: free pieces are never neighbours");
            }
            (end, last, count) = (end + it.length, node, count + 1);
        }
        Ok(count)
    }

    /// Checks the lists and returns the number of pieces in them.
    fn validate_lists(&self) -> Result<usize, &'static str> {
        let mut count = 0;
        for number in 0..=LAST {
            let mut previous = NONE;
            for node in self.listed(number) {
                let it = self.nodes[node as usize];
                let there = it.previous == previous && it.previous != PLACED;
                if !there || class(it.length) != number {
                    return Err("3: a piece is in the list of its class");
                }
                (previous, count) = (node, count + 1);
            }
            let row = (number >> COLUMN_BITS) as usize;
            let bit = self.columns[row] >> (number % COLUMNS) & 1 == 1;
            let row = (self.rows >> row & 1 == 1, self.columns[row] != 0);
            if bit != (previous != NONE) || row.0 != row.1 {
                return Err("4: a bit is set if there is a piece");
            }
        }
        Ok(count)
    }
}
