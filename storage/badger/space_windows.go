package badger

import "golang.org/x/sys/windows"

// freeSpace returns the bytes that this user can still write to the file system of folder.
func freeSpace(folder string) (free uint64, err error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}
