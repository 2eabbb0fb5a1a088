package shm

// ForbidReading has this process behave as if it could not read others' memory, as
// where yama or a container forbids it.
func ForbidReading() { mayRead = false }

// AllowReading undoes it.
func AllowReading() { mayRead = true }
