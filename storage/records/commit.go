package records

// CommitWrite returns the write that stores n as the number of a commit. The first commit
// has number 1.
func CommitWrite(n uint64) Write {
	k := sequenceKey()
	return Write{Key: k, Record: encodeNumber(k, n)}
}

// LastCommit returns the number of the last commit, 0 if there is none.
func (r *Reader) LastCommit() (uint64, error) {
	return loadOrZero(r, sequenceKey(), decodeNumber)
}
