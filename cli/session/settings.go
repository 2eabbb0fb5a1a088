package session

import (
	"slices"

	"ringcli/configs"
)

// HostLists are the settings of connect that name files for lists of hosts.
var HostLists = []string{"good-hosts", "bad-hosts"}

// RingSettings are the settings that connecting takes.
var RingSettings = Without(Without(configs.Names(), ProcessSettings...), HostLists...)

// HandSettings are those of whoever connects by hand, to a list.
var HandSettings = append([]string{"list", "index"}, Without(Without(RingSettings, LaunchSettings...), reportSetting)...)

// Without returns the names but for some.
func Without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}

// ProcessSettings are the settings that are flags of every process command.
var ProcessSettings = []string{"output", "csv-table", "trace", "trace-format", "junit", "metrics", "log-file", "log-size"}

// OperationSettings are those that each operation takes anew.
var OperationSettings = []string{"algorithm", "protocol", "segment", "depth"}
