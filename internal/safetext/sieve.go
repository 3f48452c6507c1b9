package safetext

import (
	"hash/maphash"
	"slices"
)

// gram is how many characters in a row a sieve looks at: no more than the
// shortest part that find takes for a secret.
const gram = minSecret

// sieve names the few of many secrets that may be in a text. It takes 3 to 4 kB
// for a secret of 40 characters.
type sieve struct {
	seed maphash.Seed
	// entries are sorted: the upper half of each is the hash of some characters
	// in a row of a form of a secret, the lower half the number of the secret.
	entries []uint64
}

// Indexed returns the same set prepared for many secrets and many texts, such
// as those of a whole configuration and a log.
func (s *Secrets) Indexed() *Secrets {
	all := &sieve{seed: maphash.MakeSeed()}
	for number, value := range s.Values() {
		for _, form := range formsOf(value) {
			runes := plainOf(form).runes
			for i := 0; i+gram <= len(runes); i++ {
				all.entries = append(all.entries, all.entry(runes[i:i+gram], number))
			}
			if len(runes) >= minCut {
				all.entries = append(all.entries, all.entry(runes[:minCut], number))
			}
		}
	}
	slices.Sort(all.entries)
	all.entries = slices.Clip(slices.Compact(all.entries))
	return &Secrets{values: s.Values(), sieve: all}
}

func (s *sieve) entry(runes []rune, number int) uint64 {
	return maphash.String(s.seed, string(runes))<<32 | uint64(uint32(number))
}

// suspects returns the secrets that may be in a text.
func (s *sieve) suspects(text []rune, values []string) []string {
	var found []string
	look := func(runes []rune) {
		first := s.entry(runes, 0)
		i, _ := slices.BinarySearch(s.entries, first)
		for ; i < len(s.entries) && s.entries[i]>>32 == first>>32; i++ {
			if v := values[uint32(s.entries[i])]; !slices.Contains(found, v) {
				found = append(found, v)
			}
		}
	}
	for i := 0; i+gram <= len(text); i++ {
		look(text[i : i+gram])
	}
	// A secret may be cut at the end, after its first characters.
	for end := len(text); end >= minCut && end > len(text)-gram-len(ellipsis); end-- {
		look(text[end-minCut : end])
	}
	return found
}
