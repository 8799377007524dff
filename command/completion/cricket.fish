# Completion of cricket for fish.

function __cricket_names
    sed -n "s/.*\"$argv[1]\": \"\([^\"]*\)\".*/\1/p"
end
function __cricket_servers
    cricket servers --json 2>/dev/null | __cricket_names name
end
function __cricket_sessions
    cricket status --json 2>/dev/null | __cricket_names session
end

complete -c cricket -f
set -l all run snapshot snapshots env jupyter cdi docker podman check status metrics top suspend park resume end checkpoint restore move reap drain trace servers login put store token
complete -c cricket -n "not __fish_seen_subcommand_from $all" -a "$all"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman check status metrics top suspend park resume end checkpoint restore move reap drain servers store" -s s -l server -x -a "(__cricket_servers)" -d "name or address"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -s g -l gpus -x -d "N GPUs"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -s d -l devices -x -d "these GPUs"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -l sm -x -d "use this part of the multiprocessors"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -s m -l mem -x -d "at most this much memory"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -s w -l wait -x -d "wait for a session"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -s W -l worker-prefix -x -d "start the worker through this command of the server"
complete -c cricket -n "__fish_seen_subcommand_from run snapshot env jupyter cdi docker podman" -s n -l nccl -x -a "auto workers program" -d "where NCCL runs"
complete -c cricket -n "__fish_seen_subcommand_from run" -s c -l check -d "check kernels on the emulated GPU"
complete -c cricket -n "__fish_seen_subcommand_from run" -l from -x -d "run a copy of a snapshot"
complete -c cricket -n "__fish_seen_subcommand_from snapshot" -l at -x -a "signal file: http://" -d "when the program is ready"
complete -c cricket -n "__fish_seen_subcommand_from snapshots" -a rm
complete -c cricket -n "__fish_seen_subcommand_from run" -s p -l profile -r -F -d "write a timeline"
complete -c cricket -n "__fish_seen_subcommand_from env" -s f -l format -x -a "sh fish plain"
complete -c cricket -n "__fish_seen_subcommand_from jupyter" -l name -x -d "of the kernel"
complete -c cricket -n "__fish_seen_subcommand_from jupyter" -l python -r -F -d "that has ipykernel"
complete -c cricket -n "__fish_seen_subcommand_from jupyter" -l prefix -r -F -d "install below it"
complete -c cricket -n "__fish_seen_subcommand_from cdi" -l name -x -d "of the device"
complete -c cricket -n "__fish_seen_subcommand_from cdi" -l kind -x -a "cricket/gpu nvidia.com/gpu"
complete -c cricket -n "__fish_seen_subcommand_from cdi" -l output -r -F -d "write it into this file"
complete -c cricket -n "__fish_seen_subcommand_from check status servers" -s j -l json -d "as JSON"
complete -c cricket -n "__fish_seen_subcommand_from servers" -s t -l state -d "of all that are configured"
complete -c cricket -n "__fish_seen_subcommand_from servers" -l lan -d "those that announce themselves"
complete -c cricket -n "__fish_seen_subcommand_from metrics" -s i -l identities -d "each identity too"
complete -c cricket -n "__fish_seen_subcommand_from status" -s w -l watch -d "again each second"
complete -c cricket -n "__fish_seen_subcommand_from token" -a "add list revoke"
complete -c cricket -n "__fish_seen_subcommand_from token" -s f -l file -r -F -d "list of the server"
complete -c cricket -n "__fish_seen_subcommand_from token" -s e -l expires -x -d "last day"
complete -c cricket -n "__fish_seen_subcommand_from login" -s r -l remove -d "forget the token"
complete -c cricket -n "__fish_seen_subcommand_from login" -s i -l install -d "install the server's client"
complete -c cricket -n "__fish_seen_subcommand_from check status metrics top login servers" -a "(__cricket_servers)"
complete -c cricket -n "__fish_seen_subcommand_from suspend park resume end checkpoint move" -a "(__cricket_sessions)"
complete -c cricket -n "__fish_seen_subcommand_from checkpoint" -s e -l every -x -d "write it again and again"
complete -c cricket -n "__fish_seen_subcommand_from checkpoint restore trace" -F
complete -c cricket -n "__fish_seen_subcommand_from run" -x -a "(__fish_complete_subcommand --fcs-skip=2)"
complete -c cricket -n "__fish_seen_subcommand_from docker podman; and not __fish_seen_subcommand_from run create" -a "run create"
