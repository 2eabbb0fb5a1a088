package devices

import (
	"fmt"
	"strings"

	"ringcli/verbs"
)

// The codes that ibv_devinfo writes out, as it does: the word, and the number in
// parentheses. A code that it calls invalid is "unknown" here.

// coded writes a code: "PORT_ACTIVE (4)".
func coded(words map[uint32]string, code uint32) string {
	word, known := words[code]
	if !known {
		word = "unknown"
	}
	return fmt.Sprintf("%s (%d)", word, code)
}

var (
	portStates = map[uint32]string{1: "PORT_DOWN", 2: "PORT_INIT", 3: "PORT_ARMED", 4: "PORT_ACTIVE"}
	laneWidths = map[uint32]string{1: "1X", 2: "4X", 4: "8X", 8: "12X", 16: "2X"}
	laneSpeeds = map[uint32]string{
		1: "2.5 Gbps", 2: "5.0 Gbps", 4: "10.0 Gbps", 8: "10.0 Gbps", 16: "14.0 Gbps", 32: "25.0 Gbps", 64: "50.0 Gbps",
		128: "100.0 Gbps", 256: "200.0 Gbps",
	}
	// virtualLanes has the number of data lanes.
	virtualLanes = map[uint32]string{1: "1", 2: "2", 3: "4", 4: "8", 5: "15"}
)

// physStates are a port's physical states, by the kernel's names in sysfs.
var physStates = map[string]string{
	"Sleep": "SLEEP (1)", "Polling": "POLLING (2)", "Disabled": "DISABLED (3)",
	"PortConfigurationTraining": "PORT_CONFIGURATION TRAINNING (4)", // ibv_devinfo's spelling
	"LinkUp":                    "LINK_UP (5)", "LinkErrorRecovery": "LINK_ERROR_RECOVERY (6)", "Phy Test": "PHY TEST (7)",
}

// Capabilities are the names of enum ibv_device_cap_flags, by bit.
var Capabilities = map[int]string{
	0: "RESIZE_MAX_WR", 1: "BAD_PKEY_CNTR", 2: "BAD_QKEY_CNTR", 3: "RAW_MULTI", 4: "AUTO_PATH_MIG", 5: "CHANGE_PHY_PORT",
	6: "UD_AV_PORT_ENFORCE", 7: "CURR_QP_STATE_MOD", 8: "SHUTDOWN_PORT", 9: "INIT_TYPE", 10: "PORT_ACTIVE_EVENT",
	11: "SYS_IMAGE_GUID", 12: "RC_RNR_NAK_GEN", 13: "SRQ_RESIZE", 14: "N_NOTIFY_CQ", 17: "MEM_WINDOW", 18: "UD_IP_CSUM",
	20: "XRC", 21: "MEM_MGT_EXTENSIONS", 23: "MEM_WINDOW_TYPE_2A", 24: "MEM_WINDOW_TYPE_2B", 25: "RC_IP_CSUM",
	26: "RAW_IP_CSUM", 29: "MANAGED_FLOW_STEERING",
}

// portCaps are the names of enum ibv_port_cap_flags, by bit.
var portCaps = map[int]string{
	1: "SM", 2: "NOTICE_SUP", 3: "TRAP_SUP", 4: "OPT_IPD_SUP", 5: "AUTO_MIGR_SUP", 6: "SL_MAP_SUP", 7: "MKEY_NVRAM",
	8: "PKEY_NVRAM", 9: "LED_INFO_SUP", 11: "SYS_IMAGE_GUID_SUP", 12: "PKEY_SW_EXT_PORT_TRAP_SUP", 14: "EXTENDED_SPEEDS_SUP",
	15: "CAP_MASK2_SUP", 16: "CM_SUP", 17: "SNMP_TUNNEL_SUP", 18: "REINIT_SUP", 19: "DEVICE_MGMT_SUP", 20: "VENDOR_CLASS_SUP",
	21: "DR_NOTICE_SUP", 22: "CAP_MASK_NOTICE_SUP", 23: "BOOT_MGMT_SUP", 24: "LINK_LATENCY_SUP", 25: "CLIENT_REG_SUP",
	26: "IP_BASED_GIDS",
}

// NamesOf lists the bits that are set and have a name.
func NamesOf(names map[int]string, flags uint32) []string {
	set := []string{}
	for bit := range 32 {
		if name := names[bit]; name != "" && flags&(1<<bit) != 0 {
			set = append(set, name)
		}
	}
	return set
}

// hexNumber is a number that ibv_devinfo writes in hexadecimal.
type hexNumber uint64

func (h hexNumber) String() string { return fmt.Sprintf("%#x", uint64(h)) }

type deviceFlags uint32

func (f deviceFlags) String() string { return flagWords(Capabilities, uint32(f)) }

type portFlags uint32

func (f portFlags) String() string { return flagWords(portCaps, uint32(f)) }

// flagWords writes flags and their names: "0x00010000 CM_SUP".
func flagWords(names map[int]string, flags uint32) string {
	return strings.TrimSpace(fmt.Sprintf("0x%08x %s", flags, strings.Join(NamesOf(names, flags), ", ")))
}

// mtuBytes is an MTU in bytes, which a table shows with its code.
type mtuBytes int

func (m mtuBytes) String() string {
	code, err := verbs.MTUFromBytes(int(m))
	if err != nil {
		return fmt.Sprintf("unknown (%d)", int(m))
	}
	return fmt.Sprintf("%d (%d)", int(m), uint32(code))
}

// orUnknown is a number that is 0 where the device does not say.
type orUnknown int

func (n orUnknown) String() string {
	if n == 0 {
		return "not known"
	}
	return fmt.Sprint(int(n))
}

// guid writes an EUI-64 as ibv_devinfo does: 1234:5678:9abc:def0.
func guid(v uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", v>>48, v>>32&0xffff, v>>16&0xffff, v&0xffff)
}
