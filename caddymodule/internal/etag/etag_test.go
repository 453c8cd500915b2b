package etag

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

const otherTag = `"0123456789abcdef0123456789abcdef"`

// FuzzConditions sends arbitrary lists of tags. Each is parsed or refused, and a parsed
// list can be extended.
func FuzzConditions(f *testing.F) {
	for _, seed := range []string{"", "*", otherTag, "W/" + otherTag, otherTag + " , " + otherTag, `"a,b"`, ",,", `"a"x`, "\t", `"a-gzip",*`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, weak := range []bool{false, true} {
			given, err := readTags(http.Header{"If-Match": {value}}, "If-Match", weak)
			more, errMore := readTags(http.Header{"If-Match": {value, otherTag}}, "If-Match", weak)
			switch {
			case err != nil:
				if given != nil || domain.KindOf(err) != domain.Invalid {
					t.Errorf("%q: got %v and %v, want an Invalid error alone", value, given, err)
				}
			case given.Any:
				if errMore == nil {
					t.Errorf("%q is a list with * in it and is read", value)
				}
			case errMore != nil || len(more.List) != len(given.List)+1 || more.List[len(given.List)] != strings.Trim(otherTag, `"`):
				t.Errorf("%q gives %v, and with one more %v, %v", value, given, more, errMore)
			}
		}
	})
}
