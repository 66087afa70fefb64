import { json, type Reply } from './emulator.ts'

const tiers = ['auto', 'default', 'flex', 'scale', 'priority', 'fast']

/** The tier that OpenAI states: that of the project is the default one, and `fast` is `priority` (openai: `service_tier`). */
export function tierOf({ service_tier: asked }: { service_tier?: unknown }): string {
  return asked === 'fast' ? 'priority' : asked === 'flex' || asked === 'priority' ? asked : 'default'
}

/** The error text of a tier that is not offered: github.com/openai/codex/issues/15099. */
export function refusalOfTier({ service_tier: asked }: { service_tier?: unknown }): Reply | null {
  if (asked === undefined || asked === null || tiers.includes(asked as string)) return null
  const message = `Unsupported service_tier: ${String(asked)}`
  return json(400, { error: { message, type: 'invalid_request_error', param: 'service_tier', code: null } })
}
