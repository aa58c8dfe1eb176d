//! The table of platforms. A program that does something for each platform, or for one that a user chose,
//! takes the platforms from here, so that a new platform is one row.

use std::fmt;
use std::str::FromStr;

use crate::{Platform as _, RegisteredPlatform as _};

/// Calls a macro with the table: for each platform, its variant of [`PlatformName`], its crate and its type.
#[doc(hidden)]
#[macro_export]
macro_rules! platform_table {
    ($macro:ident! $($arguments:tt)*) => {
        $crate::$macro! {
            [
                Dvp => vmpool_dvp::Dvp,
                Kubevirt => vmpool_kubevirt::KubeVirt,
            ]
            $($arguments)*
        }
    };
}

/// Evaluates an expression for the platform with a name. In the expression, the given word is the type of the
/// platform, which implements [`RegisteredPlatform`](crate::RegisteredPlatform):
///
/// ```
/// use vmpool_platforms::{Platform, PlatformName, with_platform};
///
/// for name in PlatformName::ALL {
///     println!("{}", with_platform!(name, P => P::NAME));
/// }
/// ```
#[macro_export]
macro_rules! with_platform {
    ($name:expr, $platform:ident => $body:expr) => {
        $crate::platform_table! { match_platform! $name, $platform => $body }
    };
}

/// The body of [`with_platform`].
#[doc(hidden)]
#[macro_export]
macro_rules! match_platform {
    ([$($variant:ident => $module:ident::$type:ident,)+] $name:expr, $platform:ident => $body:expr) => {
        match $name {
            $($crate::PlatformName::$variant => {
                type $platform = $crate::registered::$type;
                $body
            })+
        }
    };
}

/// Defines [`PlatformName`] and exports the types, because other crates cannot name the crates of platforms.
#[doc(hidden)]
#[macro_export]
macro_rules! define_platforms {
    ([$($variant:ident => $module:ident::$type:ident,)+]) => {
        /// The types of the platforms in the table.
        pub mod registered {
            $(pub use $module::$type;)+
        }

        /// The name of a platform, in flags, metrics and logs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PlatformName {
            $(
                #[doc = concat!("The platform [`", stringify!($type), "`](registered::", stringify!($type), ").")]
                $variant,
            )+
        }

        impl PlatformName {
            /// All platforms, in the order of the table.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];
        }
    };
}

crate::platform_table! { define_platforms! }

/// No platform has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no platform")]
pub struct UnknownPlatform(String);

impl PlatformName {
    /// The text of the name.
    pub fn as_str(self) -> &'static str {
        with_platform!(self, P => P::NAME)
    }

    /// The product, for the help of flags.
    pub fn product(self) -> &'static str {
        with_platform!(self, P => P::PRODUCT)
    }

    /// What the help of flags says about a controller that reconciles its pools.
    pub fn reconciled(self) -> &'static str {
        with_platform!(self, P => P::RECONCILED)
    }
}

impl fmt::Display for PlatformName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PlatformName {
    type Err = UnknownPlatform;

    fn from_str(text: &str) -> Result<Self, UnknownPlatform> {
        let named = Self::ALL.into_iter().find(|platform| platform.as_str() == text);
        named.ok_or_else(|| UnknownPlatform(text.to_owned()))
    }
}
