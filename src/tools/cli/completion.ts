// `headgate completion`: a shell script that completes commands, options, choices and paths. It is made from the
// program's definition, so no key press starts a process.

import { Argument, type Command, type Option } from "commander";
import type { ProgramCommand } from "./command.ts";
import type { Terminal } from "./terminal.ts";

const SHELLS = { bash, zsh, fish };

/** Adds the command. */
export function addCompletion(program: ProgramCommand, terminal: Terminal): void {
  program
    .command("completion")
    .summary("print a shell completion script")
    .description("Prints a script by which a shell completes commands, options, their choices, and paths.")
    .addArgument(new Argument("<shell>", "shell that is to complete").choices(Object.keys(SHELLS)))
    .examples(`
  source <(headgate completion bash)        # in ~/.bashrc
  source <(headgate completion zsh)         # in ~/.zshrc, after compinit
  headgate completion fish > ~/.config/fish/completions/headgate.fish
`)
    .action((shell: keyof typeof SHELLS) => terminal.out(SHELLS[shell](levelsOf(program))));
}

/** What may follow a command: words with descriptions, options, paths. `at`: the command's full name. */
interface Level {
  readonly at: string;
  readonly words: readonly Word[];
  readonly options: readonly Option[];
  readonly takesPaths: boolean;
}

type Word = readonly [word: string, says: string];

const PATHS = /^(?:path|file|files|calls|directory|what)$/;

function levelsOf(command: Command, at = command.name()): readonly Level[] {
  const help = command.createHelp();
  const names = command.registeredArguments;
  const choices = names.flatMap(({ argChoices = [] }) => argChoices.map((one): Word => [one, ""]));
  const words = help.visibleCommands(command).map((one): Word => [one.name(), one.summary() || one.description()]);
  const own = { at, words: [...words, ...choices], options: help.visibleOptions(command) };
  const takesPaths = names.some((one) => PATHS.test(one.name()));
  return [{ ...own, takesPaths }, ...command.commands.flatMap((one) => levelsOf(one, `${at} ${one.name()}`))];
}

const flagOf = ({ long, short }: Option) => long ?? short ?? "";
const takesPath = ({ flags }: Option) => PATHS.test(/[<[](\w+)/.exec(flags)?.[1] ?? "");
const quote = (text: string) => `'${text.replace(/'/g, "'\\''")}'`;
const below = ([, ...rest]: readonly Level[], joint: string) => rest.map(({ at }) => quote(at)).join(joint);

/** The part that bash and zsh share: sets `words` and `options`, written by `listed`, and `paths`. */
function cases(all: readonly Level[], listed: (words: readonly Word[]) => string): string {
  const values = all.flatMap(({ at, options }) =>
    options
      .filter(({ required, optional }) => required || optional)
      .map((one) => {
        const keys = [one.short, one.long].flatMap((flag) => (flag === undefined ? [] : [quote(`${at} ${flag}`)]));
        const found = takesPath(one) ? "paths=1" : `words=${listed((one.argChoices ?? []).map((word) => [word, ""]))}`;
        return `    ${keys.join(" | ")}) ${found} ;;\n`;
      }),
  );
  const levels = all.map(({ at, words, options, takesPaths }) => {
    const flags = listed(options.map((one) => [flagOf(one), one.description]));
    return `      ${quote(at)}) words=${listed(words)} options=${flags} paths=${takesPaths ? 1 : ""} ;;\n`;
  });
  return `  case "$at $prev" in\n${values.join("")}    *) case $at in\n${levels.join("")}    esac ;;\n  esac`;
}

function bash(all: readonly Level[]): string {
  return `_headgate() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at=headgate word words options paths IFS=$'\\n'
  [[ $cur == = ]] && cur=
  [[ $prev == = ]] && prev=\${COMP_WORDS[COMP_CWORD-2]}
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in ${below(all, " | ")}) at+=" $word" ;; esac
  done
${cases(all, (words) => `$'${words.map(([word]) => word).join("\\n")}'`)}
  [[ $cur == -* ]] && words=$options paths=
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [[ $paths ]] && { compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$cur")); }
}
complete -F _headgate headgate
`;
}

function zsh(all: readonly Level[]): string {
  return `#compdef headgate
_headgate() {
  local at=headgate word prev=$words[CURRENT-1] paths; local -a before=("\${(@)words[2,CURRENT-1]}") words options
  [[ $PREFIX == --*=* ]] && prev=\${PREFIX%%=*} && compset -P '*='
  for word in $before; do
    case "$at $word" in ${below(all, " | ")}) at+=" $word" ;; esac
  done
${cases(all, (words) => `(${words.map(([word, says]) => quote(says === "" ? word : `${word}:${says}`)).join(" ")})`)}
  [[ $PREFIX == -* ]] && words=($options) paths=
  (( $#words )) && _describe headgate words
  [[ -n $paths ]] && _files
}
if [[ $funcstack[1] == _headgate ]]; then _headgate; else compdef _headgate headgate; fi
`;
}

function fish(all: readonly Level[]): string {
  const lines = all.flatMap(({ at, words, options, takesPaths }) => {
    const head = `complete -c headgate -n "__headgate_at ${quote(at)}"`;
    return [
      ...words.map(([word, says]) => `${head} -a ${word} -d ${quote(says)}`),
      ...options.map((one) => {
        const { long, short, required, optional, argChoices = [], description } = one;
        const names = `${long ? ` -l ${long.slice(2)}` : ""}${short ? ` -s ${short.slice(1)}` : ""}`;
        const value = takesPath(one) ? " -rF" : required || optional ? ` -xa ${quote(argChoices.join(" "))}` : "";
        return `${head}${names}${value} -d ${quote(description)}`;
      }),
      ...(takesPaths ? [`${head} -F`] : []),
    ];
  });
  return `function __headgate_at
  set -l at headgate
  for word in (commandline -opc)[2..]
    contains -- "$at $word" ${below(all, " ")}; and set at "$at $word"
  end
  test "$at" = "$argv[1]"
end
complete -c headgate -f
${lines.join("\n")}
`;
}
