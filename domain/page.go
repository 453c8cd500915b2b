package domain

// Page is a part of a list.
type Page struct {
	// Offset is how many objects come before the page.
	Offset int
	// Limit is the most objects that the page may have.
	Limit int
}

// MaxPage bounds the Limit of a page. DefaultPage is the Limit if the client names none
// (specification of lists in the public interface).
const (
	MaxPage     = 100
	DefaultPage = 50
)

// Listed is a page as clients see it. It has the JSON array of its objects, and their
// number on all pages. Tag is the entity tag of the two.
type Listed struct {
	JSON  []byte
	Total int
	Tag   string
}
