package config

import "testing"

// The bytes of a model follow from the formats' definitions: Llama 3.1 8B has
// 8.03e9 weights; a block of 32 in MX has one byte of scale, one of 16 in NVFP4.
func TestReadBytes(t *testing.T) {
	for _, tt := range []struct {
		hardware Hardware
		want     Bytes
	}{
		{Hardware{}, 0},
		{Hardware{Weights: 5, WeightsPrecision: INT4}, 5},
		{Hardware{WeightsPrecision: BF16}, 0},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: FP32}, 32_120_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: BF16}, 16_060_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: FP16}, 16_060_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: FP8}, 8_030_000_000},
		{Hardware{Parameters: 32e9, WeightsPrecision: MXFP8}, 33_000_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: INT8}, 8_030_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: FP4}, 4_015_000_000},
		{Hardware{Parameters: 32e9, WeightsPrecision: MXFP4}, 17_000_000_000},
		{Hardware{Parameters: 32e9, WeightsPrecision: NVFP4}, 18_000_000_000},
		{Hardware{Parameters: 8.03e9, WeightsPrecision: INT4}, 4_015_000_000},
	} {
		if got := tt.hardware.ReadBytes(); got != tt.want {
			t.Errorf("%+v: %d bytes, want %d", tt.hardware, int64(got), int64(tt.want))
		}
	}
	for _, p := range Precisions() {
		if p.BytesPerWeight() <= 0 {
			t.Errorf("%s has no size", p)
		}
	}
}
