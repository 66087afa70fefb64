import { z } from 'zod'
import { issueText } from '../../shared/base/issue-text.ts'
import { nearestName } from '../../shared/base/near-misses.ts'
import type { Services } from '../../shared/open-services.ts'

export type Result = { data: unknown; text: string; exitCode?: number }
type Declaration<F extends z.ZodObject> = {
  /** The words of the command, e.g. `key create`. */
  name: string
  /** What it does, in a sentence. */
  summary: string
  /** Its flags, as the help shows them. */
  help: string
  flags: F
  /** The flag that one word after the name fills, too, e.g. the file in `catalog diff models.json`. */
  operand?: string
}
/** Runs with everything open. */
type ServicesCommand<F extends z.ZodObject> = Declaration<F> & {
  run(services: Services, flags: z.output<F>): Promise<Result>
}
/** Runs with the environment alone, because it examines what may not be usable. */
export type EnvironmentCommand = Declaration<z.ZodObject> & { runAlone(env?: Environment): Promise<Result> }

export type Environment = Record<string, string | undefined>
// biome-ignore lint/suspicious/noExplicitAny: each command's flags are typed by its own schema, see `command`
export type Command = ServicesCommand<any>

/** Declares a command whose flags are typed by its schema. */
export function command<F extends z.ZodObject>(declared: ServicesCommand<F>): Command {
  return declared
}

/** The arguments are not a valid command; the message says why, and what is meant or where to look. */
export class UsageError extends Error {
  override name = 'UsageError'
}

/** Parses a command and validates its flags (kebab-case names of the schema's fields). Throws a UsageError. */
export function parseCommand<C extends Declaration<z.ZodObject>>(
  argv: string[],
  commands: readonly C[],
): { command: C; flags: unknown; json: boolean } {
  const words: string[] = []
  /** The flag without a value that a word follows, by the word. */
  const strays = new Map<string, string>()
  const raw: Record<string, string | true> = {}
  let json = false
  const switches = new Set(commands.flatMap(({ flags }) => namesOfSwitches(flags)))
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] === '-f' ? '--file' : argv[i]!
    if (word === '--json') json = true
    else if (word.startsWith('--')) {
      const [name, inline] = word.slice(2).split(/=(.*)/s)
      const field = name!.replaceAll('-', '_')
      const isBare = switches.has(field) || argv[i + 1]?.startsWith('--')
      const value = inline ?? (isBare ? undefined : argv[++i])
      if (Object.hasOwn(raw, field)) throw new UsageError(`--${name} is given twice`)
      raw[field] = value ?? true
    } else {
      const [before] = argv.slice(Math.max(0, i - 1), i)
      if (before?.startsWith('--') && switches.has(before.slice(2).replaceAll('-', '_'))) strays.set(word, before)
      words.push(word)
    }
  }
  let command = commands.find(({ name }) => name === words.join(' '))
  if (!command) {
    command = commands.find(({ name, operand }) => operand !== undefined && name === words.slice(0, -1).join(' '))
    const operand = command?.operand
    if (operand !== undefined && Object.hasOwn(raw, operand)) throw new UsageError(`--${operand} is given twice`)
    if (operand !== undefined) raw[operand] = words.at(-1)!
  }
  if (!command) {
    const stray = strays.get(words.at(-1) ?? '')
    const isKnown = commands.some(({ name }) => name === words.slice(0, -1).join(' '))
    throw new UsageError(stray && isKnown ? `${stray}: takes no value` : unknownCommand(words, commands))
  }
  const parsed = command.flags.safeParse(raw, { error: issueText })
  if (parsed.success) return { command, flags: parsed.data, json }
  const flag = (field: PropertyKey) => `--${String(field).replaceAll('_', '-')}`
  const bare = parsed.error.issues.find(({ path: [field] }) => field !== undefined && raw[String(field)] === true)
  if (bare) throw new UsageError(`${flag(bare.path[0]!)} needs a value`)
  // A misspelt flag explains why another one is missing.
  const issue = parsed.error.issues.find(({ code }) => code === 'unrecognized_keys') ?? parsed.error.issues[0]!
  const seeHelp = `See: ${help} ${command.name}`
  if (issue.code === 'unrecognized_keys') {
    const meant = meantName(issue.keys[0]!, Object.keys(command.flags.shape))
    const guess = meant === null ? '' : ` Did you mean ${flag(meant)}?`
    throw new UsageError(`${command.name} has no ${flag(issue.keys[0]!)}.${guess} ${seeHelp}`)
  }
  const missing = !Object.hasOwn(raw, issue.path[0]!)
  throw new UsageError(`${flag(issue.path[0]!)}${missing ? ' is required' : `: ${issue.message}`}. ${seeHelp}`)
}

/** The flags that are given without a value. */
function namesOfSwitches(flags: z.ZodObject): string[] {
  return Object.entries(flags.shape).flatMap(([name, field]) => {
    const inner = field instanceof z.ZodDefault ? field.unwrap() : field
    return inner instanceof z.ZodBoolean ? [name] : []
  })
}

const minNameLength = 3
const help = 'npm run -s operator -- help'

/** The name that a misspelt or cut-off one most likely stands for; null if none is near. */
function meantName(given: string, names: readonly string[]): string | null {
  const completed = names.filter(name => name.startsWith(given))
  return nearestName(given, names, minNameLength) ?? (completed.length === 1 ? completed[0]! : null)
}

/** The message for words that are no command: the command that is meant, or those that begin alike. */
export function unknownCommand(words: readonly string[], commands: readonly { name: string }[]): string {
  const seeHelp = `See: ${help}`
  if (words.length === 0) return `Missing command. ${seeHelp}`
  const names = commands.map(({ name }) => name)
  const meant = meantName(words.join(' '), names)
  if (meant !== null) return `Unknown command: ${words.join(' ')}. Did you mean “${meant}”? ${seeHelp}`
  const nouns = [...new Set(names.map(name => name.split(' ')[0]!))]
  const noun = nouns.includes(words[0]!) ? words[0]! : meantName(words[0]!, nouns)
  if (noun === null) return `Unknown command: ${words.join(' ')}. ${seeHelp}`
  const verbs = names.filter(name => name.startsWith(`${noun} `)).map(name => name.slice(noun.length + 1))
  // Of a noun that is right, the word after it is not.
  const guess = words[1] === undefined ? null : meantName(words[1], verbs)
  if (guess !== null) return `Unknown command: ${words.join(' ')}. Did you mean “${noun} ${guess}”? ${seeHelp}`
  if (verbs.length === 0) return `Unknown command: ${words.join(' ')}. Did you mean “${noun}”? ${seeHelp}`
  return `Unknown command: ${words.join(' ')}. There is: ${verbs.map(verb => `${noun} ${verb}`).join(', ')}. ${seeHelp} ${noun}`
}
