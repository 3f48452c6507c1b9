# fish completion of inference_exporter

function __inference_exporter_complete
	set -l words (commandline -opc)
	set -l begun (commandline -ct)
	$words[1] --completion-bash $words[2..-1] "$begun"
end

complete -c inference_exporter -a '(__inference_exporter_complete)'
