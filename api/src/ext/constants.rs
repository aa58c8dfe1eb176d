//! Constants with a list of all of them.

/// Declares text constants, and `ALL` with their values in the order of the declaration. Programs that check
/// or document all values iterate over `ALL`, so no value can be missing there.
macro_rules! text_constants {
    ($about_all:literal; $($(#[$about:meta])+ $name:ident = $text:literal;)+) => {
        $($(#[$about])+ pub const $name: &str = $text;)+

        #[doc = $about_all]
        pub const ALL: &[&str] = &[$($name),+];
    };
}

pub(crate) use text_constants;
