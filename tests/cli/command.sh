#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests of the hotlock command, in TAP. Arguments: hotlock, the subject program (see subject.c), its
# static and musl-linked forms, a preload that replaces nothing, the real preload, and the bash
# completion.
# shellcheck disable=SC2046  # names of build trees have no spaces
set -- $(realpath "$@")
hotlock=$1 subject=$2 static=$3 musl=$4 nothing=$5 real=$6 completion=$7
if ! [ $# = 7 ] || ! "$hotlock" --version >/dev/null; then
    echo 'Bail out! wrong arguments'
    exit 1
fi
unset HOTLOCK LD_PRELOAD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$subject" subject
number=0

# ---- a case: its name, then commands that end with 0 ----

ok() {
    number=$((number + 1))
    echo "ok $number - $1"
}
not_ok() {
    number=$((number + 1))
    echo "not ok $number - $1"
    echo "# expected $2"
    sed 's/^/# /' out err
}

# Runs hotlock; leaves its exit code in $code, its streams in the files out and err.
run() {
    "$hotlock" "$@" >out 2>err </dev/null
    code=$?
}
# try CMD: on nothing but the lock's name in the environment; few runs, no warm-up.
try() {
    run try --preload "$nothing" --warmup 0 --runs 5 "$@"
}

lines() {
    wc -l <"$1"
}
# is NAME CODE PATTERN: the last run ended with CODE and stdout has a line like the extended regex.
is() {
    if [ "$code" = "$2" ] && tr -s '\n ' ' ' <out | grep -Eq -- "$3"; then
        ok "$1"
    else
        not_ok "$1" "exit $2 and on stdout: $3 (exit was $code)"
    fi
}
# bad NAME PATTERN: exit 2, nothing on stdout, one line like the extended regex on stderr.
bad() {
    if [ "$code" = 2 ] && [ ! -s out ] && [ "$(lines err)" = 1 ] && grep -Eq -- "$2" err; then
        ok "$1"
    else
        not_ok "$1" "exit 2 and one line: $2 (exit was $code)"
    fi
}
# holds NAME COMMAND...: the command ends with 0.
holds() {
    name=$1
    shift
    if "$@" >held 2>&1; then
        ok "$name"
    else
        not_ok "$name" "$*: $(cat held)"
    fi
}
fits() {
    awk 'length($0) > 100 { print; wide = 1 } END { exit wide }' "$@"
}
valid_json() {
    python3 -m json.tool "$1"
}
# json FILE EXPRESSION: a Python expression about the document d is true.
json() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert eval(sys.argv[2]), d' "$@"
}

# ---- the frame ----

run --help
is 'help lists the commands' 0 'try +run .* run +run .* locks +list'
holds 'help fits 100 columns' fits out
run --version
is 'version' 0 '^hotlock [0-9]+\.[0-9]+\.[0-9]+ $'
for command in try run locks; do
    run $command --help
    is "$command --help" 0 "^Usage: hotlock $command "
    holds "$command --help fits 100 columns" fits out
    run $command --version
    is "$command --version" 0 '^hotlock [0-9]'
done
run
bad 'no command' 'no command given'
run lokcs
bad 'unknown command' "unknown command 'lokcs'; nearest is 'locks'"
run try --rnus 3 -- true
bad 'unknown option' "hotlock try: unknown option '--rnus'; nearest is '--runs'"
run try --runs
bad 'option without its value' "option '--runs' needs a value"
run try -n
bad 'short option without its value' "option '-n' needs a value"
run try -Z
bad 'unknown short option' "unknown option '-Z'"
run locks --json=yes
bad 'value for an option that takes none' "'--json' takes no value"
run try --me x -- true
bad 'ambiguous option' "'--me' could mean several"
run locks --output "$work/no/such" --json
bad 'output to a folder that is not there' "cannot write '.*/no/such'"

# ---- locks ----

