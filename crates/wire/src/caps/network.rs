//! A network that a capability is bound to: `10.0.0.0/8`.
//!
//! Follows Ceph v16.2 `src/common/ipaddr.cc`. A text without a prefix length is no network, and a capability bound to
//! no network never applies.

use core::net::IpAddr;

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// Reads `ADDRESS/BITS`.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        Some(Network { address, prefix_bits: bits.parse().ok()? })
    }

    /// Whether `address` is of this network; of the other family none is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let high = |bits: u128, width: u32| match self.prefix_bits.min(width) {
            0 => 0,
            count => bits >> (width - count),
        };
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => high(a.to_bits().into(), 32) == high(b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => high(a.to_bits(), 128) == high(b.to_bits(), 128),
            _ => false,
        }
    }
}

/// What a grant says of where its holder must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Place {
    #[default]
    Anywhere,
    Within(Network),
    /// Bound to something that is no network.
    Nowhere,
}

impl Place {
    pub(super) fn new(text: Option<&str>) -> Place {
        match text {
            None => Place::Anywhere,
            Some(text) => Network::parse(text).map_or(Place::Nowhere, Place::Within),
        }
    }

    pub(super) fn admits(&self, from: Option<IpAddr>) -> bool {
        match self {
            Place::Anywhere => true,
            Place::Within(network) => from.is_some_and(|from| network.contains(from)),
            Place::Nowhere => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_they_should() {
        let address = |text: &str| text.parse::<IpAddr>().expect("a literal address");
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.1.2.3", "11.0.0.1"),
            ("192.168.1.7/32", "192.168.1.7", "192.168.1.6"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("fe80::/10", "fe80::1", "fec0::1"),
            ("::1/128", "::1", "::2"),
        ] {
            let network = Network::parse(network).expect("a literal network");
            assert!(network.contains(address(inside)) && !network.contains(address(outside)), "{network:?}");
        }
        assert_eq!(Network::parse("10.0.0.1"), None);
        assert_eq!(Network::parse("10.0.0/8"), None);
        assert!(!Place::new(Some("10.0.0.1")).admits(Some(address("10.0.0.1"))));
        assert!(!Place::new(Some("10.0.0.0/8")).admits(None));
    }
}
