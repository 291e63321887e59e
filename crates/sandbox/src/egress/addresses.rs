//! Which addresses belong to the public internet, in every form that one can take. All others are reached only where a
//! grant names them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => public_v4(v4),
        IpAddr::V6(v6) => public_v6(v6),
    }
}

fn public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // From the IANA special-purpose registry. 168.63.129.16 is a cloud's metadata address in public space.
    !(matches!(a, 0 | 10 | 127 | 224..)
        || (a == 100 && (64..128).contains(&b))
        || (a, b) == (169, 254)
        || (a == 172 && (16..32).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 0, 2)
        || (a, b, c) == (192, 88, 99)
        || (a, b) == (192, 168)
        || (a == 198 && (18..20).contains(&b))
        || (a, b, c) == (198, 51, 100)
        || (a, b, c) == (203, 0, 113)
        || address == Ipv4Addr::new(168, 63, 129, 16))
}

fn public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // IPv4-mapped and NAT64: what counts is the address inside.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, benchmarking, ORCHID, documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // ISATAP: a tunnel to the IPv4 address at the end, beneath any prefix.
        [first, _, _, _, 0 | 0x200, 0x5efe, high, low] => first & 0xe000 == 0x2000 && embedded(high, low),
        // Only global unicast is assigned.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_special_addresses_are_not_public_in_any_form() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "100::1",
            "::ffff:0:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:100.100.100.200",
            "64:ff9b::10.0.0.1",
            "2002:a9fe:a9fe::1",
            "2002:c0a8:1::",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2606:4700::5efe:127.0.0.1",
            "2606:4700::200:5efe:10.0.0.1",
            "5f00::1",
            "3fff::1",
            "ff05::2",
            "0.1.2.3",
            "192.0.0.192",
            "192.88.99.1",
            "198.19.255.255",
            "239.255.255.250",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn ordinary_addresses_are_public() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2606:4700::5efe:8.8.8.8",
            "168.63.129.17",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
