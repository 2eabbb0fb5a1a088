package lines

import (
	"net/netip"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// Where a port can be reached from other machines, anybody could give commands.
func TestFollowersAreOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "10.0.0.1": false, "fe80::1%eth0": false, "2001:db8::1": false} {
		err := mayFollow(netip.MustParseAddr(address))
		if (err == nil) != allowed {
			t.Errorf("--follow at %s: %v", address, err)
		}
		if err != nil && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "loopback")) {
			t.Errorf("--follow at %s: %v", address, err)
		}
	}
}
