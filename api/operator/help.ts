import { commands, environmentCommands } from './commands.ts'
import { UsageError, unknownCommand } from './parse.ts'

const all = [...commands, ...environmentCommands]
const helpWords = new Set(['--help', '-h'])

/**
 * The help that the arguments ask for: of everything, of the commands that begin with a word, or of one command; null if they
 * ask for none. Throws a UsageError if there is no such command.
 */
export function helpFor(argv: readonly string[]): string | null {
  const isAsked = argv[0] === 'help' || argv.some(word => helpWords.has(word))
  if (!isAsked) return null
  const words = (argv[0] === 'help' ? argv.slice(1) : argv).filter(word => !word.startsWith('-'))
  // Values of flags may be among the words: `key create --org org_1 --help`.
  for (let count = words.length; count > 0; count--) {
    const name = words.slice(0, count).join(' ')
    const command = all.find(one => one.name === name)
    if (command) return helpOf(command)
    const group = all.filter(one => one.name.startsWith(`${name} `))
    if (group.length > 0) return listOf(group)
  }
  if (words.length > 0) throw new UsageError(unknownCommand(words, all))
  return [
    'The operator’s command line: npm run -s operator -- <command> [flags] [--json]',
    '',
    listOf(all),
    '',
    'help <command> shows the flags of a command. With --json, a command prints one JSON document.',
  ].join('\n')
}

function helpOf({ name, summary, help }: (typeof all)[number]): string {
  return `${summary}\n\n  npm run -s operator -- ${`${name} ${help}`.trim()} [--json]`
}

/** A line per command: what it does. */
function listOf(some: typeof all): string {
  const width = Math.max(...some.map(({ name }) => name.length))
  return some
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`)
    .join('\n')
}
