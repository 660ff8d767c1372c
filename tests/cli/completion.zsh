#!/usr/bin/env zsh
# SPDX-License-Identifier: MIT
# completion.zsh HOTLOCK FOLDER: what an interactive zsh offers behind a line, with FOLDER/_hotlock.
#
# The shell runs on a terminal of its own; each line is typed and completed there, and what would be
# offered is printed between marks. Reports in TAP.
zmodload zsh/zpty || { print '1..0 # SKIP zsh has no pseudo-terminals'; exit 0 }
path=(${1:a:h} $path)
integer number=0 bad=0
local folder=${2:a} offered

setup=(
    'PS1= PS2= RPS1=; unsetopt prompt_sp prompt_cr auto_list auto_menu beep'
    "fpath=(${(q)folder} \$fpath)"
    'autoload -Uz compinit; compinit -u -D; bindkey "^U" kill-whole-line; bindkey "^I" tell'
    'tell() { _main_complete; print -rn -- "<<E""ND>>" }; zle -C tell complete-word tell'
    # Those that only fill arrays are asked as they are; the others offer.
    'compadd() { local -a hit; local a
     for a; do [[ $a != -[OAD] ]] || { builtin compadd "$@"; return }; done; builtin compadd -O hit "$@"; (( ! $#hit )) || print -rn -- "<${(j:><:)hit}>"
     builtin compadd "$@" }'
    'print -rn -- "<<E""ND>>"'
)

until_end() {  # all up to the mark
    local all
    zpty -r z all '*<<END>>*'
    print -r -- $all
}

offers() {  # LINE WORD...: each is offered; !WORD: is not
    local line=$1 word good=1
    shift
    zpty -w -n z $'\x15'$line$'\t'
    offered=$(until_end)
    for word; do
        if [[ $word == !* ]]; then
            [[ $offered != *"<${word#!}>"* ]] || good=0
        else
            [[ $offered == *"<$word>"* ]] || good=0
        fi
    done
    (( number++ ))
    if (( good )); then
        print -r "ok $number - $line"
    else
        (( bad++ ))
        print -r "not ok $number - $line: wanted $*"
        print -r "# ${offered//$'\n'/ }"
    fi
}

zpty z zsh -f -i
for line in $setup; do zpty -w z $line; done
until_end >/dev/null
offers 'hotlock ' run try top doctor bench sim check kernel size locks machines calibrate
offers 'hotlock do' doctor !run
offers 'hotlock run --l' --lock --locks-from !--check
offers 'hotlock run --lock=' park nmcs libc !ali
offers 'hotlock try --locks=nmcs,' park all !nmcs !ali
offers 'hotlock try --measure=' wall cpu metric
offers 'hotlock try --a' --at
offers 'hotlock bench --lo' --locks
offers 'hotlock doctor --p' --preload
zpty -d z
print "1..$number"
exit $(( bad > 0 ))
