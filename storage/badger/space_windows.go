package badger

import "golang.org/x/sys/windows"

// freeSpace returns the bytes that the file system of folder has for us.
func freeSpace(folder string) (free uint64, err error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}
