package deploy

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The schema refuses what would give a wrong object, or none of what was meant.
func TestSchemaRefuses(t *testing.T) {
	for name, values := range map[string]string{
		"unknown section":           "probers: {enabled: true}",
		"unknown key":               "prober: {replicas: 2}",
		"no shards":                 "prober: {shards: 0}",
		"half a shard":              "prober: {shards: 1.5}",
		"text for a number":         "prober: {shards: two}",
		"text for a switch":         "monitor: {enabled: 'yes'}",
		"configuration as text":     "config: 'endpoints: []'",
		"configuration as a list":   "config: [{url: http://a}]",
		"pull policy":               "image: {pullPolicy: Sometimes}",
		"number as tag":             "image: {tag: 1}",
		"empty repository":          "image: {repository: ''}",
		"argument without dashes":   "prober: {args: [debug]}",
		"label that is no text":     "monitor: {labels: {a: 1}}",
		"interval without a unit":   "monitor: {interval: '15'}",
		"mount without a Secret":    "secretMounts: [{name: a}]",
		"mount that leaves":         "secretMounts: [{name: ../a, secretName: b}]",
		"namespace in upper case":   "discovery: {namespaces: [Models]}",
		"name that is none":         "fullnameOverride: A_b",
		"scrapers that are no list": "networkPolicy: {scrapers: {}}",
		"resources":                 "prober: {resources: {cpu: 1}}",
	} {
		t.Run(name, func(t *testing.T) {
			all := parseValues(t, values)
			if _, ok := all["config"]; !ok {
				all["config"] = parseValues(t, "endpoints: [{url: http://a}]")
			}
			_, _, err := render(all)
			if err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") {
				t.Errorf("%s gives %v, want a complaint of the schema", values, err)
			}
		})
	}
}

// Every key of the values is in the schema, and the other way round.
func TestSchemaIsComplete(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(readFile(t, chartDir, "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	values := parseValues(t, readFile(t, chartDir, "values.yaml"))
	properties := schema["properties"].(map[string]any)
	delete(properties, "global") // helm's own
	var compare func(path string, properties, values map[string]any)
	compare = func(path string, properties, values map[string]any) {
		for key, value := range values {
			property, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s%s is not in the schema", path, key)
				continue
			}
			if inner, ok := property["properties"].(map[string]any); ok {
				compare(path+key+".", inner, value.(map[string]any))
			}
		}
		for key := range properties {
			if _, ok := values[key]; !ok {
				t.Errorf("%s%s is not in values.yaml", path, key)
			}
		}
	}
	compare("", properties, values)
}

const (
	tableBegin = "<!-- values: made from values.yaml by the tests in tools/deploy -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// The table of the README is made of the values and the comments above them.
func TestGeneratedTable(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(readFile(t, chartDir, "values.yaml")), &root); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n| Key | Default | |\n| --- | --- | --- |\n")
	addRows(t, &b, "", root.Content[0])
	name := filepath.Join(chartDir, "README.md")
	before, rest, ok := strings.Cut(readFile(t, name), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatal("README.md has no place for the table")
	}
	checkGenerated(t, name, before+tableBegin+b.String()+"\n"+tableEnd+after)
}

// addRows writes a row for each value that has a comment, and for each that
// holds no others.
func addRows(t *testing.T, b *strings.Builder, path string, mapping *yaml.Node) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := path + key.Value
		comment := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "#", " ")), " ")
		opens := value.Kind == yaml.MappingNode && len(value.Content) > 0 && (path == "" || strings.HasSuffix(name, "resources") || strings.HasSuffix(name, "requests") || strings.HasSuffix(name, "limits"))
		if comment == "" && !opens && path == "" {
			t.Errorf("%s has no comment", name)
		}
		if opens {
			if comment != "" {
				b.WriteString("| `" + name + "` | | " + comment + " |\n")
			}
			addRows(t, b, name+".", value)
			continue
		}
		b.WriteString("| `" + name + "` | `" + flow(t, value) + "` | " + comment + " |\n")
	}
}

// flow is a value in one line.
func flow(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var value any
	if err := n.Decode(&value); err != nil {
		t.Fatal(err)
	}
	if s, ok := value.(string); ok && s != "" {
		return s
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
