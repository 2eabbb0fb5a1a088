package ibvtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// extended are the fields that ibv_query_device_ex adds, or the kernel's board_id,
// which are not of the verbs that ringcli has.
var extended = []string{
	"board_id", "general_odp_caps", "rc_odp_caps", "uc_odp_caps", "ud_odp_caps", "xrc_odp_caps", "completion timestamp_mask",
	"hca_core_clock", "raw packet caps", "device_cap_flags_ex", "tso_caps", "max_tso", "supported_qp", "rss_caps",
	"max_rwq_indirection_tables", "max_rwq_indirection_table_size", "rx_hash_function", "rx_hash_fields_mask", "max_wq_type_rq",
	"packet_pacing_caps", "qp_rate_limit_min", "qp_rate_limit_max", "max_rndv_hdr_size", "max_num_tags", "max_ops", "flags",
	"cq moderation caps", "max_cq_count", "max_cq_period", "maximum available device memory", "num_comp_vectors",
	"port_cap_flags2",
}

// report is what Compare reads of `ringcli query --output json`, the fields aside.
type report struct {
	Flags []string `json:"device_cap_names"`
	Ports []json.RawMessage
}

type portReport struct {
	Port int
	GIDs []struct {
		Index int        `json:"gid_index"`
		GID   netip.Addr `json:"gid"`
		Type  string     `json:"gid_type"`
	}
}

// Compare compares a device field by field with a line of `ringcli query --output
// json`. It returns how many fields were compared and a sentence for each that
// differs or is missing.
func (d Device) Compare(query []byte) (compared int, differences []string, err error) {
	var r report
	if err := json.Unmarshal(query, &r); err != nil {
		return 0, nil, fmt.Errorf("query of %s: %w", d.ID, err)
	}
	compared, differences, err = compareFields("", d.Fields, query)
	if err != nil {
		return 0, nil, fmt.Errorf("query of %s: %w", d.ID, err)
	}
	if want := d.Flags["device_cap_flags"]; !slices.Equal(want, r.Flags) {
		differences = append(differences, fmt.Sprintf("device_cap_names: ibv_devinfo has %v, query %v", want, r.Flags))
	}
	if len(r.Ports) != len(d.Ports) {
		return compared, append(differences, fmt.Sprintf("ports: ibv_devinfo has %d, query %d", len(d.Ports), len(r.Ports))), nil
	}
	for i, p := range d.Ports {
		n, more, err := p.compare(r.Ports[i])
		if err != nil {
			return 0, nil, fmt.Errorf("query of %s: %w", d.ID, err)
		}
		compared, differences = compared+n, append(differences, more...)
	}
	return compared, differences, nil
}

func (p Port) compare(text json.RawMessage) (compared int, differences []string, err error) {
	var r portReport
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, nil, err
	}
	where := fmt.Sprintf("port %d ", p.Number)
	if r.Port != p.Number {
		return 0, []string{fmt.Sprintf("%s: query has port %d there", where, r.Port)}, nil
	}
	compared, differences, err = compareFields(where, p.Fields, text)
	if err != nil {
		return 0, nil, err
	}
	var ours []GID
	for _, g := range r.GIDs {
		// ibv_devinfo leaves out a GID whose interface part is zero.
		if a := g.GID.As16(); [8]byte(a[8:]) != [8]byte{} {
			ours = append(ours, GID{g.Index, g.GID, g.Type})
		}
	}
	same := func(a, b GID) bool {
		return a.Index == b.Index && a.Addr == b.Addr && (a.Type == "" || a.Type == b.Type || strings.HasPrefix(a.Type, "IB") && b.Type != "RoCE v2")
	}
	if !slices.EqualFunc(p.GIDs, ours, same) {
		differences = append(differences, fmt.Sprintf("%sGIDs: ibv_devinfo has %v, query %v", where, p.GIDs, ours))
	}
	return compared + len(p.GIDs), differences, nil
}

// compareFields compares all fields that are not extended with a JSON object.
func compareFields(where string, fields map[string]string, object []byte) (compared int, differences []string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber() // max_mr_size has 64 bits
	var ours map[string]any
	if err := decoder.Decode(&ours); err != nil {
		return 0, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(extended, name) {
			continue
		}
		compared++
		value, found := ours[name]
		switch {
		case !found:
			differences = append(differences, fmt.Sprintf("%s%s: ibv_devinfo has %s, query nothing", where, name, fields[name]))
		case !same(fields[name], value):
			differences = append(differences, fmt.Sprintf("%s%s: ibv_devinfo has %s, query %v", where, name, fields[name], value))
		}
	}
	return compared, differences, nil
}

// same compares a value of ibv_devinfo with one of JSON: texts as texts, numbers as
// numbers, whatever base they are written in. Of a code that ibv_devinfo has no word
// for, only the number counts.
func same(theirs string, ours any) bool {
	switch ours := ours.(type) {
	case string:
		if strings.HasPrefix(theirs, "invalid ") {
			return code(theirs) == code(ours)
		}
		return theirs == ours
	case json.Number:
		first, _, _ := strings.Cut(theirs, " ") // "4096 (5)" is 4096 bytes
		a, err := strconv.ParseUint(first, 0, 64)
		b, err2 := strconv.ParseUint(ours.String(), 10, 64)
		return err == nil && err2 == nil && a == b
	}
	return false
}

// code is the number in parentheses at the end of a value: "(4)".
func code(value string) string { return value[max(0, strings.LastIndex(value, "(")):] }
