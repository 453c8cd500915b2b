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
	// dissolves is set to write the values of aliases in their places.
	dissolves bool
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

func newEditor(d *document, canWrite func(name, text string) bool) *editor {
	e := &editor{document: d, text: bytes.TrimPrefix(d.text, bom), breaks: "\n", canWrite: canWrite}
	if bytes.Contains(e.text, []byte("\r\n")) {
		e.breaks = "\r\n"
	}
	if !bytes.HasSuffix(e.text, []byte("\n")) {
		e.text = append(slices.Clip(e.text), e.breaks...)
	}
	end := 0
	for line := range bytes.Lines(e.text) {
		e.lines = append(e.lines, end)
		end += len(line)
	}
	e.lines = append(e.lines, end)
	return e
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
	at := e.place(e.root.Line-1, e.root.Column-1)
	e.edits = append(e.edits, edit{at.offset, e.contentEnd(e.root, at.line, e.lineCount()), rendered(new, 0)})
}

// keeps reports whether a value of the document may stay for another one.
func (e *editor) keeps(old, new *yaml.Node) bool {
	return e.same(old, new) && (!e.dissolves || !hasAlias(old))
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// value edits old, which ends before a line, so that it becomes new. It is not ok if the
// value as a whole has to be replaced.
func (e *editor) value(old, new *yaml.Node, limit int) bool {
	if e.keeps(old, new) {
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
	ok := e.parts(old, new, limit)
	if !ok {
		e.edits, e.writes = e.edits[:edits], e.writes[:writes]
	}
	return ok
}

// part is a member of a mapping or an element of a sequence in the text.
type part struct {
	place
	limit, end int    // the line where the next one begins, and the offset where its content ends
	comment    string // in its first line
	value      *yaml.Node
}

// parts edits the members or the elements of old, so that they become those of new.
func (e *editor) parts(old, new *yaml.Node, limit int) bool {
	all, ok := e.partsOf(old, limit)
	if !ok {
		return false
	}
	step := stepOf(old)
	matches := e.match(old, new)
	missing := make(map[int][]int) // indexes in new without a match, by the part before them
	before := -1
	for j := range len(new.Content) / step {
		if i := slices.Index(matches, j); i >= 0 {
			before = i
		} else {
			missing[before] = append(missing[before], j)
		}
	}
	text := func(j, column int) string {
		return rendered(&yaml.Node{Kind: new.Kind, Content: new.Content[step*j : step*j+step]}, column)
	}
	insert := func(offset, column int, indexes []int) {
		for _, j := range indexes {
			e.edits = append(e.edits, edit{offset, offset, strings.Repeat(" ", column) + text(j, column) + "\n"})
		}
	}
	if first := all[0]; first.leads {
		insert(e.lines[first.line], first.column, missing[-1])
	} else if missing[-1] != nil && step == 1 {
		return false
	} else { // the order of members does not count
		missing[0] = append(missing[-1], missing[0]...)
	}
	for i, p := range all {
		switch j := matches[i]; {
		case j < 0 && !p.leads:
			return false
		case j < 0:
			e.edits = append(e.edits, edit{e.lines[p.line], e.nextLine(p.end), ""})
		case !e.value(p.value, new.Content[step*j+step-1], p.limit):
			e.replace(p, text(j, p.column))
		}
		insert(e.nextLine(p.end), p.column, missing[i])
	}
	return true
}

// stepOf returns how many nodes a member or an element has.
func stepOf(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode {
		return 2
	}
	return 1
}

// partsOf returns the parts of a mapping or a sequence. It is not ok if it is unclear where they are.
func (e *editor) partsOf(n *yaml.Node, limit int) (all []part, ok bool) {
	step := stepOf(n)
	above := n.Line - 1
	for i := 0; i < len(n.Content); i += step {
		key, value := n.Content[i], n.Content[i+step-1]
		p := part{comment: cmp.Or(value.LineComment, key.LineComment), value: value}
		line, column := key.Line-1, key.Column-1
		if step == 1 { // an element begins with a hyphen, perhaps in a line above its value
			column = n.Column - 1
			for ; line >= above; line-- {
				if at := e.place(line, column); at.offset < len(e.text) && e.text[at.offset] == '-' && (i == 0 || at.leads) {
					break
				}
			}
			if line < above {
				return nil, false
			}
			above = line + 1
		}
		p.place = e.place(line, column)
		all = append(all, p)
	}
	for i := range all {
		p := &all[i]
		if p.limit = limit; i+1 < len(all) {
			p.limit = all[i+1].line
		}
		if p.limit <= p.line {
			return nil, false
		}
		p.end = e.contentEnd(p.value, p.line, p.limit)
	}
	return all, true
}

// match returns which part of new each part of old becomes, -1 for none. Elements match in their
// order, those that differ from the first one that does.
func (e *editor) match(old, new *yaml.Node) []int {
	a, b := old.Content, new.Content
	matches := make([]int, len(a)/stepOf(old))
	if old.Kind == yaml.MappingNode {
		for i := range matches {
			matches[i] = -1
			for j := 0; j < len(b); j += 2 {
				if b[j].Value == a[2*i].Value {
					matches[i] = j / 2
				}
			}
		}
		return matches
	}
	same, rest := 0, min(len(a), len(b))
	for same < rest && e.keeps(a[same], b[same]) {
		same++
	}
	suffix := 0
	for suffix < rest-same && e.keeps(a[len(a)-1-suffix], b[len(b)-1-suffix]) {
		suffix++
	}
	for i := range matches {
		switch {
		case i >= len(a)-suffix:
			matches[i] = i + len(b) - len(a)
		case i < len(b)-suffix:
			matches[i] = i
		default:
			matches[i] = -1
		}
	}
	return matches
}

// nextLine returns where the line behind an offset begins.
func (e *editor) nextLine(offset int) int {
	next, _ := slices.BinarySearch(e.lines, offset+1)
	return e.lines[min(next, e.lineCount())]
}

// replace replaces a part. It keeps the comment in its first line.
func (e *editor) replace(p part, text string) {
	if p.comment != "" && !strings.Contains(p.comment, "\n") {
		first, rest, more := strings.Cut(text, "\n")
		text = first + " " + p.comment
		if more {
			text += "\n" + rest
		}
	}
	e.edits = append(e.edits, edit{p.offset, p.end, text})
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
	if len(e.edits) == 0 {
		return e.document.text, true
	}
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
