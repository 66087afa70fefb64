import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'

/** What the gateway detects by itself, in the order in which overlapping matches take precedence. */
export const detectorTypes = ['secret', 'iban', 'card', 'email', 'phone'] as const
export type DetectorType = (typeof detectorTypes)[number]

const sides = z.enum(['input', 'output', 'both']).describe('Whether requests are checked, their answers, or both.')
/** A side of a request that is checked. */
export type Side = 'input' | 'output'

const detector = z.strictObject({
  type: z
    .enum(detectorTypes)
    .describe(
      '`card`: payment cards, by their check digit; `iban`: by their check digits; `secret`: API keys and tokens of known forms, and private keys; `email`; `phone`.',
    ),
  action: z
    .enum(['block', 'mask'])
    .describe(
      '`block` refuses the request or the answer. `mask` replaces each value by a placeholder such as `[EMAIL_1]`; those of the request are replaced back in its answer.',
    ),
  on: sides,
})

/** The longest that a guard may take for one call. */
const maxTimeoutMs = 10_000
const webhook = z.strictObject({
  url: z.string().min(1).max(2_048).describe('An https URL on the public internet.'),
  on: sides,
  timeout_ms: z.int().min(50).max(maxTimeoutMs).describe('How long one call may take.'),
  on_failure: z
    .enum(['fail_open', 'fail_closed'])
    .describe(
      'What happens without a valid answer: `fail_open` = the request continues; `fail_closed` = it is refused with 503.',
    ),
})

/** What a key's policy says about guardrails, as a request body or a command passes it. */
export const guardrailsSetting = z
  .strictObject({
    detectors: z.array(detector).max(2 * detectorTypes.length),
    webhook: webhook.nullable().describe('A guard of your own, which is asked by a signed request; null = none.'),
    other_kinds: z
      .enum(['refuse', 'allow'])
      .describe(
        'Whether the key may be used for work whose texts are not checked: images, audio, documents, video, realtime sessions, rankings, moderations, and prompts of token numbers.',
      ),
  })
  .refine(({ detectors, webhook }) => detectors.length > 0 || webhook !== null, {
    message: 'must have a detector or a webhook; null = no guardrails',
  })
  .refine(
    ({ detectors }) => {
      const checks = detectors.flatMap(({ type, on }) => sidesOf(on).map(side => `${type} ${side}`))
      return new Set(checks).size === checks.length
    },
    { path: ['detectors'], message: 'has two entries of the same type for the same side' },
  )
export type Guardrails = z.output<typeof guardrailsSetting>
export type GuardWebhook = NonNullable<Guardrails['webhook']>

function sidesOf(on: 'input' | 'output' | 'both'): Side[] {
  return on === 'both' ? ['input', 'output'] : [on]
}

/** Whether a part of the guardrails checks a side. */
export function checks({ on }: { on: 'input' | 'output' | 'both' }, side: Side): boolean {
  return on === 'both' || on === side
}

/**
 * The guardrails of a key's row; null = none. Throws 503 for those that only another release knows: the key must not be used
 * without them.
 */
export function storedGuardrails(value: unknown): Guardrails | null {
  if (value === null || value === undefined) return null
  const parsed = guardrailsSetting.safeParse(value)
  if (parsed.success) return parsed.data
  throw new GatewayError('service_unavailable', 'The guardrails of this key cannot be read by this process.', {
    needsOperator: true,
    cause: parsed.error,
  })
}

/** Whether two policies have the same guardrails. */
export function isSameGuard(one: Guardrails | null, other: Guardrails | null): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other)
}

/** Asserts that a key may do work whose texts are not checked. Throws 403. */
export function assertUnguarded({ guardrails }: { guardrails: Guardrails | null }): void {
  if (guardrails === null || guardrails.other_kinds === 'allow') return
  throw notCovered(
    'The guardrails of this key do not cover this kind of request, and it refuses others (`other_kinds`).',
  )
}

/** The refusal of what guardrails cannot check. */
export function notCovered(message: string, param?: string): GatewayError {
  return new GatewayError('guardrail_blocked', message, {
    ...(param !== undefined && { param }),
    metadata: { guardrail: { side: 'input', guard: 'other_kinds' } },
  })
}
