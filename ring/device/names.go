package device

import (
	"strings"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// Names are the devices of a --device, which has several, separated by commas, where channels
// are to be spread over them.
func Names(text string) ([]string, error) {
	names := strings.Split(text, ",")
	if len(names) > Rails {
		return nil, usage.Errorf("device %q: %d devices: expected at most %d", text, len(names), Rails)
	}
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); len(names) > 1 && (names[i] == "" || names[i] == route.Auto || verbs.CapabilitiesOf(names[i]).HostLocal) {
			return nil, usage.Errorf("device %q: %q is one of several: expected devices of a network, as in soft:eth0,soft:eth1", text, names[i])
		}
	}
	return names, nil
}
