// Package requestpath has the rules for methods, paths and upgrades that a gateway could read
// differently than the handler before it.
package requestpath

import (
	"encoding/hex"
	"math/bits"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-presets/caddy-presets/domain"
)

// IsAllowedMethod reports whether the method is an upper-case token, but not TRACE or
// CONNECT. A gateway may read "post" as POST. Caddy sends the body of a CONNECT upstream
// without framing, so a gateway would read it as the next request. A WebSocket in HTTP/2
// and HTTP/3 is a CONNECT that Caddy turns into a GET.
func IsAllowedMethod(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodPost:
		return true
	case http.MethodConnect:
		return IsWebSocketConnect(r)
	case http.MethodTrace:
		return false
	}
	return httpguts.ValidHeaderFieldName(r.Method) && strings.ToUpper(r.Method) == r.Method
}

// IsWebSocketConnect reports whether a CONNECT opens a WebSocket (RFC 8441 and 9220),
// by the same conditions as Caddy's reverse_proxy.
func IsWebSocketConnect(r *http.Request) bool {
	return r.Method == http.MethodConnect &&
		(r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket" || r.ProtoMajor == 3 && r.Proto == "websocket")
}

// MethodUpstream returns the method that the gateway gets.
func MethodUpstream(r *http.Request) string {
	if IsWebSocketConnect(r) {
		return http.MethodGet
	}
	return r.Method
}

// Normalize returns the form of a decoded path that decides its route. It decodes
// nested percent-encoding. It drops the parts that some gateways ignore. These are
// parameters of segments, empty segments, an encoded query or fragment, and bytes that are
// not UTF-8. An invalid escape stands for itself.
//
// A path with a control character, a backslash, a dot segment or an overlong UTF-8 sequence
// is an error. No gateway may get such a path. The returned path then only chooses the
// error envelope.
//
// A plain path needs no more checks. It takes linear time, and reads a plain path once.
func Normalize(p string) (normalized string, plain bool, err error) {
	plain, clean := isPlain(p)
	if clean {
		return p, true, nil
	}
	if plain {
		return path.Clean(p), true, nil
	}
	normalized, err = normalizeEncoded(p)
	return normalized, false, err
}

// normalizeEncoded is Normalize for a path that is not plain.
func normalizeEncoded(p string) (string, error) {
	p = DecodeFully(p)
	if err := checkCharacters(p); err != nil {
		return path.Clean(p), err
	}
	p = strings.ToValidUTF8(p, "") // before the search for dot segments
	segments := strings.Split(p, "/")
	for _, segment := range segments {
		if i := strings.IndexAny(segment, ";?#"); i >= 0 {
			segment = segment[:i]
		}
		if segment == "." || segment == ".." {
			return path.Clean(p), domain.InvalidAt("path", "must not have dot segments")
		}
	}
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		segments = strings.Split(p[:i], "/")
	}
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return path.Clean(strings.Join(segments, "/")), nil
}

// isPlain reports whether a path needs no checks and no decoding, and whether it is then also clean,
// as path.Clean returns it.
func isPlain(p string) (plain, clean bool) {
	clean = strings.HasPrefix(p, "/") && (len(p) == 1 || p[len(p)-1] != '/')
	for i := range len(p) {
		switch c := p[i]; {
		case c < ' ', c >= 0x7f, c == '%', c == ';', c == '\\', c == '?', c == '#', c == '.' && i > 0 && p[i-1] == '/':
			return false, false
		case c == '/' && i > 0 && p[i-1] == '/':
			clean = false
		}
	}
	return true, clean
}

// DecodeFully decodes percent-encoding repeatedly, until nothing is left to decode. It goes
// from the end to the start, so that it writes each byte once.
func DecodeFully(p string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	decoded := make([]byte, len(p))
	start := len(p) // of what is decoded so far
	for i := len(p) - 1; i >= 0; i-- {
		start--
		decoded[start] = p[i]
		for decoded[start] == '%' && start+2 < len(decoded) {
			if _, err := hex.Decode(decoded[start+2:], decoded[start+1:start+3]); err != nil {
				break
			}
			start += 2
		}
	}
	return string(decoded[start:])
}

// checkCharacters refuses characters that gateways replace or drop. Other bytes that are
// not UTF-8 are allowed, since file servers have such names.
func checkCharacters(p string) error {
	for i := 0; i < len(p); {
		c, size := utf8.DecodeRuneInString(p[i:])
		switch {
		case unicode.IsControl(c):
			return domain.InvalidAt("path", "must not have control characters")
		case c == '\\':
			return domain.InvalidAt("path", "must not have backslashes")
		case c == utf8.RuneError && size == 1 && isOverlong(p[i:]):
			return domain.InvalidAt("path", "must not have overlong UTF-8")
		}
		i += size
	}
	return nil
}

// isOverlong reports whether text begins with an overlong UTF-8 sequence, such as 0xC0 0xAF
// for a slash.
func isOverlong(text string) bool {
	n := bits.LeadingZeros8(^text[0]) // how many bytes the first one announces
	if n < 2 || n > 6 || len(text) < n {
		return false
	}
	c := rune(text[0] & (0x7f >> n))
	for _, b := range []byte(text[1:n]) {
		if b&0xc0 != 0x80 {
			return false
		}
		c = c<<6 | rune(b&0x3f)
	}
	least := [...]rune{2: 0x80, 3: 0x800, 4: 0x1_0000, 5: 0x20_0000, 6: 0x400_0000}
	return c < least[n]
}

// IsAmbiguous reports whether an escaped path may or may not be below the base path,
// depending on the gateway. An example is "/v1;%2fx/models". The parameters of v1 end at
// the second slash if the gateway cuts them off first. They end at the encoded slash if it
// decodes the path first.
func IsAmbiguous(basePath, escaped string) bool {
	hides := func(segment string) bool {
		_, parameters, _ := strings.Cut(DecodeFully(segment), ";")
		return strings.ContainsAny(parameters, "/?#")
	}
	rest := DecodeFully(escaped)
	if !strings.Contains(rest, ";") || !slices.ContainsFunc(strings.Split(escaped, "/"), hides) {
		return false
	}
	for segment := range strings.SplitSeq(strings.Trim(basePath, "/"), "/") {
		_, after, found := strings.Cut(rest, "/"+segment)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// StripUpgrade removes upgrades to other protocols than WebSocket. They would open a tunnel
// to the gateway that nobody checks. A request for a WebSocket is a GET (RFC 6455, section
// 4.1). reverse_proxy makes the Connection header anew, so its options need no removal.
func StripUpgrade(r *http.Request) {
	asked := r.Header["Upgrade"]
	if len(asked) == 0 {
		return
	}
	const webSocket = "websocket"
	if r.Method == http.MethodGet && httpguts.HeaderValuesContainsToken(asked, webSocket) {
		r.Header["Upgrade"] = []string{webSocket} // and nothing beside it
		return
	}
	r.Header.Del("Upgrade")
	r.Header.Del("HTTP2-Settings")
}
