# Completion of cricket for bash.

_cricket_names() {	# NAME-OF-THE-FIELD, of the JSON on standard input
	sed -n "s/.*\"$1\": \"\\([^\"]*\\)\".*/\\1/p"
}

_cricket() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} i
	local commands="run snapshot snapshots env jupyter cdi docker podman check status metrics top suspend park resume end checkpoint restore move reap drain trace servers login put store token"
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
		return
	fi
	if [ "$command" = run ]; then	# the program is the first word that is no option and no value of one
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			-s | --server | -g | --gpus | -d | --devices | -m | --mem | --sm | -w | --wait | -W | --worker-prefix | -n | --nccl | -p | --profile | --from) ((i++)) ;;
			--) ((i++)); break ;;
			-*) ;;
			*) break ;;
			esac
		done
		if [ "$i" -lt "$COMP_CWORD" ] || { [ "$i" -eq "$COMP_CWORD" ] && [ "$before" = -- ]; }; then
			declare -F _command_offset > /dev/null && _command_offset "$i"
			return
		fi
	fi
	case $before in
	-s | --server)
		i=; [ "$command" != run ] || i=emu
		mapfile -t COMPREPLY < <(compgen -W "$i $(cricket servers --json 2> /dev/null | _cricket_names name)" -- "$word")
		return ;;
	-p | --profile | -e | --expires | --output) return ;;
	--kind) mapfile -t COMPREPLY < <(compgen -W "cricket/gpu nvidia.com/gpu" -- "$word"); return ;;
	-n | --nccl) mapfile -t COMPREPLY < <(compgen -W "auto workers program" -- "$word"); return ;;
	-f | --format) mapfile -t COMPREPLY < <(compgen -W "sh fish plain" -- "$word"); return ;;
	esac
	case $command:$word in
	run:-*) i="--server --gpus --devices --mem --sm --wait --worker-prefix --nccl --profile --check --from --help" ;;
	snapshot:-*) i="--server --gpus --devices --mem --sm --wait --worker-prefix --nccl --at --help" ;;
	snapshots:-*) i="--help" ;;
	env:-*) i="--server --gpus --devices --mem --sm --wait --worker-prefix --nccl --format --help" ;;
	jupyter:-*) i="--server --gpus --devices --mem --sm --wait --worker-prefix --nccl --name --python --prefix --help" ;;
	cdi:-*) i="--server --gpus --devices --mem --sm --wait --worker-prefix --nccl --name --kind --output --help" ;;
	docker:-* | podman:-*) i="--server --gpus --devices --mem --sm --wait --worker-prefix --nccl --help" ;;
	check:-*) i="--server --json --help" ;;
	status:-*) i="--server --json --watch --help" ;;
	checkpoint:-*) i="--server --every --help" ;;
	metrics:-*) i="--server --identities --help" ;;
	servers:-*) i="--server --state --lan --json --help" ;;
	token:-*) i="--file --expires --help" ;;
	login:-*) i="--remove --install --help" ;;
	trace:-*) i="--help" ;;
	*:-*) i="--server --help" ;;
	run:*) mapfile -t COMPREPLY < <(compgen -c -- "$word"); return ;;
	check:* | status:* | metrics:* | top:* | login:* | servers:*) i=$(cricket servers --json 2> /dev/null | _cricket_names name) ;;
	suspend:* | park:* | resume:* | end:* | checkpoint:* | move:*) i=$(cricket status --json 2> /dev/null | _cricket_names session) ;;
	token:*) i="add list revoke" ;;
	store:*) i="list empty" ;;
	snapshots:*) i=rm ;;
	put:*) [ "$COMP_CWORD" -eq 2 ] && i=$(cricket servers --json 2> /dev/null | _cricket_names name) || i= ;;
	docker:* | podman:*) i="run create" ;;
	*) i= ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$i" -- "$word")
}

complete -o default -F _cricket cricket
