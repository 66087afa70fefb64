import { readFileSync } from 'node:fs'
import type { Redis } from '../io/redis.ts'

const names = ['admit', 'settle', 'post', 'sweep', 'hold', 'beat'] as const
export type Scripts = Record<(typeof names)[number], (args: (string | number)[]) => Promise<unknown>>

/** Stands between packed arguments; no id, number or JSON text has it. */
const separator = '\x1f'

/** The money scripts on a connection. Each is one atomic step in Redis; what they take is written at their heads. */
export function loadScripts(redis: Redis): Scripts {
  const source = (name: string) => readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8')
  for (const name of names) {
    redis.defineCommand(`headgate:${name}`, { numberOfKeys: 0, lua: source('unpack') + source(name) })
  }
  const commands = redis as unknown as Record<string, (packed: string) => Promise<unknown>>
  const call = (name: string) => (args: (string | number)[]) =>
    commands[`headgate:${name}`]!(args.join(separator) + separator)
  return Object.fromEntries(names.map(name => [name, call(name)])) as Scripts
}
