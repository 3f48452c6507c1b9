package deploy

import (
	"regexp"
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
	check := func(where, reference string, args []string) {
		if len(args) == 0 {
			t.Errorf("%s: no arguments", where)
		}
		for _, arg := range args {
			if !isFlag(reference, arg) {
				t.Errorf("%s: %s is no flag of the command", where, arg)
			}
		}
	}
	for _, folder := range []string{"base", "gpu", "example"} {
		for _, w := range kustomize(t, folder).workloads() {
			check(folder+": "+title(w), serve, w.template.Spec.Containers[0].Args)
		}
	}
	for name, values := range valueFiles(t) {
		for _, w := range mustRender(t, values).workloads() {
			check("chart, "+name+": "+title(w), serve, w.template.Spec.Containers[0].Args)
		}
	}
	for _, name := range []string{"inference_exporter.service", "gpu.conf"} {
		check(name, serve, regexp.MustCompile(`--[a-z]\S*`).FindAllString(readFile(t, systemdDir, name), -1))
	}
	for _, name := range []string{"github-actions.yml", "gitlab-ci.yml"} {
		_, line, _ := strings.Cut(strings.ReplaceAll(readFile(t, gatesDir, name), "\\\n", " "), "inference_exporter compare ")
		line, _, _ = strings.Cut(line, "\n")
		check(name, reference(t, "compare"), regexp.MustCompile(`--[a-z]\S*`).FindAllString(line, -1))
	}
	for name, s := range stack(t).Services {
		switch {
		case s.Image != "inference_exporter:stack":
		case s.Command[0] == "simulate":
			check("compose: "+name, reference(t, "simulate"), s.Command[1:])
		default:
			check("compose: "+name, serve, s.Command)
		}
	}
}
