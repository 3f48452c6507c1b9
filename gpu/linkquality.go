package gpu

import (
	"math"
	"strconv"
)

// fecBins is how many bins the history of the error correction of NVLink 5 has.
const fecBins = 16

// slowFieldReadings are the fields that show how good the NVLinks are, from
// NVLink 5 on: packets, what the error correction had to do, and the rate of
// errors that it left.
func slowFieldReadings() []fieldReading {
	var list []fieldReading
	for _, f := range []fieldReading{
		{name: "packets sent over each NVLink", field: Field{ID: 201}, kind: NVLinkTransmitPackets, convert: plain},
		{name: "packets received over each NVLink", field: Field{ID: 203}, kind: NVLinkReceivePackets, convert: plain},
	} {
		list = append(list, everyLink(f)...)
	}
	for bin := range fecBins {
		list = append(list, everyLink(fieldReading{
			name: "NVLink error correction", field: Field{ID: 235 + bin}, kind: NVLinkFEC, label: strconv.Itoa(bin),
		})...)
	}
	for link := range maxLinks {
		list = append(list, fieldReading{
			name: "NVLink bit error ratio", field: Field{220, uint32(link)}, kind: NVLinkBitErrorRatio, label: strconv.Itoa(link),
			convert: bitErrorRatio, link: true,
		})
	}
	for i := range list {
		list[i].unsplit = true
	}
	return list
}

// noBitErrors is how the driver reports a link without errors: as 15e-255, the
// smallest ratio that it can.
const noBitErrors = 0xfff

// bitErrorRatio decodes a ratio m * 10^-e, with e in the bits 0 to 7 and m in the
// bits 8 to 11.
func bitErrorRatio(v float64) float64 {
	if v < 0 || v > math.MaxUint32 {
		return math.NaN()
	}
	bits := uint32(v)
	if bits&0xfff == noBitErrors {
		return 0
	}
	return float64(bits>>8&0xf) * math.Pow(10, -float64(bits&0xff))
}

// fecBinNames are the values of the label of NVLinkFEC.
func fecBinNames() []string {
	names := make([]string, fecBins)
	for bin := range names {
		names[bin] = strconv.Itoa(bin)
	}
	return names
}

// linkQualityReadings are the kinds of slowFieldReadings.
func linkQualityReadings() []Info {
	return []Info{
		{
			Kind: NVLinkVersion, Type: Gauge, Hardware: withNVLink,
			Help: "Version of the NVLinks: 4 for Hopper, 5 for Blackwell.",
		},
		{
			Kind: NVLinkTransmitPackets, Type: Counter, Hardware: nvlink5,
			Help: "Packets that the GPU sent over all its NVLinks, read once a minute.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS",
		},
		{
			Kind: NVLinkReceivePackets, Type: Counter, Hardware: nvlink5,
			Help: "Packets that the GPU received over all its NVLinks, read once a minute.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS",
		},
		{
			Kind: NVLinkFEC, Type: Counter, Hardware: nvlink5, Label: "bin", Values: fecBinNames(),
			Help: "History of the forward error correction of all NVLinks of the GPU, by the number of symbols to correct (the driver's bin), read once a minute. The lowest bins grow on a healthy link; growth of high bins means that a link is close to errors that it cannot correct.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_*",
		},
		{
			Kind: NVLinkBitErrorRatio, Type: Gauge, Unit: "ratio", Hardware: nvlink5, Label: "link",
			Help: "Ratio of bits that are wrong after error correction (effective bit error rate), by link, read once a minute.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT",
		},
	}
}
