package convert

import (
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxInside bounds how deep texts may have texts in them.
	maxInside = 16
	// maxPuttingIn bounds how many texts are put into one text.
	maxPuttingIn = 1000
	// maxExpanded bounds the texts that are put into one text, in bytes. No version can have more.
	maxExpanded = domain.MaxStoredSize
)

// inclusion bounds what is put into one text: the partials or the prompts that it refers to.
type inclusion struct {
	kind string // partial or prompt
	// find returns the text of a name. Without one, problem is the reason, empty if it is missing.
	find        func(name string) (text string, ok bool, problem string)
	count, size int
}

// put returns the text of a name, or why it cannot be put in. inside are the names around it.
func (i *inclusion) put(name string, inside []string) (text, problem string) {
	i.count++
	switch {
	case slices.Contains(inside, name):
		return "", "refers to a " + i.kind + " that has itself"
	case len(inside) == maxInside || i.count > maxPuttingIn:
		return "", "has too many " + i.kind + "s in " + i.kind + "s"
	}
	text, ok, problem := i.find(name)
	if !ok && problem == "" {
		problem = "refers to a " + i.kind + " that the input does not have"
	}
	if i.size += len(text); i.size > maxExpanded {
		problem = "is too large with its " + i.kind + "s"
	}
	return text, problem
}
