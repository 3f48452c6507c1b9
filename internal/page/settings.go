package page

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// maxSetting is the longest text of a setting that is read, in bytes, and maxShownSettings how many a page may have in
// newShownEvery: they are labels of this exporter's series.
const maxSetting, maxShownSettings = 64, 64

// addInfo adds the sources of a setting.
func (c *mapping) addInfo(sources []config.MappingInfo) []*number {
	return each(sources, func(s *config.MappingInfo) *number {
		return &number{scale: 1, source: c.addSource(s.Series, source{textOf: s.Label, max: true})}
	})
}

// textNumber returns the index of the text of a setting among those of the page; -1 for one that is not read.
func (s *scratch) textNumber(text string) float64 {
	i := slices.Index(s.texts, text)
	if i < 0 && text != "" && len(text) <= maxSetting && len(s.texts) < maxShownSettings {
		i, s.texts = len(s.texts), append(s.texts, strings.Clone(text)) // not a part of the page
	}
	return float64(i)
}

// settings returns the settings that a page shows; nil where it has too many new ones.
func (r *Reader) settings(c *mapping, s *scratch, at time.Time) map[config.Setting]string {
	shown, names := map[config.Setting]string{}, []string(nil)
	for name, sources := range c.info {
		for _, n := range sources {
			v, ok := n.of(s.results)
			if !ok {
				continue
			}
			if shown[name] = plainNumber(v); c.sources[n.source].textOf != "" {
				shown[name] = s.texts[int(v)]
			}
			names = append(names, string(name)+"="+shown[name])
			break
		}
	}
	if len(names) == 0 || !r.shown.admit(slices.Values(names), maxShownSettings, at) {
		return nil
	}
	return shown
}

// plainNumber writes a number without an exponent.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
