package googlebench

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// H100 are rates in bytes a second, by benchmark, that the documentation of torchcomms'
// RdmaTransport has ("Typical performance on H100 Server with 400Gbps ConnectX-7 NICs"), between
// GPUs.
var H100 = map[string]float64{
	"BM_RdmaTransport_Write/8192/real_time":      288.978 * mebi,
	"BM_RdmaTransport_Write/16384/real_time":     569.583 * mebi,
	"BM_RdmaTransport_Write/32768/real_time":     1.1242 * gibi,
	"BM_RdmaTransport_Write/65536/real_time":     2.09021 * gibi,
	"BM_RdmaTransport_Write/131072/real_time":    3.62653 * gibi,
	"BM_RdmaTransport_Write/262144/real_time":    7.35603 * gibi,
	"BM_RdmaTransport_Write/524288/real_time":    12.6647 * gibi,
	"BM_RdmaTransport_Write/1048576/real_time":   19.8673 * gibi,
	"BM_RdmaTransport_Write/2097152/real_time":   27.6343 * gibi,
	"BM_RdmaTransport_Write/4194304/real_time":   34.5553 * gibi,
	"BM_RdmaTransport_Write/8388608/real_time":   39.1316 * gibi,
	"BM_RdmaTransport_Write/16777216/real_time":  42.1151 * gibi,
	"BM_RdmaTransport_Write/33554432/real_time":  43.5943 * gibi,
	"BM_RdmaTransport_Write/67108864/real_time":  44.3678 * gibi,
	"BM_RdmaTransport_Write/134217728/real_time": 44.7995 * gibi,
	"BM_RdmaTransport_Write/268435456/real_time": 45.0305 * gibi,
}
