import { nanoFromUsd } from '../../../shared/base/money.ts'
import { chargedNano } from '../chat/gateway.ts'
import { type Account, eventually, type Gateway } from '../gateway.ts'

/** The outcome of an account's single session once it is booked: its row in the request log, and its charge. */
export async function bookedSession(gateway: Gateway, account: Account) {
  const { db } = gateway.services
  const where = { organisationId: account.organisationId, kind: 'realtime', finishReason: { not: null } }
  await eventually(async () => (await db.generation.count({ where })) === 1, 'the session is over and booked')
  const generation = await db.generation.findFirstOrThrow({ where })
  return { generation, chargedNano: await chargedNano({ gateway }, account) }
}

/**
 * What numbers of units must cost at their prices in USD per million, with the usual margin of 5%; computed apart from the
 * product, in whole nano-dollars.
 */
export function millionthsNano(...units: [count: number, usd: number][]): number {
  const microUsd = units.reduce((sum, [count, usd]) => sum + count * usd, 0)
  return Math.round(Number((microUsd * 1_000 * 1.05).toFixed(4)))
}

/** What a time must cost at a price per minute in USD, with the usual margin of 5%, in whole nano-dollars. */
export function minutesNano(seconds: number, usd: string): number {
  return Math.round((Number(nanoFromUsd(usd)) * seconds * 1.05) / 60)
}

/** Sound of a length: 24 kHz PCM16, in base64. */
export function silence(seconds: number): string {
  return Buffer.alloc(seconds * 48_000).toString('base64')
}
