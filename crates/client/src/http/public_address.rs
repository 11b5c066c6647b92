//! Test for addresses on the public internet.
//!
//! The owner of a name can point it at this machine, at a cloud's metadata service or into the
//! private network. So addresses are allowed by class, not denied by a list: of IPv6 only the
//! globally routed block. An IPv4 address inside an IPv6 address is judged itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true if an address is public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let number = address.to_bits();
    !SPECIAL_V4
        .iter()
        .any(|(block, bits)| number >> (32 - bits) == block.to_bits() >> (32 - bits))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = embedded_v4(address) {
        return is_public_v4(inner);
    }
    let number = address.to_bits();
    let within = |(block, bits): &(Ipv6Addr, u32)| number >> (128 - bits) == block.to_bits() >> (128 - bits);
    within(&GLOBAL_V6) && !SPECIAL_V6.iter().any(within)
}

/// Returns the IPv4 address inside: IPv4-mapped, NAT64 or 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [first, second, third, .., high, low] = address.segments();
    let last = || Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let upper = address.to_bits() >> 32;
    match (first, second) {
        _ if upper == 0xffff => Some(last()),
        _ if upper == 0x0064_ff9b << 64 => Some(last()),
        (0x2002, _) => Some(Ipv4Addr::from_bits(u32::from(second) << 16 | u32::from(third))),
        _ => None,
    }
}

/// Private, local, reserved, shared, documentation and multicast blocks.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The only block assigned for global unicast.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Exceptions in it: protocol assignments with Teredo, and documentation.
const SPECIAL_V6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn public(written: &str) -> bool {
        is_public(written.parse().expect("an address"))
    }

    // First and last address of each block, and the public neighbours.
    #[test]
    fn private_addresses_are_never_public() {
        for private in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.1",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "2001:1ff:ffff::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!public(private), "{private}");
        }
        for open in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert!(public(open), "{open}");
        }
    }
}