run locks
is 'locks lists them all' 0 'park .*tas .*ticket .*mcs .*nmcs .*nmcs4 .*mcsflag .*qspin .*ali '
holds 'locks fits 100 columns' fits out
run locks --csv
is 'locks --csv' 0 '^lock,bytes,node_bytes,fairness,shared,summary,source '
run locks --markdown
is 'locks --markdown' 0 '^\| lock \| bytes '
run locks --json
holds 'locks --json is JSON' json out 'd["schema"] == "hotlock-locks/1" and len(d["locks"]) == 9'
run locks -o list --csv
holds 'locks -o writes the file' grep -q '^park,' list
run locks extra
bad 'locks takes no words' "unexpected word 'extra'"

# ---- run: what the program sees ----

preload_run() {
    run run --preload "$nothing" "$@"
}
preload_run --lock tas -- ./subject
is 'run sets the lock and the preload' 0 "^lock=tas\|$nothing $"
preload_run --lock nmcs,yield ./subject
is 'run NAME,POLICY' 0 '^lock=nmcs,wait=yield\|'
preload_run --lock nmcs:park ./subject
is 'run NAME:POLICY' 0 '^lock=nmcs,wait=park\|'
preload_run --lock tas --check ./subject
is 'run --check' 0 '^lock=tas,check=1\|'
LD_PRELOAD=libdl.so.2
export LD_PRELOAD
preload_run --lock tas ./subject
is 'run keeps an existing LD_PRELOAD behind' 0 "^lock=tas\|$nothing:libdl.so.2 $"
unset LD_PRELOAD
HOTLOCK=lock=tas "$hotlock" run --lock libc ./subject >out 2>err
code=$?
is 'run --lock libc sets nothing' 0 '^\| $'
preload_run --lock tas -- ./subject at tas exit 7
holds "run ends with the program's exit code" test "$code" = 7
printf '#!/bin/sh\nexec ./subject\n' >script
chmod +x script
preload_run --lock tas ./script
is 'run follows a script' 0 '^lock=tas\|'
run run --lock tas ./subject
is 'run finds its own preload' 0 "^lock=tas\|$real $"
for lock in park tas ticket mcs nmcs nmcs4 mcsflag qspin; do
    run run --lock $lock ./subject count 4
    is "run: a program counts right under $lock" 0 '^80000 $'
done

# ---- run: programs and names that cannot be ----

refused() {
    name=$1 pattern=$2
    shift 2
    preload_run --lock tas -- "$@"
    bad "run: $name" "$pattern"
    try "$@"
    bad "try: $name" "$pattern"
}
refused 'not in PATH' "'no-such-program': program not found" no-such-program
refused 'no such file' "'./no-such': there is no such file" ./no-such
refused 'empty name' "''.*not found" ''
refused 'a folder' 'it is a directory' ./
cp subject locked
chmod -x locked
refused 'not executable' "'./locked': it is not executable" ./locked
refused 'static' 'statically linked' "$static"
refused 'musl' 'linked with musl' "$musl"
cp subject suid
chmod u+s suid
refused 'set-user-ID' 'it is set-user-ID' ./suid
cp subject sgid
chmod g+s sgid
refused 'set-group-ID' 'it is set-group-ID' ./sgid
if cp subject capable && setcap cap_net_raw+ep capable 2>/dev/null; then
    refused 'file capabilities' 'it has file capabilities' ./capable
else
    ok 'file capabilities # SKIP cannot set them here'
