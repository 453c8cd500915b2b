package files

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// editor changes the text of a document so that its values become others. It replaces the
// lines of values that differ. All other lines keep their bytes.
type editor struct {
	*document
	text   []byte // of the document, without a byte order mark
	lines  []int  // where each line begins, and the end of the text
	breaks string // the line break of the text
	edits  []edit
	// canWrite reports whether a file that !file names may get another text.
	canWrite func(name, text string) bool
	writes   []prompt
}

// edit replaces a part of the text.
type edit struct {
	start, end int
	text       string
}

// prompt is a file beside the YAML file, and the text that it is to stand for.
type prompt struct{ name, text string }

// kept is in the place of a value that stays as it is.
var kept = new(yaml.Node)

func newEditor(d *document, canWrite func(name, text string) bool) *editor {
	e := &editor{document: d, text: bytes.TrimPrefix(d.text, bom), breaks: "\n", canWrite: canWrite}
	if bytes.Contains(e.text, []byte("\r\n")) {
		e.breaks = "\r\n"
	}
	if last, size := utf8.DecodeLastRune(e.text); size > 0 && lineBreak([]byte(string(last))) == 0 {
		e.text = append(slices.Clip(e.text), e.breaks...)
	}
	e.lines = append(e.lines, 0)
	for at := 0; at < len(e.text); {
		size := lineBreak(e.text[at:])
		if size == 0 {
			at++
			continue
		}
		at += size
		e.lines = append(e.lines, at)
	}
	e.lines = append(e.lines, len(e.text))
	return e
}

// lineBreak returns the length of the line break that begins text, 0 if none does.
func lineBreak(text []byte) int {
	for _, one := range []string{"\r\n", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.HasPrefix(text, []byte(one)) {
			return len(one)
		}
	}
	return 0
}

// lineCount is the number of lines.
func (e *editor) lineCount() int { return len(e.lines) - 1 }

// line returns a line, counted from 0, without its break.
func (e *editor) line(i int) []byte {
	return bytes.TrimRight(e.text[e.lines[i]:e.lines[i+1]], "\r\n")
}

// place is where a member or an element begins.
type place struct {
	line, column int  // from 0, in characters
	offset       int  // in the text
	leads        bool // nothing but spaces stands before it in its line
}

