//! The macros that define the tables of this crate.

/// The value whose bytes are all zero.
pub(crate) trait Zero {
    const ZERO: Self;
}

macro_rules! zero {
    ($($type:ty),*) => { $(impl Zero for $type { const ZERO: Self = 0; })* };
}
zero!(u8, u16, u32, u64, usize, i16, i32, i64);

impl<T> Zero for *const T {
    const ZERO: Self = core::ptr::null();
}

impl<T> Zero for *mut T {
    const ZERO: Self = core::ptr::null_mut();
}

/// Only function pointers are optional here, and an absent one is null.
impl<T> Zero for Option<T> {
    const ZERO: Self = None;
}

impl<T: Zero, const N: usize> Zero for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}

/// Checks the size of a struct and the offset of every member, and gives it a `ZERO`.
macro_rules! layout {
    ($name:ident: $size:literal { $($member:ident: $offset:literal),+ $(,)? }) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(core::mem::offset_of!($name, $member) == $offset);)+
        };

        impl $crate::macros::Zero for $name {
            const ZERO: Self = Self { $($member: $crate::macros::Zero::ZERO),+ };
        }

        impl $name {
            /// All zero.
            pub const ZERO: Self = <Self as $crate::macros::Zero>::ZERO;
        }
    };
}

/// A 32-bit integer of flags: the named bits, by number.
macro_rules! flags {
    ($name:ident { $($flag:ident: $bit:literal),* $(,)? }) => {
        flags_of! { $name, u32, 4, { $($flag: $bit),* } }
    };
}

/// The same with 64 bits.
macro_rules! flags64 {
    ($name:ident { $($flag:ident: $bit:literal),* $(,)? }) => {
        flags_of! { $name, u64, 8, { $($flag: $bit),* } }
    };
}

/// A set of flags in a number of this type and size.
macro_rules! flags_of {
    ($name:ident, $number:ty, $size:literal, { $($flag:ident: $bit:literal),* }) => {
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $name {
            pub Value: $number,
        }
        layout! { $name: $size { Value: 0 } }

        impl $name {
            $(pub const $flag: $number = 1 << $bit;)*

            /// The reserved bits.
            pub const RESERVED: $number = !(0 $(| Self::$flag)*);

            /// Whether any bit of `mask` is set.
            pub const fn has(self, mask: $number) -> bool {
                self.Value & mask != 0
            }
        }
    };
}

/// An enumeration of Windows: an integer, and names for the known values.
macro_rules! values {
    ($type:ident { $($name:ident = $value:literal),+ $(,)? }) => {
        pub type $type = i32;
        $(pub const $name: $type = $value;)+
    };
}

/// A table of functions: its header, then every slot with its offset, and no gap.
///
/// Each table defines `LENGTHS`: interface versions, and the length of the table in bytes.
macro_rules! table {
    (
        $name:ident: $size:literal
        { $($head_at:literal $head:ident: $head_type:ty,)* }
        { $($at:literal $slot:ident: $type:ty,)+ }
    ) => {
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(pub $head: $head_type,)*
            $(pub $slot: Option<$type>,)+
        }
        layout! { $name: $size { $($head: $head_at,)* $($slot: $at),+ } }

        impl $name {
            /// The names of the slots, in order.
            pub const SLOTS: &[&str] = &[$(stringify!($slot)),+];

            /// The length of the table in bytes, for an interface version.
            pub fn length(version: u32) -> Option<usize> {
                Self::LENGTHS.iter().find(|it| it.0 == version).map(|it| it.1)
            }

            /// The same table without the slots that an interface version does not have.
            #[must_use]
            pub fn up_to(mut self, version: u32) -> Self {
                let length = Self::length(version).unwrap_or(0);
                $(if $at + size_of::<usize>() > length {
                    self.$slot = None;
                })+
                self
            }

            /// The names of the slots that are filled in, in order, with the addresses of their
            /// functions.
            pub fn addresses(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
                let addresses = [$(self.$slot.map(|function| function as usize)),+];
                let named = Self::SLOTS.iter().copied().zip(addresses);
                named.filter_map(|(name, address)| Some((name, address?)))
            }

            /// The names of the slots that are filled in, in order.
            pub fn filled(&self) -> impl Iterator<Item = &'static str> + use<> {
                let filled = [$(self.$slot.is_some()),+];
                Self::SLOTS.iter().zip(filled).filter_map(|(name, filled)| filled.then_some(*name))
            }
        }
    };
}
