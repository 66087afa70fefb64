import { readFileSync } from 'node:fs'
import type { Redis } from '../io/redis.ts'

const names = ['admit', 'settle', 'post', 'sweep'] as const
export type Scripts = Record<(typeof names)[number], (args: (string | number)[]) => Promise<unknown>>

/** The money scripts on a connection. Each is one atomic step in Redis; what they take is written at their heads. */
export function loadScripts(redis: Redis): Scripts {
  for (const name of names) {
    const lua = readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8')
    redis.defineCommand(`headgate:${name}`, { numberOfKeys: 0, lua })
  }
  const commands = redis as unknown as Record<string, (args: (string | number)[]) => Promise<unknown>>
  const call = (name: string) => (args: (string | number)[]) => commands[`headgate:${name}`]!(args)
  return Object.fromEntries(names.map(name => [name, call(name)])) as Scripts
}
