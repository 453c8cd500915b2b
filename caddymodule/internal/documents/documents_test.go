// Package documents checks the documents of the repository. It imports nothing of the module,
// so its test is linked at once.
package documents

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../../.."

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```\r?$")
	code    = regexp.MustCompile("`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// published is the address of a document in another file, such as an error's text.
	published = regexp.MustCompile(`https://github\.com/caddy-presets/caddy-presets/blob/main/([A-Za-z0-9_./#-]+)`)
)

// TestLinks checks that links lead to existing files and headings. It checks every relative
// link of a document. It also checks every address of a document in another file, such as
// the runbook of an alert.
func TestLinks(t *testing.T) {
	t.Chdir(root)
	count := 0
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(file)
		if entry.IsDir() {
			if name != "." && strings.HasPrefix(path.Base(name), ".") || path.Base(name) == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		pattern, folder := link, path.Dir(name)
		switch ext := path.Ext(name); {
		case ext == ".md" && (folder == "." || folder == "bench" || folder == "docs" || folder == "docs/migrate"):
		case ext == ".go" || ext == ".yaml", strings.HasPrefix(name, "ops/"):
			pattern, folder = published, "."
		default:
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if path.Ext(name) == ".md" {
			text = code.ReplaceAll(fence.ReplaceAll(text, nil), nil)
		}
		for _, found := range pattern.FindAllSubmatch(text, -1) {
			target := string(found[1])
			if strings.Contains(target, "://") {
				continue
			}
			count++
			if err := checkLink(folder, name, target); err != nil {
				t.Errorf("%s: %s: %v", name, target, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 50 {
		t.Errorf("found %d links, want at least 50", count)
	}
}

// checkLink returns an error if target leads nowhere from a folder. A target without a
// file is in the file with this name.
func checkLink(folder, name, target string) error {
	file, anchor, hasAnchor := strings.Cut(target, "#")
	if file = path.Join(folder, file); strings.HasPrefix(target, "#") {
		file = name
	}
	if _, err := os.Stat(filepath.FromSlash(file)); err != nil {
		return err
	}
	if !hasAnchor {
		return nil
	}
	if path.Ext(file) != ".md" {
		return errors.New("has an anchor and is no Markdown")
	}
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err == nil && !anchors(text)[anchor] {
		err = errors.New("there is no such heading")
	}
	return err
}

// anchors returns the anchors that GitHub gives to the headings of a document.
func anchors(text []byte) map[string]bool {
	all := make(map[string]bool)
	for _, found := range heading.FindAllSubmatch(fence.ReplaceAll(text, nil), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, string(found[1]))
		unique := anchor
		for n := 1; all[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", anchor, n)
		}
		all[unique] = true
	}
	return all
}

var (
	goTest   = regexp.MustCompile("(?:PRESETS_TIER=\\S+ )?\\bgo (?:-C (\\S+) )?test [^`\n]*")
	runFlag  = regexp.MustCompile(` -(run|bench) '?([^' ` + "`" + `]+)`)
	packages = regexp.MustCompile(` \./(\S*)`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w*)\(.*\n\t(tier\.(?:Slow|Race|Long))?`)
)

// TestCommands checks that every test that a document's command names exists in the
// packages of that command, and is not skipped for its mark. Without that,
// "go test -run" passes and tests nothing.
func TestCommands(t *testing.T) {
	t.Chdir(root)
	var files []string
	for _, pattern := range []string{"*.md", "bench/*.md", "docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range goTest.FindAllSubmatch(text, -1) {
			names, quick := namesOfTests(t, string(command[1]), string(command[0]))
			if bytes.HasPrefix(command[0], []byte("PRESETS_TIER=")) {
				quick = names
			}
			for _, flag := range runFlag.FindAllSubmatch(command[0], -1) {
				parts := strings.Split(string(flag[2]), "|")
				if bytes.ContainsAny(flag[2], "()") {
					parts = []string{string(flag[2])}
				}
				for _, part := range parts {
					part, _, _ = strings.Cut(part, "/") // subtests have names of their own
					pattern, err := regexp.Compile("(?m:" + part + ")")
					switch {
					case err != nil:
						t.Errorf("%s: %s: %v", file, command[0], err)
					case part == "^$":
					case !pattern.MatchString(names):
						t.Errorf("%s: %s: no test is named %s", file, command[0], part)
					case string(flag[1]) == "run" && !pattern.MatchString(quick):
						t.Errorf("%s: %s: without PRESETS_TIER it skips all tests of %s", file, command[0], part)
					}
					count++
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("found %d names of tests, want at least 20", count)
	}
}

// namesOfTests returns the names of all tests in the packages of a command, one on each
// line, and those that run in each tier. The command runs in a folder.
func namesOfTests(t *testing.T, folder, command string) (all, quick string) {
	folders := []string{folder}
	if named := packages.FindAllStringSubmatch(command, -1); len(named) > 0 {
		folders = nil
		for _, name := range named {
			folders = append(folders, path.Join(folder, name[1]))
		}
	}
	var names, quickNames strings.Builder
	for _, folder := range folders {
		files := testFiles(t, folder)
		if len(files) == 0 {
			t.Errorf("%s: there are no tests in %s", command, folder)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range testFunc.FindAllSubmatch(text, -1) {
				fmt.Fprintf(&names, "%s\n", found[1])
				if len(found[2]) == 0 {
					fmt.Fprintf(&quickNames, "%s\n", found[1])
				}
			}
		}
	}
	return names.String(), quickNames.String()
}

// testFiles returns the files of tests in a folder. If its name ends with three dots, it also
// returns those in all folders below.
func testFiles(t *testing.T, folder string) (files []string) {
	top, below := strings.CutSuffix(folder, "...")
	top = filepath.FromSlash(path.Clean(top))
	err := filepath.WalkDir(top, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != top && !below:
			return filepath.SkipDir
		case strings.HasSuffix(file, "_test.go"):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// curlBody is a command of curl that sends a body. Its lines but the last end in a backslash.
var curlBody = regexp.MustCompile(`(?m)^.*\bcurl (?:.*\\\r?\n)*.* (?:-d|--data\S*) ['"]?[{$@].*$`)

// TestCurlNamesItsType checks that the documents' commands name the type of the bodies that they
// send, because some gateways refuse the one that curl names by itself.
func TestCurlNamesItsType(t *testing.T) {
	t.Chdir(root)
	count := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/migrate/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range curlBody.FindAllString(string(text), -1) {
				count++
				if !strings.Contains(command, "Content-Type: application/") {
					t.Errorf("%s: no Content-Type in %s", file, command)
				}
			}
		}
	}
	if count < 15 {
		t.Errorf("found %d commands, want at least 15", count)
	}
}

// inCode is a file or a folder of the repository, and the function or the type behind a file.
var inCode = regexp.MustCompile(`\b((?:(?:bench|caddymodule|cmd|docs|domain|e2e|faults|ops|schema|storage|testdata)/[\w/]*|presets)(?:\.go)?)(?: ([A-Za-z]+))?`)

// TestHowItWorks checks that every file, folder, function and type that docs/how-it-works.md
// names exists.
func TestHowItWorks(t *testing.T) {
	t.Chdir(root)
	page, err := os.ReadFile("docs/how-it-works.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, found := range inCode.FindAllSubmatch(page, -1) {
		file, name := string(found[1]), string(found[2])
		isFile := path.Ext(file) == ".go"
		if !isFile && !strings.Contains(file, "/") {
			continue // a word
		}
		count++
		text, err := os.ReadFile(filepath.FromSlash(file))
		switch {
		case isFile && err != nil:
			t.Error(err)
		case !isFile:
			if info, err := os.Stat(filepath.FromSlash(file)); err != nil || !info.IsDir() {
				t.Errorf("there is no folder %s", file)
			}
		case name != "" && !regexp.MustCompile(`(?m)^(?:func (?:\(.*?\) )?|type )`+name+`\b`).Match(text):
			t.Errorf("%s has no %s", file, name)
		}
	}
	if count < 50 {
		t.Errorf("found %d names, want at least 50", count)
	}
}

// TestLanguageModelsGetAllPages compares the pages of llms.txt with those of README's tables, and with
// the folder.
func TestLanguageModelsGetAllPages(t *testing.T) {
	t.Chdir(root)
	pagesOf := func(name, after string) map[string]bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(text), after)
		pages := map[string]bool{}
		for _, found := range link.FindAllStringSubmatch(table, -1) {
			if page := found[1]; !strings.Contains(page, ":") && page != "LICENSE" && page != "llms.txt" {
				pages[page] = true
			}
		}
		return pages
	}
	listed := pagesOf("llms.txt", "")
	delete(listed, "README.md") // which has no link to itself
	if linked := pagesOf("README.md", "\n## Documentation\n"); !maps.Equal(listed, linked) {
		t.Errorf("llms.txt has the pages %q, README's tables %q", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(linked)))
	}
	for _, pattern := range []string{"docs/*.md", "docs/migrate/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !listed[filepath.ToSlash(file)] {
				t.Errorf("llms.txt lacks %s", file)
			}
		}
	}
}