fi
# patch FILE OFFSET BYTES: what the ELF header says of the machine and the word size.
patch() {
    cp subject "$1"
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>dd.log
}
patch foreign 18 '\363\000'
refused 'another machine' 'riscv program and the preload is' ./foreign
patch narrow 4 '\001'
refused 'another word size' 'it is a 32-bit ' ./narrow
printf '#!%s/no-such\n' "$work" >orphan
printf '#!%s\n' "$static" >static-script
printf '#!/usr/bin/env no-such-program\n' >env-script
printf '#!./ring\n' >ring
echo text >plain
chmod +x orphan static-script env-script ring plain
refused 'script without its interpreter' "interpreter '.*/no-such' cannot be executed" ./orphan
refused 'script with a static interpreter' 'statically linked' ./static-script
refused 'script by env of no program' "'no-such-program': program not found" ./env-script
refused 'scripts in a ring' 'interpreter' ./ring
refused 'neither ELF nor script' 'neither an ELF program nor a script' ./plain

preload_run --lock tikcet ./subject
bad 'run: unknown lock' "unknown lock 'tikcet'; nearest is 'ticket'"
preload_run --lock ali ./subject
bad 'run: ali explains itself' "'ali' runs critical sections as functions"
preload_run --lock tas,sipn ./subject
bad 'run: unknown policy' "unknown wait policy 'sipn'; nearest is 'spin'"
preload_run --lock libc,spin ./subject
bad 'run: libc with a policy' 'libc takes no wait policy'
preload_run --lock libc --check ./subject
bad 'run: --check without a preload' '--check needs the preload'
preload_run ./subject
bad 'run: no lock' 'no lock given'
preload_run --lock tas
bad 'run: no command' 'no command given'
run run --preload ./script --lock tas ./subject
bad 'run: preload is no library' "cannot preload '.*script': it is not a shared library"
run run --preload ./missing.so --lock tas ./subject
bad 'run: preload is missing' "cannot preload './missing.so'"
cp "$nothing" 'spaced out.so'
run run --preload './spaced out.so' --lock tas ./subject
bad 'run: preload with a space' 'a space or a colon'
REFUSE=ticket "$hotlock" run --preload "$nothing" --lock ticket ./subject >out 2>err
code=$?
bad 'run: a lock the preload refuses' "does not offer the lock 'ticket'"
REFUSE=ticket "$hotlock" try --preload "$nothing" --runs 1 --locks ticket ./subject >out 2>err
code=$?
bad 'try: a lock the preload refuses' "does not offer the lock 'ticket'"
REFUSE=ticket "$hotlock" try --preload "$nothing" --warmup 0 --runs 1 --csv ./subject >out 2>err
holds 'try: all leaves out what the preload refuses' awk -F, '
    $1 == "ticket" { bad = 1 } $1 == "tas" { tas = 1 } END { exit bad || !tas }' out

# ---- try: bad input ----

for value in 0 abc -1 1.5 99999999 ''; do
    run try --runs "$value" -- ./subject
    bad "try --runs '$value'" "--runs '$value' is not a whole number"
done
for value in 0 abc -1 inf nan ''; do
    run try --limit "$value" -- ./subject
    bad "try --limit '$value'" "--limit '$value' is not a number of seconds"
