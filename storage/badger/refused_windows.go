package badger

import "golang.org/x/sys/windows"

// refusals are the system's errors that say nothing about what is in a file: another
// user, another limit or another time would read it.
var refusals = []error{
	windows.ERROR_ACCESS_DENIED, windows.ERROR_WRITE_PROTECT,
	windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION, // another program has it open, a virus scanner, say
	windows.ERROR_TOO_MANY_OPEN_FILES, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_OUTOFMEMORY,
	windows.ERROR_COMMITMENT_LIMIT, windows.ERROR_NO_SYSTEM_RESOURCES,
	windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
}
