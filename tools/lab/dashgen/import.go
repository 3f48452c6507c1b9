package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// panelNames are what Grafana calls its own panels, by their types.
var panelNames = map[string]string{
	"heatmap": "Heatmap", "stat": "Stat", "state-timeline": "State timeline", "table": "Table", "timeseries": "Time series", "text": "Text",
	"barchart": "Bar chart", "xychart": "XY Chart",
}

// writeForImport writes the dashboards to a folder as Grafana exports them to be shared, as at grafana.com: they ask for
// the data source when they are imported, and list what they require.
func writeForImport(folder, rulesFolder string) error {
	files, err := generate(rulesFolder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of dashboards: %w", err)
	}
	for name, text := range files {
		shared, err := forImport(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), shared, 0o644); err != nil {
			return fmt.Errorf("write a dashboard: %w", err)
		}
	}
	return nil
}

type required struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// forImport adds inputs and requirements to a dashboard.
func forImport(text []byte) ([]byte, error) {
	var board map[string]any
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	const input = "DS_PROMETHEUS"
	board["id"] = nil
	board["__inputs"] = []any{map[string]string{
		"name": input, "label": "Prometheus", "description": "The one that scrapes the exporter", "type": "datasource", "pluginId": "prometheus", "pluginName": "Prometheus",
	}}
	requires := []required{{"grafana", "grafana", "Grafana", "11.0.0"}, {"datasource", "prometheus", "Prometheus", "1.0.0"}}
	for _, kind := range panelTypes(board["panels"].([]any)) {
		name, ok := panelNames[kind]
		if !ok {
			return nil, fmt.Errorf("no name of panels of type %s", kind)
		}
		requires = append(requires, required{"panel", kind, name, ""})
	}
	board["__requires"] = requires
	for _, v := range board["templating"].(map[string]any)["list"].([]any) {
		if variable := v.(map[string]any); variable["type"] == "datasource" {
			variable["current"] = map[string]string{"text": "${" + input + "}", "value": "${" + input + "}"}
		}
	}
	return json.MarshalIndent(board, "", "  ")
}

// panelTypes lists the types of panels, those in rows included, in order.
func panelTypes(panels []any) []string {
	var types []string
	for _, p := range panels {
		panel := p.(map[string]any)
		if inner, ok := panel["panels"].([]any); ok {
			types = append(types, panelTypes(inner)...)
		}
		if kind := panel["type"].(string); kind != "row" {
			types = append(types, kind)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}
