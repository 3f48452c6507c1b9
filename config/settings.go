package config

import "strings"

// Setting is something that servers are started with, as far as their pages show it: a name in settings.yml.
type Setting string

// The settings that say with which precision a server computes.
const (
	Precision        Setting = "precision"
	Quantization     Setting = "quantization"
	KVCachePrecision Setting = "kv_cache_precision"
)

// SettingRow is what is known of a setting; settings.yml says what the fields are.
type SettingRow struct {
	Setting  Setting
	ByRole   bool `yaml:"by_role"`
	Quantity bool
	Help     string
}

var settings = embedded[[]SettingRow]("settings.yml")

// Settings lists the settings of servers; it is not to be changed.
func Settings() []SettingRow { return settings() }

// SettingNames lists the names of the settings.
func SettingNames() (all []string) {
	for _, row := range Settings() {
		all = append(all, string(row.Setting))
	}
	return all
}

// MappingInfo is where to find a setting of a server on a page.
type MappingInfo struct {
	// Series is the name of the samples, found as in a source.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Label is the label with the text of the setting; a page with several texts shows
	// none. Default: none, the number of the samples, the largest of several.
	Label string `yaml:"label,omitempty" form:"label"`
}

// checkInfo checks the names of the settings of a mapping.
func (m *Mapping) checkInfo(d *decoder, p path) {
	for s := range m.Info {
		if nearest := NearestNames(string(s), SettingNames(), 3); nearest[0] != string(s) {
			d.errorf(p.key(string(s)), "unknown setting %s; the nearest are %s (docs/engines.md lists all)", quote(string(s)), strings.Join(nearest, ", "))
		}
	}
}
