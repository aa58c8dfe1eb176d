//! The flag with the platforms.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vmpool_platforms::{PlatformName, UnknownPlatform};

/// A value of `--platforms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlatformChoice {
    /// All platforms of the registry.
    Auto,
    /// One platform.
    Named(PlatformName),
}

impl PlatformChoice {
    /// The text of [`PlatformChoice::Auto`].
    const AUTO: &'static str = "auto";

    /// Whether the choice includes a platform.
    pub(super) fn includes(self, platform: PlatformName) -> bool {
        match self {
            Self::Auto => true,
            Self::Named(named) => named == platform,
        }
    }
}

impl FromStr for PlatformChoice {
    type Err = UnknownPlatform;

    fn from_str(text: &str) -> Result<Self, UnknownPlatform> {
        if text == Self::AUTO { Ok(Self::Auto) } else { text.parse().map(Self::Named) }
    }
}

/// The parser of the name of a platform. The help lists the platforms of the registry.
pub(super) fn platform_parser() -> impl TypedValueParser<Value = PlatformChoice> {
    let named = PlatformName::ALL.map(|name| PossibleValue::new(name.as_str()).help(name.reconciled()));
    let auto =
        PossibleValue::new(PlatformChoice::AUTO).help("Each platform whose definitions the cluster has");
    let values: Vec<PossibleValue> = named.into_iter().chain([auto]).collect();
    PossibleValuesParser::new(values).try_map(|name| name.parse::<PlatformChoice>())
}
