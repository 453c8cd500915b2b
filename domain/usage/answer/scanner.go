package answer

import (
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

const (
	// maxNamed is the depth to which places are known. All of them lie above it.
	maxNamed = 12
	// maxText is the longest name of a model that is held.
	maxText = rawjson.MaxStreamToken
)

// scanner reads one JSON text in pieces, and gives values of interest to its event.
type scanner struct {
	root  *place
	event event
	text  rawjson.Stream
	// at is the place of the next value, and open has by depth that of the objects, and of the elements
	// of the arrays.
	at   *place
	open [maxNamed + 1]*place
}

// reset prepares s for the next text.
func (s *scanner) reset() {
	s.text.Reset()
	s.event.reset()
	s.at = s.root
}

// feed reads the text's next bytes.
func (s *scanner) feed(p []byte) {
	for s.text.Feed(p); s.text.Next(); {
		depth := s.text.Depth
		switch s.text.Kind {
		case '}', ']':
			s.at = nil
			if depth <= maxNamed {
				s.at = s.open[depth]
			}
			continue
		case '{', '[':
			if s.at != nil {
				s.event.beginAt(s.at, s.text.Kind)
				if s.text.Kind == '[' {
					s.at = s.at.elements
				}
			}
			if depth <= maxNamed {
				s.open[depth] = s.at
			}
			continue
		}
		switch {
		case s.text.IsName:
			s.at = nil
			if depth <= maxNamed {
				s.at = s.open[depth].member(&s.text)
			}
		case s.at != nil:
			s.event.readValue(s.at, &s.text)
		}
	}
}

// textOf returns the string that is the token of a text, nil for one that is too long.
func textOf(text *rawjson.Stream) []byte {
	value := text.Value()
	if value == nil {
		return nil
	}
	if inside := value[1 : len(value)-1]; !text.IsEscaped && (text.IsName || utf8.Valid(inside)) {
		return inside // not copied, as nearly always
	}
	decoded, _ := rawjson.Text(value)
	return []byte(decoded)
}
