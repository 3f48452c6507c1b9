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
	if strings.Contains(reference, "`--"+name+"`") || strings.Contains(reference, "`--"+name+"=") {
		return true
	}
	return strings.Contains(reference, "`--[no-]"+strings.TrimPrefix(name, "no-")+"`")
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

func TestIsFlag(t *testing.T) {
	text := "| `--a.b=FILE` |\n| `--[no-]c` |\n| `--d` |\n"
	for arg, want := range map[string]bool{
		"--a.b=x": true, "--no-c": true, "--c": true, "--d": true,
		"--a": false, "--no-d": false, "--a.b.c": false, "--x=--d": false,
	} {
		if isFlag(text, arg) != want {
			t.Errorf("%s: want %v", arg, want)
		}
	}
}

// The pods are shards by these variables.
func TestShardVariables(t *testing.T) {
	serve := reference(t, "serve")
	for _, name := range []string{"SHARD_INDEX", "SHARD_COUNT"} {
		if !strings.Contains(serve, name) {
			t.Errorf("serve does not read %s", name)
		}
	}
}

// The image and what is built by hand know the discovery that the manifests use.
func TestImageHasDiscovery(t *testing.T) {
	if !regexp.MustCompile(`(?m)^RUN make build .*\bTAGS=kubernetes_sd,consul_sd,clouds,mcp\b`).MatchString(readFile(t, "../../Dockerfile")) {
		t.Error("the Dockerfile builds without Kubernetes discovery")
	}
	if !strings.Contains(readFile(t, "../../Makefile"), "$(TAGS)") {
		t.Error("make build ignores TAGS")
	}
}
