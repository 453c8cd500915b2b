package inference

import (
	"bytes"
	"strings"
)

// MaxStreamUsage is the longest event that can be the chunk of IsStreamUsage, in bytes.
const MaxStreamUsage = 64 << 10

// StreamUsageFilter takes the chunks of IsStreamUsage out of a chat stream. Everything else
// keeps its bytes and its order. It holds bytes back only while they may be such a chunk, at
// most MaxStreamUsage of them. The zero value begins a stream. It is not safe for
// concurrent use.
type StreamUsageFilter struct {
	out   []byte
	held  []byte // what did not pass yet
	stage stage
	chunk chunkProbe
	begun bool // the line has a byte
	// name is how many bytes of dataName the line has, all of its bytes so far. It is
	// otherLine for a line of another name.
	name    int
	passed  bool // the event had lines that passed before it was a chunk
	isChunk bool // the data is whole, and is the chunk. A later line can only let the event pass
	cr      bool // the last byte was a carriage return
	tookEnd bool // the last end of a line was taken out
}

// stage is how much of an event has been read.
type stage uint8

const (
	noData  stage = iota // it has no data yet
	holding              // it may be the chunk
	passing              // it is not
)

const (
	dataName  = "data:"
	otherLine = -1
)

// Next returns what passes after p, which is the next part of the stream. The result is valid
// until the next call.
func (f *StreamUsageFilter) Next(p []byte) []byte {
	f.out = f.out[:0]
	for _, c := range p {
		switch {
		case c == '\n' && f.cr: // the second half of a line's end
			f.cr = false
			if !f.tookEnd {
				f.add(c)
			}
		case c == '\n' || c == '\r':
			f.cr, f.tookEnd = c == '\r', false
			f.endLine(c)
		default:
			f.cr = false
			f.addToLine(c)
		}
	}
	return f.out
}

// End returns what passes at the end of the stream. A last event counts without its empty
// line.
func (f *StreamUsageFilter) End() []byte {
	if f.stage == holding && IsStreamUsage(eventData(f.held)) {
		return nil
	}
	return f.held
}

// add lets a byte pass, unless it must wait.
func (f *StreamUsageFilter) add(c byte) {
	f.held = append(f.held, c)
	if len(f.held) > MaxStreamUsage {
		f.stage = passing
	}
	if f.stage == passing || f.stage == noData && f.name <= 0 {
		f.out = append(f.out, f.held...)
		f.held = f.held[:0]
	}
}

// addToLine reads a byte that ends no line.
func (f *StreamUsageFilter) addToLine(c byte) {
	f.begun = true
	switch {
	case f.name == otherLine:
	case f.name < len(dataName):
		if c == dataName[f.name] {
			f.name++
		} else {
			f.name = otherLine
			f.passed = f.passed || f.stage == noData
		}
		if f.name == len(dataName) && f.stage == noData {
			f.stage = holding
		}
	case f.stage == holding && !f.chunk.read(c):
		f.stage = passing
	}
	f.add(c)
}

// endLine reads the first byte of a line's end.
func (f *StreamUsageFilter) endLine(c byte) {
	blank := !f.begun
	switch {
	case blank:
		if f.stage == holding && f.isChunk {
			f.held, f.tookEnd = f.held[:0], !f.passed
		}
		f.stage = passing
	case f.stage == holding:
		if f.chunk.whole() && !f.isChunk {
			if f.isChunk = IsStreamUsage(eventData(f.held)); !f.isChunk {
				f.stage = passing
			}
		}
	case f.stage == noData && f.name == len(dataName)-1: // a name without a colon
		f.stage = holding
	case f.stage == noData:
		f.passed, f.name = true, otherLine
	}
	if !f.tookEnd {
		f.add(c)
	}
	f.begun, f.name = false, 0
	if blank {
		f.stage, f.chunk, f.passed, f.isChunk = noData, chunkProbe{}, false, false
	}
}

// eventData returns the data of an event, with space around it.
func eventData(event []byte) []byte {
	var data []byte
	for line := range bytes.FieldsFuncSeq(event, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if value, ok := bytes.CutPrefix(line, []byte(dataName)); ok {
			data = append(append(data, value...), '\n')
		}
	}
	return data
}

// chunkProbe reads the data of an event byte by byte. It tells early that the data is no
// chunk of IsStreamUsage, which decides about the others.
type chunkProbe struct {
	depth           int
	begun           bool // there was a brace
	inText, escaped bool
	isName          bool                 // the next text is a name, of the outer object or in choices
	matched         int                  // bytes of the name that is looked for, or otherName or escapedName
	due             string               // must follow, without space
	inChoices       bool                 // in the value of choices, where everything says nothing
	isIndex         bool                 // the next value in choices may be a number
	objects         [deepestNothing]bool // by depth in choices, whether it is an object
}

const (
	choicesName = "choices"
	indexName   = "index"
	otherName   = -1
	escapedName = -2 // which may be any

	// The depths of what is in choices: its elements, their members, and those of their delta.
	// What is deeper has something.
	choicesDepth   = 2
	choiceDepth    = 3
	deepestNothing = 6
)

// read reads the next byte. It returns false if the data is no such chunk.
func (c *chunkProbe) read(b byte) bool {
	switch {
	case c.inText:
		c.readText(b)
		return c.isName || !c.inChoices || !c.inText // a text in choices ends at once
	case strings.IndexByte(" \t", b) >= 0:
		return true
	case c.due != "":
		if b != c.due[0] {
			return false
		}
		c.due = c.due[1:]
		c.inChoices = c.due == ""
	case c.depth == 0 && (c.begun || b != '{'):
		return false
	case c.depth == choicesDepth && c.inChoices && strings.IndexByte("{,]", b) < 0:
		return false
	}
	switch b {
	case '"':
		c.inText, c.matched = true, 0
	case '{', '[':
		c.begun = true
		c.depth++
		if c.inChoices {
			if c.depth == deepestNothing {
				return false
			}
			c.objects[c.depth] = b == '{'
		}
		c.isName = c.holdsNames()
	case '}', ']':
		c.depth--
		c.inChoices = c.inChoices && c.depth >= choicesDepth
	case ',':
		c.isName, c.isIndex = c.holdsNames(), false
	case ':':
		c.isName = false
	default:
		return !c.inChoices || strings.IndexByte("nul", b) >= 0 || c.isIndex
	}
	return true
}

// holdsNames reports whether the names of the present object are read.
func (c *chunkProbe) holdsNames() bool { return c.depth == 1 || c.inChoices && c.objects[c.depth] }

// readText reads a byte of a text.
func (c *chunkProbe) readText(b byte) {
	name := choicesName
	if c.inChoices {
		name = indexName
	}
	switch {
	case c.escaped:
		c.escaped = false
	case b == '\\':
		c.escaped, c.matched = true, escapedName
	case b == '"':
		c.inText = false
		switch {
		case !c.isName:
		case c.inChoices:
			c.isIndex = c.depth == choiceDepth && (c.matched == len(name) || c.matched == escapedName)
		case c.matched == len(name):
			c.due = ":["
		}
	case c.matched >= 0 && c.matched < len(name) && b == name[c.matched]:
		c.matched++
	case c.matched != escapedName:
		c.matched = otherName
	}
}

// whole reports whether the data has ended.
func (c *chunkProbe) whole() bool { return c.begun && c.depth == 0 }
