// Package mediatype reads the media types of requests and responses.
package mediatype

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// JSON is the media type of all responses but reports that a client wants as CSV.
const (
	JSON = "application/json"
	CSV  = "text/csv"
)

// IsJSON reports whether the headers of a request say that its body is JSON. The media
// type may be absent.
func IsJSON(header http.Header) bool {
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return false
	}
	given := header.Get("Content-Type")
	if given == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(given)
	return err == nil && (media == JSON ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// MayBeJSON reports whether a body may be JSON by its media type. It may also have
// none, or the default of curl or fetch. Uploads have other types.
func MayBeJSON(header http.Header) bool {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	switch media = strings.ToLower(strings.TrimSpace(media)); media {
	case "", JSON, "text/json", "text/plain", "application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// IsOther reports whether a request's header may name another type than JSON in UTF-8. A
// request without a type is JSON. Some gateways look for the word "form" anywhere in the
// header, so no parameter but the charset may be there.
func IsOther(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) == 0 || len(values) == 1 && (values[0] == JSON || values[0] == "") {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(values[0])
	if err != nil || len(values) > 1 || kind != JSON || strings.Contains(values[0], "*") { // Go ignores some parameters with one
		return true
	}
	charset, given := parameters["charset"]
	if !given {
		return len(parameters) > 0
	}
	return len(parameters) > 1 || !slices.Contains([]string{"utf-8", "utf8", "us-ascii", "ascii"}, strings.ToLower(charset))
}

// PrefersCSV reports whether Accept names CSV with a higher quality than JSON. Ranges such as text/* do
// not count.
func PrefersCSV(header http.Header) bool {
	qualities := make(map[string]float64)
	for item := range strings.SplitSeq(strings.Join(header.Values("Accept"), ","), ",") {
		media, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		quality, err := strconv.ParseFloat(cmp.Or(parameters["q"], "1"), 64)
		if err == nil {
			qualities[media] = quality
		}
	}
	return qualities[CSV] > qualities[JSON]
}
