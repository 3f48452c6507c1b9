// Command dashgen writes the Grafana dashboards of the exporter.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "../../../dashboards", "folder to write the dashboards to")
	rules := flag.String("rules", "../../../alerts", "folder with the rules that the dashboards use")
	shared := flag.String("import", "", "folder to write the dashboards to as they are shared at grafana.com, instead")
	flag.Parse()
	to, folder := write, *out
	if *shared != "" {
		to, folder = writeForImport, *shared
	}
	if err := to(folder, *rules); err != nil {
		fmt.Fprintln(os.Stderr, "dashgen:", err)
		os.Exit(1)
	}
}

// boards are all dashboards, in the order of the way through them.
func boards() []Board {
	return []Board{fleet(), endpoint(), engineBoard(), gpuBoard(), capacity(), self()}
}

// fileName is the file of a board in dashboards/.
func fileName(b Board) string { return b.UID[len("ie-"):] + ".json" }

// write generates all dashboards and writes them to a folder. None is written
// where one is wrong.
func write(folder, rulesFolder string) error {
	files, err := generate(rulesFolder)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("write a dashboard: %w", err)
		}
	}
	return nil
}

// generate returns the dashboards by the names of their files.
func generate(rulesFolder string) (map[string][]byte, error) {
	c, err := newChecker(rulesFolder)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, b := range boards() {
		if err := c.checkBoard(b); err != nil {
			return nil, err
		}
		for _, r := range b.Rows {
			for i, p := range r.Panels {
				r.Panels[i].Sets = c.setsOf(p.Queries)
			}
		}
		text, err := emit(b)
		if err != nil {
			return nil, err
		}
		files[fileName(b)] = text
	}
	return files, nil
}
