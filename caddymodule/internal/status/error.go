package status

// Error is a failure of HTTP itself, outside of the domain. Its message is for the client.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }
