//! The served APIs of all platforms, as constants.

use vmpool_platform::RegisteredPlatform as _;
use vmpool_platform::removal_api::{ExpansionApi, ReferenceApis, RemovalApi};

use crate::registry::PlatformName;
use crate::with_platform;

/// The number of platforms.
const PLATFORMS: usize = PlatformName::ALL.len();

/// The APIs of targeted removal and of claims.
pub(crate) const REMOVAL_APIS: &[RemovalApi] =
    &join_lists::<RemovalApi, { total_length(&REMOVAL_LISTS) }>(&REMOVAL_LISTS);

/// The APIs of expansion.
pub(crate) const EXPANSION_APIS: &[ExpansionApi] =
    &join_lists::<ExpansionApi, { total_length(&EXPANSION_LISTS) }>(&EXPANSION_LISTS);

/// The APIs in the group of a platform, for clusters without it: those of the first platform that has any.
/// One server serves them for one platform only.
pub(crate) const REFERENCE_APIS: Option<ReferenceApis> = first_reference_apis();

const REMOVAL_LISTS: [&[RemovalApi]; PLATFORMS] = removal_lists();
const EXPANSION_LISTS: [&[ExpansionApi]; PLATFORMS] = expansion_lists();

const fn removal_lists() -> [&'static [RemovalApi]; PLATFORMS] {
    let mut lists: [&[RemovalApi]; PLATFORMS] = [&[]; PLATFORMS];
    let mut index = 0;
    while index < PLATFORMS {
        lists[index] = with_platform!(PlatformName::ALL[index], P => P::REMOVAL_APIS);
        index += 1;
    }
    lists
}

const fn expansion_lists() -> [&'static [ExpansionApi]; PLATFORMS] {
    let mut lists: [&[ExpansionApi]; PLATFORMS] = [&[]; PLATFORMS];
    let mut index = 0;
    while index < PLATFORMS {
        lists[index] = with_platform!(PlatformName::ALL[index], P => P::EXPANSION_APIS);
        index += 1;
    }
    lists
}

const fn first_reference_apis() -> Option<ReferenceApis> {
    let mut index = 0;
    while index < PLATFORMS {
        let apis = with_platform!(PlatformName::ALL[index], P => P::REFERENCE_APIS);
        if apis.is_some() {
            return apis;
        }
        index += 1;
    }
    None
}

const fn total_length<T>(lists: &[&[T]]) -> usize {
    let (mut length, mut index) = (0, 0);
    while index < lists.len() {
        length += lists[index].len();
        index += 1;
    }
    length
}

/// The entries of all lists, of which there are `LENGTH`. If there is none, the build fails.
const fn join_lists<T: Copy, const LENGTH: usize>(lists: &[&[T]]) -> [T; LENGTH] {
    let mut list = 0;
    while lists[list].is_empty() {
        list += 1;
    }
    let mut joined = [lists[list][0]; LENGTH];
    let mut length = 0;
    while list < lists.len() {
        let mut entry = 0;
        while entry < lists[list].len() {
            joined[length] = lists[list][entry];
            length += 1;
            entry += 1;
        }
        list += 1;
    }
    joined
}
