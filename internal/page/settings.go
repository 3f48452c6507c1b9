package page

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Bounds of the settings of a server, which are labels of this exporter's series.
const (
	// maxSetting is the longest text of a setting that is read, in bytes.
	maxSetting = 64
	// maxShownSettings is how many texts of settings a page may have in newShownEvery.
	maxShownSettings = 64
)

// text is that of a setting, as a sample of a source has it.
type text struct {
	source int
	value  string
	model  modelMatch
}

// addInfo adds the sources of a setting.
func (c *mapping) addInfo(sources []config.MappingInfo) []*number {
	return each(sources, func(s *config.MappingInfo) *number {
		return &number{scale: 1, source: c.addSource(s.Series, source{textOf: s.Label, max: true})}
	})
}

// keepText keeps the text of a setting that a sample has.
func (s *scratch) keepText(source int, label string, ls labels.Labels, model modelMatch) {
	t := text{source, ls.Get(label), model}
	if t.value != "" && len(t.value) <= maxSetting && len(s.texts) < maxShownSettings && !slices.Contains(s.texts, t) {
		t.value = strings.Clone(t.value) // not a part of the page
		s.texts = append(s.texts, t)
	}
}

// settings returns the settings that a page shows; nil where it has too many new ones.
func (r *Reader) settings(c *mapping, s *scratch, filtered bool, at time.Time) map[config.Setting]string {
	shown := make(map[config.Setting]string, len(c.info))
	for name, sources := range c.info {
		for _, n := range sources {
			value, several := "", false
			if v, ok := n.of(s.results); ok {
				value = strconv.FormatFloat(v, 'f', -1, 64)
			}
			for _, t := range s.texts {
				if t.source == n.source && !(filtered && t.model == otherModel) {
					several = several || value != "" && value != t.value
					value = t.value
				}
			}
			if several {
				break
			}
			if value != "" {
				shown[name] = value
				break
			}
		}
	}
	if len(shown) == 0 {
		return nil
	}
	names := func(yield func(string) bool) {
		for name, value := range shown {
			if !yield(string(name) + "=" + value) {
				return
			}
		}
	}
	if !r.shown.admit(names, maxShownSettings, at) {
		return nil
	}
	return shown
}

// cleanSettings makes the settings safe to show.
func (s *Snapshot) cleanSettings(secrets *safetext.Secrets) {
	for name, value := range s.Settings {
		s.Settings[name] = secrets.Line(value, maxSetting)
	}
}
