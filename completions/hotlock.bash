# SPDX-License-Identifier: MIT
# bash completion for hotlock. Commands and options come from --help, locks from `hotlock locks`, so
# that nothing here can fall behind.

_hotlock_commands()
{
    "$1" --help | sed -n '/^Commands:/,/^$/ s/^  \([a-z]*\) .*/\1/p'
}

# "OPTION VALUE" for each option of a command: "-o FILE", "--output FILE", "--json ".
_hotlock_options()
{
    "$1" "$2" --help | sed -n '
        s/^  *-\([A-Za-z]\), --\([a-z-]*\)=\([^ ]*\).*/-\1 \3\n--\2 \3/p; t
        s/^  *\(-., \)\{0,1\}--\([a-z-]*\)=\([^ ]*\).*/--\2 \3/p; t
        s/^  *\(-., \)\{0,1\}--\([a-z-]*\).*/--\2 /p'
}

# Locks that can stand in for a pthread lock, or with bench all.
_hotlock_locks()
{
    "$1" locks --csv | sed -n '2,$s/,.*//p' | grep -vx "$([[ $2 == bench ]] || echo ali)"
}

# Completes the last item of a comma-separated list.
_hotlock_list()
{
    local items=
    [[ $cur == *,* ]] && items=${cur%,*},
    mapfile -t COMPREPLY < <(compgen -P "$items" -W "$1" -- "${cur##*,}")
    compopt -o nospace
}

# The value of the option before the cursor; fails if that takes none.
_hotlock_value()
{
    local hotlock=$1 command=$2 option=$3 value
    value=$(_hotlock_options "$hotlock" "$command" | sed -n "s/^$option //p")
    case $option,$value in
    *,) return 1 ;;
    --locks,* | -l,LIST) _hotlock_list "all $(_hotlock_locks "$hotlock" "$command")" ;;
    --lock,* | -l,* | --org,* | --new,*)
        mapfile -t COMPREPLY < <(
            compgen -W "libc $(_hotlock_locks "$hotlock" "$command")" -- "$cur") ;;
    *'|'*) mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$cur") ;;
    *,FILE | *,DIR) compopt -o default ;;
    esac
}

_hotlock()
{
    local hotlock=${COMP_WORDS[0]} command=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]} i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(
            compgen -W "$(_hotlock_commands "$hotlock") --help --usage --version" -- "$cur")
        return
    fi
    # After -- everything belongs to the program.
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        compopt -o default
        ((i < COMP_CWORD - 1)) || mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        return
    done
    _hotlock_value "$hotlock" "$command" "${COMP_WORDS[COMP_CWORD - 1]}" && return
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(
            compgen -W "$(_hotlock_options "$hotlock" "$command" | cut -d ' ' -f 1)" -- "$cur")
    else
        compopt -o default
        [[ $command != doctor ]] || mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    fi
}

complete -F _hotlock hotlock