done
run try --warmup x -- ./subject
bad 'try --warmup x' "--warmup 'x' is not a whole number"
run try
bad 'try: no command' 'no command given'
run try --locks tas,tikcet -- ./subject
bad 'try: unknown lock' "unknown lock 'tikcet'; nearest is 'ticket'"
run try --locks ali -- ./subject
bad 'try: ali explains itself' "'ali' runs critical sections as functions"
run try --locks tas,,mcs -- ./subject
bad 'try: empty item' 'empty item'
run try --locks libc -- ./subject
bad 'try: libc alone' 'names no lock to compare'
run try --measure time -- ./subject
bad 'try: unknown measure' "--measure 'time'"
run try --measure metric -- ./subject
bad 'try: measure without metric' 'needs --metric'
run try --measure cpu --metric '(x)' --lower-better -- ./subject
bad 'try: measure against metric' 'exclude each other'
run try --metric '(x)' -- ./subject
bad 'try: metric without direction' 'either --higher-better or --lower-better'
run try --metric '(x)' --higher-better --lower-better -- ./subject
bad 'try: metric with both directions' 'either --higher-better or --lower-better'
run try --higher-better -- ./subject
bad 'try: direction without metric' '--higher-better needs --metric'
run try --metric '(x' --lower-better -- ./subject
bad 'try: regex that does not compile' "--metric '\(x' does not compile: Unmatched"
run try --metric 'x' --lower-better -- ./subject
bad 'try: regex without a group' 'has 0 groups'
run try --metric '(x)(y)' --lower-better -- ./subject
bad 'try: regex with two groups' 'has 2 groups'
try --metric 'nowhere ([0-9])' --lower-better -- ./subject
bad 'try: regex that never matches' 'matches nothing in the output'
try --metric '(value)' --lower-better -- ./subject value libc=1
bad 'try: group without a number' "found 'value' in the output, which is not a number"
run try --vary threads -- ./subject
bad 'try: vary without values' "is not NAME=V1,V2"
run try --vary threads=1,2 -- ./subject
bad 'try: vary not in the command' '\{threads\} is nowhere'
run try --vary a=1 --vary b=1 -- ./subject {a} {b}
bad 'try: vary twice' 'given twice'
run try -o . -- ./subject
bad 'try: output is a folder' 'it is a directory'
try -l tas -- ./subject at libc crash
bad 'try: a program that crashes by itself' 'fails under libc itself \(killed by SIGSEGV\)'
try -l tas --limit 0.2 -- sleep 100
bad 'try: a program over the limit by itself' 'longer than 0.2 s under libc itself'
try -l tas --same-output -- sh -c 'echo $$'
bad 'try: same-output on a program that varies' 'differs from run to run under libc'

# ---- try: verdicts, on printed values that depend on the lock and not on the machine ----

value() {
    try --locks park,tas,qspin --metric 'value: ([0-9.]+)' "$@"
}
value --higher-better -- ./subject value libc=100 tas=150 qspin=80
is 'best, more is better' 0 'verdict: best is tas: 50\.0 % higher metric than libc \(95 % interval'
is 'the last match counts, ratios stand beside' 0 'tas +5 +150\.0 +150\.0 to 150\.0 +1\.500 '
value --lower-better -- ./subject value libc=100 tas=150 qspin=80
is 'best, less is better' 0 'verdict: best is qspin: 20\.0 % lower metric than libc'
is 'the best comes first after libc' 0 'libc .* qspin .* park .* tas '
value --higher-better -- ./subject value libc=100 tas=300 qspin=80
is 'best by a multiple' 0 "best is tas: 3\.00 times libc's metric"
value --higher-better -- ./subject value libc=100 tas=150 qspin=150
is 'as good as the best' 0 'as good within the noise: qspin\.'
value --lower-better -- ./subject value libc=100 park=110 tas=150 qspin=120
is 'every alternative is worse' 0 'every alternative is worse; stay with libc.*least bad, park, has'
value --higher-better -- ./subject value libc=100 tas=101 qspin=99
is 'no lock will help' 0 'no lock will help, because none changes the metric by more than 2 %'
value --runs 9 --higher-better -- ./subject wobble "$work/turns" 80 100
is 'no difference that matters' 0 'no difference that matters: no lock is better'
value --runs 4 --higher-better -- ./subject value libc=100 tas=150
is 'too few runs' 1 'no verdict: it takes at least 5 runs'
holds 'tables fit 100 columns' fits out

printf '#!/bin/sh\necho "${HOTLOCK:-libc}" >>order\n' >orderly
chmod +x orderly
try --locks tas,park --runs 3 --warmup 1 -- ./orderly
holds 'rounds are interleaved and rotate' test "$(sed 's/lock=//' order | tr '\n' ' ')" = \
    'libc tas park tas park libc park libc tas libc tas park '

# ---- try: runs that go wrong are counted and not ranked ----

