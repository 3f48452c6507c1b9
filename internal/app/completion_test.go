package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// What kingpin offers for a line: for what is begun it offers more than fits, as it is the
// shell that chooses of it.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	f := func(words string, want ...string) {
		t.Helper()
		got := shell(t, "bash", "inference_exporter --completion-bash "+words)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
	}
	f("de", "demo", "detect")
	f("''", "serve", "check", "demo", "compare", "probe", "load", "detect", "explain", "incident", "modules", "rules", "simulate", "completion", "schema", "man")
	f("check ''", "")               // any file
	f("rules --config.file ''", "") // any file
	f("completion ''", "bash", "zsh", "fish")
	f("completion z", "zsh")
	f("--log.level ''", "debug", "info", "warn", "error")
	f("--log.level = w", "debug", "info", "warn", "error") // as bash cuts it
	f("--log.level=w", "debug", "info", "warn", "error")   // as zsh and fish have it
	f("--log.format json che", "check")
	f("explain --module ''", "agent", "batch", "code-completion", "embedding", "interactive", "long-context", "rag", "structured", "tool-call")
	f("compare --config.file a-file.yml ''", "llama", "qwen")
	for _, flag := range []string{"--config.file", "--collector.gpu", "--log.level"} {
		if got := shell(t, "bash", "inference_exporter --completion-bash --"); !slices.Contains(got, flag) {
			t.Errorf("no %s among the flags of the default command: %q", flag, got)
		}
	}
}

func TestCompletionCommands(t *testing.T) {
	for name, file := range map[string]string{"bash": "inference_exporter.bash", "zsh": "_inference_exporter", "fish": "inference_exporter.fish"} {
		want, err := os.ReadFile("../cli/completion/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if got := runToEnd(t, "completion", name); got != (ended{cli.ExitOK, string(want), ""}) {
			t.Errorf("%s: %+v", name, got)
		}
		if name == "fish" {
			continue
		}
		own := shell(t, "bash", "inference_exporter --completion-script-"+name)
		if got := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"); !slices.Equal(got, own) {
			t.Errorf("%s: not kingpin's own script: %q", name, own)
		}
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: SHELL \"csh\": want one of bash, zsh, fish, try inference_exporter completion --help"}, "completion", "csh")
}

// aFile is the configuration in the folder of a shell.
const aFile = `modules: {quick: {prompt: Hello}}
endpoints: [{name: llama, url: http://a}, {name: qwen, url: http://b, http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}]
`

// shell runs a script in a real shell, with this test as the program, and
// returns the lines that it prints. It skips where the shell is not there.
func shell(t *testing.T, name, script string) []string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "inference_exporter")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a-file.yml"), []byte(aFile), 0o600); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs("../cli/completion")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{runAsProgram + "=1", "PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "SCRIPTS=" + scripts, "LANG=C", "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// shellCase is a line as typed, and the words that a shell must offer.
type shellCase struct {
	typed string
	want  []string
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []shellCase{
		{"inference_exporter de", []string{"demo", "detect"}},
		{"inference_exporter completion ''", []string{"bash", "zsh", "fish"}},
		{"inference_exporter serve --log.level ''", []string{"debug", "info", "warn", "error"}},
		{"inference_exporter --log.level = w", []string{"warn"}}, // what replaces the word after =
		{"inference_exporter rules --conf", []string{"--config.file"}},
		{"inference_exporter probe --config.file = a-file.yml ''", []string{"llama", "qwen"}},
		{"inference_exporter compare --config.file a-file.yml llama q", []string{"qwen"}},
		{"inference_exporter probe --config.file a-file.yml --module q", []string{"quick"}},
		{"inference_exporter probe --config.file no-file.yml ''", []string{""}},
		{"inference_exporter rules --config.file ''", []string{""}}, // bash offers files itself
	} {
		got := shell(t, "bash", `. "$SCRIPTS/inference_exporter.bash"
			COMP_WORDS=(`+tc.typed+`) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			_inference_exporter_bash_autocomplete
			printf '%s\n' "${COMPREPLY[@]}"`)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.typed, got, tc.want)
		}
	}
}

func TestFishCompletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []shellCase{ // in fish's own order
		{"inference_exporter de", []string{"demo", "detect"}},
		{"inference_exporter completion ", []string{"bash", "fish", "zsh"}},
		{"inference_exporter rules --config.file a", []string{"a-file.yml"}},
	} {
		got := shell(t, "fish", `source $SCRIPTS/inference_exporter.fish
			complete -C '`+tc.typed+`' | string replace -r '\t.*' ''; true`)
		for _, word := range tc.want {
			if !slices.Contains(got, word) {
				t.Errorf("%q: got %q, want %q", tc.typed, got, word)
			}
		}
	}
}

// The functions of zsh's completion need a terminal: stubs replace them and print
// their arguments.
func TestZshCompletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []shellCase{
		{"inference_exporter chec", []string{"check"}},
		{"inference_exporter completion ''", []string{"bash", "zsh", "fish"}},
		{"inference_exporter rules --config.file ''", []string{"files"}},
	} {
		got := shell(t, "zsh", `compdef() { [[ $* == '_inference_exporter inference_exporter' ]] || print "compdef $*" }
			typeset -A compstate
			compadd() { compstate[nmatches]=$#matches; (( $#matches )) && print -rl -- $matches }
			_files() { print files }
			source $SCRIPTS/_inference_exporter
			words=(`+tc.typed+`) CURRENT=$#words
			_inference_exporter; true`)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.typed, got, tc.want)
		}
	}
}
