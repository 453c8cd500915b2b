package files

import "errors"

// Write writes set into the folder dir, which it makes if it is missing. It returns the
// paths of the files that it made or changed, below the folder, with slashes, sorted.
//
// The same Set gives the same files. A file that means the same already keeps its bytes.
// Otherwise only what differs is changed: comments, order and the other values stay. A
// file, a workspace or a preset that set does not have stays, too.
//
// Each file is replaced atomically, and never through a link out of the folder. A failure
// does not keep the other files from being written. The error is then Errors, such as for
// a text with the form of a secret. Nothing is written if two names of a workspace differ
// only in case, or if a slug is not valid.
//
// Presets from a server should have Designated. It makes `latest` in a file mean the same
// as the number.
func Write(dir string, set *Set) (written []string, err error) {
	return nil, errors.ErrUnsupported
}
