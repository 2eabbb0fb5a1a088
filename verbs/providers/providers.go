// Package providers links in the providers of devices, each of which registers
// itself with package verbs: a new one is added here and nowhere else.
package providers

import (
	_ "ringcli/verbs/ibv"
	_ "ringcli/verbs/shm"
	_ "ringcli/verbs/soft"
)
