# fish completion of inference_exporter

function __inference_exporter_complete
	set -l words (commandline -opc)
	set -l begun (commandline -ct)
	set -l suggestions ($words[1] complete -- $words[2..-1] "$begun" 2>/dev/null)
	if set -q suggestions[1]
		printf '%s\n' $suggestions
	else
		# A path may follow on --flag=, which is then part of the word.
		set -l flag (string match -r -- '^-.*=' "$begun")
		__fish_complete_path (string replace -r -- '^-.*=' '' "$begun") | string replace -r -- '^' "$flag"
	end
end

complete -c inference_exporter -f -a '(__inference_exporter_complete)'
