//! What was at an address that a packet touched in vain.