func (e *editor) place(line, column int) place {
	text := e.line(line)
	at := 0
	for range column {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return place{line, column, e.lines[line] + at, len(bytes.Trim(text[:at], " ")) == 0}
}

// contentEnd returns where a value ends that begins in a line, and that ends before another
// line. Comments and empty lines behind it do not belong to it.
func (e *editor) contentEnd(value *yaml.Node, begin, limit int) int {
	leaf := value
	for len(leaf.Content) > 0 {
		leaf = leaf.Content[len(leaf.Content)-1]
	}
	inText := 0 // comments with this indentation are text
	isBlock := leaf.Kind == yaml.ScalarNode && leaf.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if isBlock {
		for i := leaf.Line; i < limit; i++ {
			if line := e.line(i); len(bytes.TrimSpace(line)) > 0 {
				inText = len(line) - len(bytes.TrimLeft(line, " "))
				break
			}
		}
	}
	last := limit - 1
	for ; last > begin; last-- {
		line := e.line(last)
		content := bytes.TrimLeft(line, " \t")
		switch {
		case len(content) == 0 && (!isBlock || !strings.HasSuffix(leaf.Value, "\n\n")):
		case len(content) > 0 && content[0] == '#' && (!isBlock || len(line)-len(content) < inText):
		default:
			return e.lines[last] + len(line)
		}
	}
	return e.lines[last] + len(e.line(last))
}

// whole edits the document so that its value becomes new. A value in flow style is written
// anew.
func (e *editor) whole(new *yaml.Node) {
	if e.value(e.root, new, e.lineCount()) {
		return
	}
	for i := 0; i+1 < len(new.Content); i += 2 {
		if new.Content[i+1] == kept {
			new.Content[i+1] = child(e.root, new.Content[i].Value)
		}
	}
	at := e.place(e.root.Line-1, e.root.Column-1)
	var r renderer
	if len(new.Content) > 0 {
		r.collection(new, 0)
	} else {
		r.WriteString("{}")
	}
	e.edits = append(e.edits, edit{at.offset, e.contentEnd(e.root, at.line, e.lineCount()), r.String()})
}

// value edits old, which ends before a line, so that it becomes new. It is not ok if the
// value as a whole has to be replaced.
func (e *editor) value(old, new *yaml.Node, limit int) bool {
	if new == kept || e.same(old, new) {
		return true
	}
	if isFile(old) && new.Kind == yaml.ScalarNode && !isFile(new) {
		if s, _ := readScalar(new); s.kind == '"' && e.canWrite(old.Value, s.text) {
			e.writes = append(e.writes, prompt{old.Value, s.text})
			return true
		}
		return false
	}
	if old.Kind != new.Kind || old.Style&yaml.FlowStyle != 0 || len(old.Content) == 0 || len(new.Content) == 0 {
		return false
	}
	edits, writes := len(e.edits), len(e.writes)
	ok := false
	switch old.Kind {
	case yaml.MappingNode:
		ok = e.mapping(old, new, limit)
	case yaml.SequenceNode:
		ok = e.sequence(old, new, limit)
	}
	if !ok {
		e.edits, e.writes = e.edits[:edits], e.writes[:writes]
	}
	return ok
}

func (e *editor) mapping(old, new *yaml.Node, limit int) bool {
	count := len(old.Content) / 2
	names := make([]string, count)
	for i := range names {
		names[i] = old.Content[2*i].Value
	}
	inserted := make(map[int][]int) // indexes in new, by the member of old before them
	before := -1
	for i := 0; i < len(new.Content); i += 2 {
		if at := slices.Index(names, new.Content[i].Value); at >= 0 {
			before = at
		} else {
			inserted[before] = append(inserted[before], i)
		}
	}
	for i, name := range names {
		key, value := old.Content[2*i], old.Content[2*i+1]
		at := e.place(key.Line-1, key.Column-1)
		end := limit
		if i+1 < count {
			end = old.Content[2*i+2].Line - 1
		}
		if end <= at.line {
			return false
		}
		contentEnd := e.contentEnd(value, at.line, end)
		wanted := child(new, name)
		if i == 0 && at.leads {
			inserted[-1] = e.insertBefore(at, new, inserted[-1])
		}
		switch {
		case wanted == nil && !at.leads:
			return false
		case wanted == nil:
			e.remove(at, contentEnd)
		case !e.value(value, wanted, end):
			var r renderer
			r.member(name, wanted, at.column)
			e.replace(at, contentEnd, r.String(), cmp.Or(value.LineComment, key.LineComment))
		}
		if i == 0 {
			inserted[0] = append(inserted[-1], inserted[0]...)
		}
		for _, j := range inserted[i] {
			e.insert(e.nextLine(contentEnd), at.column, func(r *renderer) { r.member(new.Content[j].Value, new.Content[j+1], at.column) })
		}
	}
	return true
}

// insertBefore inserts members of new in lines of their own. None remains.
func (e *editor) insertBefore(at place, new *yaml.Node, members []int) []int {
	for _, j := range members {
		e.insert(e.lines[at.line], at.column, func(r *renderer) { r.member(new.Content[j].Value, new.Content[j+1], at.column) })
	}
	return nil
}

// insert inserts lines.
func (e *editor) insert(offset, column int, write func(r *renderer)) {
	var r renderer
	r.WriteString(strings.Repeat(" ", column))
	write(&r)
	r.WriteByte('\n')
	e.edits = append(e.edits, edit{offset, offset, r.String()})
}

// nextLine returns where the line behind an offset begins.
func (e *editor) nextLine(offset int) int {
	next, _ := slices.BinarySearch(e.lines, offset+1)
	return e.lines[min(next, e.lineCount())]
}

func (e *editor) sequence(old, new *yaml.Node, limit int) bool {
	places, ok := e.hyphens(old)
	if !ok {
		return false
	}
	ends, limits := make([]int, len(places)), make([]int, len(places))
	for i, at := range places {
		limits[i] = limit
		if i+1 < len(places) {
			limits[i] = places[i+1].line
		}
		if limits[i] <= at.line {
			return false
		}
		ends[i] = e.contentEnd(old.Content[i], at.line, limits[i])
	}
	a, b := old.Content, new.Content
	prefix, suffix := 0, 0
	for prefix < min(len(a), len(b)) && e.same(a[prefix], b[prefix]) {
		prefix++
	}
	for suffix < min(len(a), len(b))-prefix && e.same(a[len(a)-1-suffix], b[len(b)-1-suffix]) {
		suffix++
	}
	last, lastNew := len(a)-suffix, len(b)-suffix // the ends of the parts that differ
	i := prefix
	for ; i < min(last, lastNew); i++ {
		if !e.value(a[i], b[i], limits[i]) {
			var r renderer
			r.item(b[i], places[i].column)
			e.replace(places[i], ends[i], r.String(), a[i].LineComment)
		}
	}
	for j := i; j < last; j++ {
		if !places[j].leads {
			return false
		}
		e.remove(places[j], ends[j])
	}
	offset := e.lines[places[0].line]
	if last > 0 {
		offset = e.nextLine(ends[last-1])
	} else if !places[0].leads {
		return false
	}
	for ; i < lastNew; i++ {
		e.insert(offset, places[0].column, func(r *renderer) { r.item(b[i], places[0].column) })
	}
	return true
}

// hyphens returns where the elements of a sequence begin. It is not ok if that is unclear.
func (e *editor) hyphens(n *yaml.Node) ([]place, bool) {
	places := make([]place, len(n.Content))
	above := n.Line - 1
	for i, item := range n.Content {
		line := item.Line - 1
		for ; line >= above; line-- {
			places[i] = e.place(line, n.Column-1)
			if at := places[i].offset; at < len(e.text) && e.text[at] == '-' && (i == 0 || places[i].leads) {
				break
			}
		}
		if line < above {
			return nil, false
		}
		above = line + 1
	}
	return places, true
}

// remove removes whole lines.
func (e *editor) remove(at place, end int) {
	e.edits = append(e.edits, edit{e.lines[at.line], e.nextLine(end), ""})
}

// replace replaces a member or an element. It keeps the comment in its first line.
func (e *editor) replace(at place, end int, text, comment string) {
	if comment != "" && !strings.Contains(comment, "\n") {
		first, rest, more := strings.Cut(text, "\n")
		text = first + " " + comment
		if more {
			text += "\n" + rest
		}
	}
	e.edits = append(e.edits, edit{at.offset, end, text})
}

// same reports whether a value of the document and another one mean the same. The order of
// members does not count.
func (e *editor) same(a, b *yaml.Node) bool {
	a, b = follow(a), follow(b)
	switch {
	case a == b:
		return true
	case isFile(a) && isFile(b):
		return a.Value == b.Value
	case isFile(a):
		s, _ := readScalar(b)
		return b.Kind == yaml.ScalarNode && s.kind == '"' && s.text == e.texts[a]
	case isFile(b) || a.Kind != b.Kind || len(a.Content) != len(b.Content):
		return false
	case a.Kind == yaml.ScalarNode:
		x, _ := readScalar(a)
		y, _ := readScalar(b)
		return x == y
	case a.Kind == yaml.SequenceNode:
		return slices.EqualFunc(a.Content, b.Content, e.same)
	}
	for i := 0; i < len(a.Content); i += 2 {
		other := child(b, a.Content[i].Value)
		if other == nil || !e.same(a.Content[i+1], other) {
			return false
		}
	}
	return true
}

// result returns the text with all edits. It is not ok if two of them overlap.
func (e *editor) result() (text []byte, ok bool) {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	if bytes.HasPrefix(e.document.text, bom) {
		text = append(text, bom...)
	}
	at := 0
	for _, one := range e.edits {
		if one.start < at || one.end < one.start {
			return nil, false
		}
		text = append(text, e.text[at:one.start]...)
		text = append(text, strings.ReplaceAll(one.text, "\n", e.breaks)...)
		at = one.end
	}
	return append(text, e.text[at:]...), true
}
