//! Hosts that are the node or the pod itself, or a service of the network for its own machines.
//!
//! An address counts by the range that contains it and not by its spelling. An IPv6 address that stands for
//! an IPv4 address counts like that one: hosts, relays and translators send its packets there. The ranges are
//! those of the IANA registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890), as of 2026.
//!
//! A name is only compared with the known ones. What it resolves to is not looked up: another answer can
//! follow a minute later.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names that resolve to such addresses: those in the `/etc/hosts` of the usual distributions, and the
/// metadata services of clouds.
const NAMES: [&str; 20] = [
    "localhost",
    "localhost4",
    "localhost6",
    "localhost.localdomain",
    "localhost4.localdomain4",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-allhosts",
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Names below these resolve like them (RFC 6761), or are those of a metadata service in a region.
const SUFFIXES: [&str; 3] = [".localhost", ".localhost.localdomain", ".metadata.google.internal"];

/// Services of clouds for their own machines, outside of the link-local range: Alibaba Cloud, Oracle Cloud,
/// and the virtual address of Azure.
const METADATA: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];

/// Those of AWS and of Google Cloud.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Prefixes of this length have all bits of an address.
const BITS: u32 = 128;

/// A range of addresses.
struct Range {
    first: Ipv6Addr,
    prefix: u32,
}

impl Range {
    const fn new(first: [u16; 8], prefix: u32) -> Self {
        let at = first;
        Self { first: Ipv6Addr::new(at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]), prefix }
    }

    fn contains(&self, address: Ipv6Addr) -> bool {
        (self.first.to_bits() ^ address.to_bits()) >> (BITS - self.prefix) == 0
    }
}

