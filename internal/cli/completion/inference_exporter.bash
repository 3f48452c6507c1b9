# bash completion of inference_exporter

_inference_exporter() {
	local line=${COMP_LINE:0:COMP_POINT} begun suggestion cut
	local -a words
	# The line, not COMP_WORDS, which is cut at = and : too.
	read -r -a words <<<"$line"
	[[ $line == *[[:blank:]] ]] && words+=('')
	begun=${words[${#words[@]} - 1]}
	# What stands before the last = stays in the line: only the rest is replaced.
	cut=
	[[ $begun == *=* && $COMP_WORDBREAKS == *=* ]] && cut=${begun%=*}=
	COMPREPLY=()
	while IFS=$'\t' read -r suggestion _; do
		COMPREPLY+=("${suggestion#"$cut"}")
	done < <("$1" complete -- "${words[@]:1}" 2>/dev/null)
}

complete -o bashdefault -o default -F _inference_exporter inference_exporter
