# SPDX-License-Identifier: MIT
# bash completion for hotlock.

# Names of locks, as the command itself lists them.
_hotlock_locks()
{
    "${COMP_WORDS[0]}" locks --csv 2>/dev/null | sed -n '2,$s/,.*//p' | grep -v '^ali$'
}

# Completes the last item of a comma-separated list.
_hotlock_list()
{
    local done_items=
    [[ $cur == *,* ]] && done_items=${cur%,*},
    mapfile -t COMPREPLY < <(compgen -P "$done_items" -W "$1" -- "${cur##*,}")
    compopt -o nospace
}

_hotlock()
{
    local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} common='--help --usage --version'
    local formats='--json --csv --markdown --output' i
    COMPREPLY=()

    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "try run locks $common" -- "$cur")
        return
    fi
    # After -- everything belongs to the program.
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if ((i == COMP_CWORD - 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            compopt -o default
        fi
        return
    done
    case $previous in
    --lock | --locks | -l)
        if [[ $command == try ]]; then
            _hotlock_list "all $(_hotlock_locks)"
        else
            mapfile -t COMPREPLY < <(compgen -W "libc $(_hotlock_locks)" -- "$cur")
        fi
        return
        ;;
    --measure)
        mapfile -t COMPREPLY < <(compgen -W 'wall cpu metric' -- "$cur")
        return
        ;;
    --preload | --output | -o)
        compopt -o default
        return
        ;;
    esac
    case $command in
    try)
        common+=" $formats --locks --runs --warmup --limit --vary --preload --measure --metric"
        common+=' --higher-better --lower-better --same-output --'
        ;;
    run) common+=' --lock --check --preload --' ;;
    locks) common+=" $formats" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$common" -- "$cur")
}

complete -F _hotlock hotlock
