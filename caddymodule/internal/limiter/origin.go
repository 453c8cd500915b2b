package limiter

import (
	"net/netip"
)

// Origin identifies a client by its IPv4 address, or by the /64 of its IPv6 address. One
// client has all addresses of a /64. It is zero for a client without an IP address, as on a
// Unix socket. The last byte of a /64 is the length of its prefix. So ::/64, which has ::1,
// is not zero.
type Origin [16]byte

const prefixLength = 64

// OriginAt returns the origin of an address.
func OriginAt(address netip.Addr) Origin {
	from := Origin(address.As16())
	if !address.Unmap().Is4() {
		clear(from[prefixLength/8:])
		from[len(from)-1] = prefixLength
	}
	return from
}

// String returns o for the log.
func (o Origin) String() string {
	switch address := netip.AddrFrom16(o).Unmap(); {
	case o == Origin{}:
		return "unknown"
	case address.Is4():
		return address.String()
	default:
		return netip.PrefixFrom(address, prefixLength).Masked().String()
	}
}
