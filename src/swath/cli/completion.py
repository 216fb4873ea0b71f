"""`swath completion`: print the script that makes a shell complete swath's commands, options and files."""

from enum import StrEnum
from typing import Annotated

import typer

from swath.cli.complete import FILES, VARIABLE

BASH = """\
# swath: completion for bash 4.4 and newer
_swath_completion() {
    local line IFS=$'\\n'
    COMPREPLY=()
    for line in $(VARIABLE=1 "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        if [[ $line == 'FILES' ]]; then
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done
}
complete -F _swath_completion swath
"""

ZSH = """\
#compdef swath
# swath: completion for zsh
_swath() {
    local line
    local -a candidates
    for line in "${(@f)$(VARIABLE=1 "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == 'FILES' ]]; then
            _files
        elif [[ -n $line ]]; then
            candidates+=("${${line//:/\\\\:}/$'\\t'/:}")
        fi
    done
    (( ${#candidates} )) && _describe -V swath candidates
}
if [[ ${funcstack[1]} == _swath ]]; then
    _swath "$@"
else
    compdef _swath swath
fi
"""

FISH = """\
# swath: completion for fish
function __swath_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (VARIABLE=1 $words[1] $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = 'FILES'
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c swath -f -a '(__swath_complete)'
"""


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


SCRIPTS = {Shell.bash: BASH, Shell.zsh: ZSH, Shell.fish: FISH}


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that you use")]) -> None:
    """Print a script that completes commands, options and files in a shell.

    For bash, add `source <(swath completion bash)` to ~/.bashrc. For zsh, add the same line with zsh to ~/.zshrc, after
    compinit. For fish, write the script to ~/.config/fish/completions/swath.fish.

    Examples:
        source <(swath completion bash)
        source <(swath completion zsh)
        swath completion fish > ~/.config/fish/completions/swath.fish
    """
    print(SCRIPTS[shell].replace("VARIABLE", VARIABLE).replace("FILES", FILES), end="")
