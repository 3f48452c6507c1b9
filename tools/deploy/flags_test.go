package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reference is the part of the command-line reference on a command, with the
// flags of every command. It is made from the program.
func reference(t *testing.T, command string) string {
	t.Helper()
	text := readFile(t, "../../docs/commands.md")
	section := func(title string) string {
		_, rest, ok := strings.Cut(text, "\n## "+title+"\n")
		if !ok {
			t.Fatalf("no section %s in docs/commands.md", title)
		}
		body, _, _ := strings.Cut(rest, "\n## ")
		return body
	}
	return section("Flags of every command") + section(command)
}

// isFlag reports whether a command has the flag that the argument sets.
func isFlag(reference, arg string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	return strings.Contains(reference, "`--"+name+"=") || strings.Contains(reference, "`--"+strings.TrimPrefix(name, "no-")+"`")
}

// The arguments in all files are flags of the program.
func TestArguments(t *testing.T) {
	serve := reference(t, "serve")
	check := func(where string, args []string) {
		if len(args) == 0 {
			t.Errorf("%s: no arguments", where)
		}
		for _, arg := range args {
			if !isFlag(serve, arg) {
				t.Errorf("%s: %s is no flag of serve", where, arg)
			}
		}
	}
	for _, folder := range []string{"base", "gpu", "example"} {
		for _, w := range kustomize(t, folder).workloads() {
			check(folder+": "+title(w), w.template.Spec.Containers[0].Args)
		}
	}
	for name, values := range valueFiles(t) {
		for _, w := range mustRender(t, values).workloads() {
			check("chart, "+name+": "+title(w), w.template.Spec.Containers[0].Args)
		}
	}
	for _, name := range []string{"inference_exporter.service", "gpu.conf"} {
		check(name, regexp.MustCompile(`--[a-z]\S*`).FindAllString(readFile(t, systemdDir, name), -1))
	}
	simulate := reference(t, "simulate")
	for name, s := range stack(t).Services {
		switch {
		case s.Image != "inference_exporter:stack":
		case s.Command[0] != "simulate":
			check("compose: "+name, s.Command)
		default:
			if i := slices.IndexFunc(s.Command[1:], func(arg string) bool { return !isFlag(simulate, arg) }); i >= 0 {
				t.Errorf("compose: %s: %s is no flag of simulate", name, s.Command[1+i])
			}
		}
	}
}
