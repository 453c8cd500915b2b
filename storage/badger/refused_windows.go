package badger

import "golang.org/x/sys/windows"

// refusals are the system's errors that say nothing about the content of a file. Another
// user or process could read it, or this one later.
var refusals = []error{
	windows.ERROR_ACCESS_DENIED, windows.ERROR_WRITE_PROTECT,
	windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION, // such as a virus scanner has it open
	windows.ERROR_TOO_MANY_OPEN_FILES, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_OUTOFMEMORY,
	windows.ERROR_COMMITMENT_LIMIT, windows.ERROR_NO_SYSTEM_RESOURCES,
	windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
}