wrong() {
    name=$1 pattern=$2
    shift 2
    try --locks park,tas "$@"
    is "$name" 0 "tas +[0-5] +- .*$pattern"
}
wrong 'a crash' 'crashed 5 of 5 \(killed by SIGSEGV\)' -- ./subject at tas crash
wrong 'another exit code' 'other exit code 5 of 5 \(9, not 0\)' -- ./subject at tas exit 9
wrong 'another output' 'other output 5 of 5' --same-output -- ./subject at tas say x
try --locks tas --runs 1 -- ./subject at tas flood
is 'too much output' 1 'tas +0 +- .*too much output 1 of 1'
wrong 'no metric' 'no metric 5 of 5' --metric 'value: ([0-9]+) u' --higher-better -- \
    ./subject value libc=1 tas=x
try --locks tas,park -- ./subject at tas crash
is 'locks that are not ranked come last' 0 'libc .* park .* tas +0 '
try --locks park,tas -- ./subject at tas say x
is 'other output is fine unless asked' 0 'tas +5 +[0-9]'
try --locks park,tas -- ./subject at libc exit 3
is "libc's exit code is the measure" 1 'park .*other exit code 5 of 5 \(0, not 3\).* with exit 3'
is 'no lock left to rank' 1 'under no lock did the program always run as under libc'

# ---- try: nothing is left behind ----

# The subject's descendants hold the FIFO open, so reading to its end waits until all are gone.
mkfifo fifo
# with_fifo SIGNAL COMMAND...: in the background; SIGNAL ("" for none) is sent when the subject has
# said its pid, which is left in $subject_pid.
with_fifo() {
    signal=$1
    shift
    env --default-signal=INT "$@" >out 2>err </dev/null &
    # shellcheck disable=SC2016  # for the inner shell
    subject_pid=$(timeout 30 sh -c '{
        read -r pid
        echo "$pid"
        [ -z "$2" ] || kill -"$2" "$1"
        cat >/dev/null
    } <fifo' reader $! "$signal")
    end=$?
    [ $end = 0 ] || kill $!
    wait $!
    code=$?
    [ $end = 0 ] || code=stuck
}
once="try --preload $nothing --warmup 0 --runs 1"
with_fifo "" "$hotlock" $once --locks tas --limit 0.2 -- ./subject at tas hang fifo
is 'a hang is over the limit' 1 'tas +0 +- .*over the limit 1 of 1 \(0\.2 s\)'
holds 'the hung program is gone' sh -c "! kill -0 $subject_pid"
with_fifo "" "$hotlock" $once --locks tas -- ./subject at tas leave fifo
is 'left-over processes end with the run' 1 'tas +1 +[0-9]'

with_fifo INT "$hotlock" $once --locks tas,park -- ./subject at tas hang fifo
is 'Ctrl-C gives the partial table' 130 'PARTIAL, interrupted .* libc +1 +[0-9].*partial verdict:'
with_fifo TERM "$hotlock" $once --locks tas,park --json -- ./subject at tas hang fifo
holds 'SIGTERM' test "$code" = 130
holds 'gives partial JSON' json out 'd["partial"] and len(d["sections"][0]["locks"]) == 3'
with_fifo INT "$hotlock" $once --vary n=1,2 --locks tas -- ./subject at tas hang fifo {n}
is 'with --vary too' 130 'PARTIAL.* n = 1 lock '
holds 'a section that was not begun is not printed' sh -c '! grep "n = 2" out'
echo precious >kept
with_fifo KILL "$hotlock" $once --limit 1000 --locks tas -o kept -- ./subject at tas hang fifo
holds 'even SIGKILL leaves no process' test "$code" = 137
holds 'nor a half file' grep -qx precious kept
holds 'nor a temporary one' sh -c '! ls -A | grep -q "^\.hotlock-"'

# ---- try: input, output, formats ----