/// The ranges without an address that a server on the Internet has.
const LOCAL_V6: [Range; 4] = [
    // Unspecified.
    Range::new([0; 8], 128),
    // Loopback.
    Range::new([0, 0, 0, 0, 0, 0, 0, 1], 128),
    // Link-local.
    Range::new([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    // Translation within a network (RFC 8215): only its translator knows which bits are the IPv4 address.
    Range::new([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
];

/// Where an IPv4 address is in an IPv6 address.
struct Embedding {
    range: Range,
    /// The number of bits after it.
    after: u32,
    /// Whether its bits are inverted.
    inverted: bool,
}

const fn ipv4_embedding(first: [u16; 8], prefix: u32, after: u32) -> Embedding {
    Embedding { range: Range::new(first, prefix), after, inverted: false }
}

/// The ranges whose addresses stand for IPv4 addresses.
const EMBEDDINGS: [Embedding; 7] = [
    // IPv4-compatible.
    ipv4_embedding([0; 8], 96, 0),
    // IPv4-mapped.
    ipv4_embedding([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, 0),
    // IPv4-translated (RFC 2765).
    ipv4_embedding([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, 0),
    // NAT64 (RFC 6052).
    ipv4_embedding([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, 0),
    // 6to4 (RFC 3056).
    ipv4_embedding([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, 80),
    // Teredo (RFC 4380): its server, and the client behind it.
    ipv4_embedding([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, 64),
    Embedding { range: Range::new([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), after: 0, inverted: true },
];

/// The interface identifiers of ISATAP (RFC 5214), which any prefix can precede. The IPv4 address follows
/// them.
const ISATAP: [u32; 2] = [0x0000_5efe, 0x0200_5efe];

/// Whether a host, in lower case and without a dot at its end, is such a name or address.
pub(super) fn is_local(host: &str) -> bool {
    if NAMES.contains(&host) || SUFFIXES.iter().any(|suffix| host.ends_with(suffix)) {
        return true;
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().ok().or_else(|| legacy_ipv4(bare).map(IpAddr::V4));
    match address {
        Some(IpAddr::V4(address)) => is_local_v4(address),
        Some(IpAddr::V6(address)) => is_local_v6(address),
        None => false,
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.octets()[0] == 0
        || METADATA.contains(&address)
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    LOCAL_V6.iter().any(|range| range.contains(address))
        || METADATA_V6.contains(&address)
        || embedded_ipv4_addresses(address).any(is_local_v4)
}

/// The IPv4 addresses that an IPv6 address stands for.
fn embedded_ipv4_addresses(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let bits = address.to_bits();
    // The lower half of what is left is the address.
    let at = move |after: u32| {
        Ipv4Addr::from_bits(u32::try_from(bits >> after & u128::from(u32::MAX)).unwrap_or(0))
    };
    let known = EMBEDDINGS.iter().filter(move |known| known.range.contains(address));
    let found = known.map(move |known| {
        let found = at(known.after);
        if known.inverted { Ipv4Addr::from_bits(!found.to_bits()) } else { found }
    });
    let is_isatap = ISATAP.contains(&at(32).to_bits());
    found.chain(is_isatap.then(|| at(0)))
}

/// The forms of an IPv4 address that the C library or a browser accepts: fewer than four numbers, octal and
/// hexadecimal ones.
fn legacy_ipv4(host: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = host.split('.').collect();
    let (last, first) = parts.split_last()?;
    if first.len() > 3 {
        return None;
    }
    let mut value: u32 = 0;
    for part in first {
        let byte = u8::try_from(parse_ipv4_number(part)?).ok()?;
        value = (value << 8) | u32::from(byte);
    }
    let bits = 32 - 8 * u32::try_from(first.len()).ok()?;
    let rest = parse_ipv4_number(last)?;
    if bits < 32 && rest >= 1 << bits {
        return None;
    }
    let high = u64::from(value) << bits;
    Some(Ipv4Addr::from_bits(u32::try_from(high | rest).ok()?))
}

fn parse_ipv4_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        // The URL standard reads zero here.
        Some("") => return Some(0),
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    valid
        .then(|| u64::from_str_radix(digits, radix).ok())
        .flatten()
        .filter(|value| u32::try_from(*value).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_loopback_of_ipv6("ip6-localhost")]
    #[case::its_other_name("ip6-loopback")]
    #[case::of_red_hat("localhost6.localdomain6")]
    #[case::aws("instance-data")]
    #[case::aws_with_its_domain("instance-data.ec2.internal")]
    #[case::google_cloud("metadata.goog")]
    #[case::compatible("[::127.0.0.1]")]
    #[case::mapped("[::ffff:169.254.169.254]")]
    #[case::mapped_in_hexadecimal("[::ffff:a9fe:a9fe]")]
    #[case::translated_by_a_host("[::ffff:0:169.254.169.254]")]
    #[case::nat64("[64:ff9b::169.254.169.254]")]
    #[case::nat64_of_a_network("[64:ff9b:1::a9fe:a9fe]")]
    #[case::loopback_in_6to4("[2002:7f00:1::]")]
    #[case::metadata_in_6to4("[2002:a9fe:a9fe::1]")]
    #[case::alibaba_cloud_in_6to4("[2002:6464:64c8::1]")]
    #[case::a_teredo_server("[2001:0:a9fe:a9fe::1]")]
    #[case::a_teredo_client("[2001:0:4136:e378:8000:63bf:5601:5601]")]
    #[case::isatap("[2001:db8::5efe:127.0.0.1]")]
    #[case::isatap_with_a_global_address("[2001:db8::200:5efe:a9fe:a9fe]")]
    #[case::broadcast("255.255.255.255")]
    #[case::zero_without_a_digit("0x")]
    #[case::loopback_with_zeros_without_digits("127.0x.0x.1")]
    fn local(#[case] host: &str) {
        assert!(is_local(host), "{host}");
    }

    #[rstest]
    #[case::a_name_that_begins_like_one("metadata.goog.example.com")]
    #[case::a_name_that_ends_like_one("my-instance-data")]
    #[case::a_private_address("10.0.0.7")]
    #[case::a_private_address_of_ipv6("[fd12:3456::1]")]
    #[case::a_server("[2a00:1450:4001::1]")]
    #[case::a_mapped_server("[::ffff:93.184.215.14]")]
    #[case::a_server_in_6to4("[2002:5db8:d70e::1]")]
    #[case::a_server_behind_nat64("[64:ff9b::93.184.215.14]")]
    #[case::a_neighbor_of_teredo("[2001:1:a9fe:a9fe::1]")]
    fn not_local(#[case] host: &str) {
        assert!(!is_local(host), "{host}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn an_address_for_the_url_standard_is_one_here(host in "(0|0x|00|1|7f|8|127|255|256|4294967295|\\.){1,8}") {
            let Ok(url) = url::Url::parse(&format!("https://{host}/")) else { return Ok(()) };
            if let Some(url::Host::Ipv4(address)) = url.host() {
                prop_assert_eq!(legacy_ipv4(host.strip_suffix('.').unwrap_or(&host)), Some(address), "{}", host);
            }
        }

        #[test]
        fn an_embedded_address_counts_like_itself(bits: u32, in_range in 0..4_u8) {
            let plain = Ipv4Addr::from_bits(match in_range {
                0 => bits,
                1 => 0x7f00_0000 | bits >> 8,
                2 => 0xa9fe_0000 | bits >> 16,
                _ => METADATA[bits as usize % METADATA.len()].to_bits(),
            });
            let low = u128::from(plain.to_bits());
            let forms = [
                low | 0xffff << 32,
                low | 0xffff << 48,
                low | 0x0064_ff9b << 96,
                low << 80 | 0x2002 << 112,
                // A client behind a server with a public address.
                u128::from(!plain.to_bits()) | 0x4136_e378 << 64 | 0x2001_0000 << 96,
            ];
            for form in forms {
                let host = format!("[{}]", Ipv6Addr::from_bits(form));
                prop_assert_eq!(is_local(&host), is_local_v4(plain), "{} {}", host, plain);
            }
        }
    }
}
