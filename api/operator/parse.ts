import type { z } from 'zod'
import { issueText } from '../../shared/base/issue-text.ts'
import type { Services } from '../../shared/open-services.ts'

export type Result = { data: unknown; text: string; exitCode?: number }
type Declaration<F extends z.ZodObject> = {
  /** The words of the command, e.g. `key create`. */
  name: string
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

/** The arguments are not a valid command; the message says why. */
export class UsageError extends Error {
  override name = 'UsageError'
}

/** Parses a command and validates its flags (kebab-case names of the schema's fields). Throws a UsageError. */
export function parseCommand<C extends Declaration<z.ZodObject>>(
  argv: string[],
  commands: readonly C[],
): { command: C; flags: unknown; json: boolean } {
  const words: string[] = []
  const raw: Record<string, string | true> = {}
  let json = false
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!
    if (word === '--json') json = true
    else if (word.startsWith('--')) {
      const [name, inline] = word.slice(2).split(/=(.*)/s)
      const value = inline ?? (argv[i + 1]?.startsWith('--') ? undefined : argv[++i])
      const field = name!.replaceAll('-', '_')
      if (Object.hasOwn(raw, field)) throw new UsageError(`--${name} is given twice`)
      raw[field] = value ?? true
    } else words.push(word)
  }
  let command = commands.find(({ name }) => name === words.join(' '))
  if (!command) {
    command = commands.find(({ name, operand }) => operand !== undefined && name === words.slice(0, -1).join(' '))
    const operand = command?.operand
    if (operand !== undefined && Object.hasOwn(raw, operand)) throw new UsageError(`--${operand} is given twice`)
    if (operand !== undefined) raw[operand] = words.at(-1)!
  }
  if (!command) throw new UsageError(words.length > 0 ? `Unknown command: ${words.join(' ')}` : 'Missing command.')
  const parsed = command.flags.safeParse(raw, { error: issueText })
  if (parsed.success) return { command, flags: parsed.data, json }
  const flag = (field: PropertyKey) => `--${String(field).replaceAll('_', '-')}`
  const bare = parsed.error.issues.find(({ path: [field] }) => field !== undefined && raw[String(field)] === true)
  if (bare) throw new UsageError(`${flag(bare.path[0]!)} needs a value`)
  const issue = parsed.error.issues[0]!
  if (issue.code === 'unrecognized_keys') throw new UsageError(`${command.name} has no ${flag(issue.keys[0]!)}`)
  const missing = !Object.hasOwn(raw, issue.path[0]!)
  throw new UsageError(`${flag(issue.path[0]!)}${missing ? ' is required' : `: ${issue.message}`}`)
}
