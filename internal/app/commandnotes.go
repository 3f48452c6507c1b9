package app

import "strconv"

// meaning tells what a code or a signal means.
type meaning struct{ Of, Meaning string }

// exitCodes are the exit codes of every command.
func exitCodes() []meaning {
	return []meaning{
		{strconv.Itoa(exitOK), "Done. The daemon was asked to stop and did."},
		{strconv.Itoa(exitRun), "It failed while running: a port is taken, a probe did not succeed, nothing was recognised at the URL, something still hung 5 seconds after the signal to stop."},
		{strconv.Itoa(exitConfig), "Flags, or a configuration, that cannot be used. Every problem is a line on standard error, with its file, line and key."},
	}
}

// signals are what the daemon does on each signal.
func signals() []meaning {
	return []meaning{
		{"SIGHUP", "Read the configuration file again. A file that cannot be used leaves the old configuration in force, and the metrics say so."},
		{"SIGINT, SIGTERM", "Stop: end probes in flight as canceled, and leave within 5 seconds. What still hangs then ends with the process, a line on standard error says so, and the exit code is 1."},
	}
}

// commandTexts say of each command what it does, prints and returns, for who has
// read its help.
func commandTexts() map[string]string {
	return map[string]string{
		"serve": "Runs until SIGINT or SIGTERM, and then ends within 5 seconds. It needs --config.file or --endpoint, unless it reads GPUs alone.",
		"check": "Exit code 0 and a line with the number of endpoints and probes for a good file, 2 for a bad one, with a line for each problem. " +
			"Asks no endpoint anything.",
		"demo": "Needs no configuration, no endpoint and no GPU: a healthy, a saturated and a failing server are simulated, and one that is asked in bursts.",
		"probe": "TARGET is a URL, or with --config.file the name of an endpoint in it. Prints where the time went and, after a failure, what to " +
			"check next. Exit code 1 unless every probe succeeded.",
		"detect":  "Asks without a key and without a prompt, and follows no redirect. Prints a configuration with the reasons as comments. Exit code 1 where nothing is recognised.",
		"modules": "Lists the built-in modules and, with --config.file, those of the file.",
		"rules":   "Prints YAML for rule_files of Prometheus. What the rules cannot tell for a configuration stands at the top, as comments.",
		"simulate": "Queueing, batching and a prefix cache as an engine has them, and every protocol. What it did, to the nanosecond, is on " +
			"/simulator/state. Runs until SIGINT or SIGTERM.",
		"man":        "The page is the same for every build of a version.",
		"completion": "The script asks the program itself for what may come next, so it must be found in PATH.",
	}
}

// commandExample is a command line that works, and what it is for.
type commandExample struct{ Line, Purpose string }

// commandExamples are examples of each command.
func commandExamples() map[string][]commandExample {
	return map[string][]commandExample{
		"serve": {
			{"inference_exporter --config.file=endpoints.yml", "All that the file says."},
			{"inference_exporter --endpoint=http://vllm.internal:8000", "One endpoint with all defaults, without a file."},
			{"inference_exporter --no-collector.probe --no-collector.server --collector.gpu", "The GPUs of this machine alone."},
		},
		"check": {
			{"inference_exporter check --config.file=endpoints.yml", "Before a restart, or in the CI of the file."},
		},
		"demo": {
			{"inference_exporter demo", "The daemon is then on http://127.0.0.1:10115."},
		},
		"probe": {
			{"inference_exporter probe http://vllm.internal:8000", "One probe, with its phases and its tokens on a time line."},
			{"inference_exporter probe --config.file=endpoints.yml --module=canary llama-prod", "As the daemon would, with the endpoint's keys and the module's question."},
			{"inference_exporter probe -n 20 -o json http://vllm.internal:8000", "Twenty probes and a summary, a line of JSON each."},
		},
		"detect": {
			{"inference_exporter detect http://vllm.internal:8000 > endpoints.yml", "A file to start from."},
		},
		"modules": {
			{"inference_exporter modules --config.file=endpoints.yml", "What is asked, and how often."},
		},
		"rules": {
			{"inference_exporter rules --config.file=endpoints.yml > inference.rules.yml", "Rules with the labels and the guards that fit the file's intervals."},
		},
		"simulate": {
			{"inference_exporter simulate --engine=sglang --slots=4", "A small SGLang, to see saturation."},
			{"inference_exporter simulate --fault=status_503 --fault-ratio=0.1", "A tenth of the requests is refused."},
		},
		"man": {
			{"inference_exporter man | man -l -", "Read it without installing it."},
		},
		"completion": {
			{"inference_exporter completion bash > /etc/bash_completion.d/inference_exporter", "For every user, in the next shell."},
			{"inference_exporter completion zsh > ~/.zfunc/_inference_exporter", "A directory of fpath, set before compinit."},
			{"inference_exporter completion fish > ~/.config/fish/completions/inference_exporter.fish", "In the next shell."},
		},
	}
}
