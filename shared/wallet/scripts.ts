import { readFileSync } from 'node:fs'
import type { Redis } from '../io/redis.ts'

/** The money scripts, each with the parts that stand before it. */
const parts = {
  admit: ['unpack', 'time', 'window', 'admit'],
  settle: ['unpack', 'window', 'settle'],
  post: ['unpack', 'post'],
  sweep: ['unpack', 'time', 'sweep'],
  hold: ['unpack', 'hold'],
  beat: ['unpack', 'time', 'beat'],
}
type Name = keyof typeof parts
/** Each takes its arguments one by one, or several of them in one text with the separator between them. */
export type Scripts = Record<Name, (args: (string | number)[]) => Promise<unknown>>

/** Stands between packed arguments; no id, number or JSON text has it. */
export const separator = '\x1f'

/** The sources of the money scripts, by the names of their commands. */
export function scriptSources(): { name: Name; command: string; lua: string }[] {
  const read = (part: string) => readFileSync(new URL(`./scripts/${part}.lua`, import.meta.url), 'utf8')
  return Object.entries(parts).map(([name, files]) => ({
    name: name as Name,
    command: `headgate:${name}`,
    lua: files.map(read).join('\n'),
  }))
}

/** The money scripts on a connection. Each is one atomic step in Redis; what they take is written at their heads. */
export function loadScripts(redis: Redis): Scripts {
  const sources = scriptSources()
  for (const { command, lua } of sources) redis.defineCommand(command, { numberOfKeys: 0, lua })
  const commands = redis as unknown as Record<string, (packed: string) => Promise<unknown>>
  const call = (command: string) => (args: (string | number)[]) => commands[command]!(args.join(separator) + separator)
  return Object.fromEntries(sources.map(({ name, command }) => [name, call(command)])) as Scripts
}
