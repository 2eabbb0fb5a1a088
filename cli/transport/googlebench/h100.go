package googlebench

// Figure is what another has measured of a benchmark.
type Figure struct {
	Name       string
	Real, CPU  float64 // us an iteration
	Iterations int
	Rate       float64 // bytes a second
}

// H100 are the figures that the documentation of torchcomms' RdmaTransport has ("Typical
// performance on H100 Server with 400Gbps ConnectX-7 NICs"), between GPUs.
var H100 = []Figure{
	{"BM_RdmaTransport_Write/8192/real_time", 27.0, 9.01, 27612, 288.978 * mebi},
	{"BM_RdmaTransport_Write/16384/real_time", 27.4, 6.21, 25826, 569.583 * mebi},
	{"BM_RdmaTransport_Write/32768/real_time", 27.1, 5.60, 24296, 1.1242 * gibi},
	{"BM_RdmaTransport_Write/65536/real_time", 29.2, 6.23, 23751, 2.09021 * gibi},
	{"BM_RdmaTransport_Write/131072/real_time", 33.7, 9.31, 20269, 3.62653 * gibi},
	{"BM_RdmaTransport_Write/262144/real_time", 33.2, 6.37, 21033, 7.35603 * gibi},
	{"BM_RdmaTransport_Write/524288/real_time", 38.6, 5.99, 18880, 12.6647 * gibi},
	{"BM_RdmaTransport_Write/1048576/real_time", 49.2, 7.16, 14214, 19.8673 * gibi},
	{"BM_RdmaTransport_Write/2097152/real_time", 70.7, 8.09, 9882, 27.6343 * gibi},
	{"BM_RdmaTransport_Write/4194304/real_time", 113, 10.1, 5961, 34.5553 * gibi},
	{"BM_RdmaTransport_Write/8388608/real_time", 200, 13.7, 3477, 39.1316 * gibi},
	{"BM_RdmaTransport_Write/16777216/real_time", 371, 18.3, 1889, 42.1151 * gibi},
	{"BM_RdmaTransport_Write/33554432/real_time", 717, 27.4, 971, 43.5943 * gibi},
	{"BM_RdmaTransport_Write/67108864/real_time", 1409, 46.7, 496, 44.3678 * gibi},
	{"BM_RdmaTransport_Write/134217728/real_time", 2790, 79.5, 251, 44.7995 * gibi},
	{"BM_RdmaTransport_Write/268435456/real_time", 5552, 142, 126, 45.0305 * gibi},
}

const (
	mebi = 1 << 20
	gibi = 1 << 30
)