printf '#!/bin/sh\nread word; echo "value: $word"\n' >reader
chmod +x reader
echo 42 >input
"$hotlock" try --preload "$nothing" --locks tas --warmup 0 --runs 5 --metric 'value: ([0-9]+)' \
    --lower-better -- ./reader <input >out 2>err
code=$?
is 'a file on stdin is read again by every run' 0 'tas +5 +42\.00 '
try --locks tas --vary n=1,22 -- ./subject say {n}{n}
is 'one table for each value' 0 'n = 1 lock .*verdict: .*n = 22 lock .*verdict: '
try --locks tas,nmcs:yield,tas --csv --vary n=1,22 -- ./subject say {n}
holds 'CSV has one heading, and each lock once' awk -F, '
    NR == 1 && $1 FS $2 FS $3 != "n,lock,runs" { bad = 1 }
    { seen[$1 FS $2]++; rows++ }
    END { exit bad || rows != 7 || seen["22,nmcs:yield"] != 1 || seen["1,tas"] != 1 }' out
try --locks tas --markdown -- ./subject
is 'Markdown' 0 '\| lock \| runs \| .*\| libc \| 5 \|.*\*\*Verdict:\*\*'
try --locks tas --json -o result -- ./subject value 'libc=1'
holds 'JSON in the file' json result 'd["schema"] == "hotlock-try/1" and not d["partial"]'
holds 'with samples' json result 'len(d["sections"][0]["locks"][1]["samples"]) == 5'
holds 'with the CPU use of others' json result '0 <= d["foreign_cpu"] <= 1'
is 'and text on stdout' 0 '^\./subject value libc=1 5 runs of each lock .*verdict: '
umask 027
echo old >mode
chmod 604 mode
try --locks tas -o mode -- ./subject
holds 'a replaced file keeps its mode' test "$(stat -c %a mode)" = 604
try --locks tas -o fresh -- ./subject
holds 'a new file gets the usual mode' test "$(stat -c %a fresh)" = 640
ln -s mode link
try --locks tas -o link -- ./subject
holds 'a link stays one' test -L link
try --locks tas -o /dev/full -- ./subject
holds 'a full disk is not success' test "$code" = 1
holds 'and said in one line' test "$(lines err)" = 1
try --locks tas --measure cpu -- ./subject
is 'CPU time' 0 'CPU time, lower is better\. .*lock runs CPU s .* wall s'
try --locks all --csv -- ./subject
holds 'all is every lock of the preload' awk -F, 'END { exit NR != 10 }' out
try --locks tas -- ./subject
holds 'no progress unless on a terminal' test ! -s err
script -qec "'$hotlock' $once --locks tas -- ./subject" typescript >out 2>err </dev/null
code=$?
is 'progress on a terminal' 1 'round 1 of 1, libc'
"$hotlock" try --warmup 0 --runs 5 --locks tas,park -- ./subject count 2 >out 2>err
code=$?
is 'try with the real preload' 0 'libc +5 +[0-9].*verdict: '

# ---- completion ----

# complete WORD...: what bash would offer for the last word.
complete() {
    bash -c '. "$1"; shift
        compopt() { :; }
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _hotlock
        echo "${COMPREPLY[*]}"' bash "$completion" "$hotlock" "$@" >out 2>err
    code=$?
}
complete ''
is 'completes commands' 0 '(^| )try run .*doctor .*locks --help'
complete try --lo
is 'completes options' 0 '^--locks --lower-better $'
complete try -l park,nm
is 'completes the last of a list' 0 '^park,nmcs park,nmcs4 $'
complete run --lock ''
is 'completes locks that can be preloaded' 0 '^libc park tas ticket mcs nmcs nmcs4 mcsflag qspin $'
complete try --measure ''
is 'completes fixed values' 0 '^wall cpu metric $'
complete try --runs 3 -- ./subj --lo
is 'offers nothing of ours after --' 0 '^ ?$'

echo "1..$number"
