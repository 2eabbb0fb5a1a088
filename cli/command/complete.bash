# Completion of ringcli for bash 4 and later.
#
# The package bash-completion is used if it is there, but not needed: the two
# functions that follow stand in for its _get_comp_words_by_ref and _filedir.

# Sets words, cword, cur and prev to what the shell would pass to the command up to
# the cursor. Readline breaks words at = : and @ too; parts with no blank between
# them are one word.
__ringcli_words() {
    local i part rest line=${COMP_LINE:0:COMP_POINT}
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${line#"${line%%[![:space:]]*}"}
        part=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || part=$rest
        if ((i > 0)) && [[ $rest == "$line" ]]; then
            words[${#words[@]} - 1]+=$part
        else
            words+=("$part")
        fi
        line=${rest#"$part"}
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=
    ((cword == 0)) || prev=${words[cword - 1]}
}

# Completes directories, and files unless -d is given; of the extensions in "a|b|"
# if some are given.
__ringcli_filedir() {
    if declare -F _filedir >/dev/null; then
        _filedir "$@"
        return
    fi
    local path
    compopt -o filenames 2>/dev/null
    while IFS= read -r path; do
        if [[ -d $path || -z ${1-} || $1 != -d && "|${1}" == *"|${path##*.}|"* ]]; then
            COMPREPLY+=("$path")
        fi
    done < <(compgen -f -- "$cur")
}
