import { setTimeout as sleep } from 'node:timers/promises'
import { hashSecret } from '../../../shared/keys/secret.ts'
import type { Account } from '../agents/upstream.ts'
import type { Seen } from './upstreams.ts'

/** What `run.ts` tells the tests of the gateway that it started. */
export const baseUrl = given('BASE_URL')
/** A key of the sandbox, one that reaches the emulated providers, and one of an organisation without credits. */
export const testKey = given('TEST_KEY')
export const liveKey = given('LIVE_KEY')
export const emptyKey = given('EMPTY_KEY')
export const webhookSecret = given('WEBHOOK_SECRET')
export const origin = new URL(baseUrl).origin

function given(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: run these tests with \`npm run test:clients\``)
  return value
}

/** The requests that a provider got with this text in them. */
export async function requestsTo(provider: 'openai' | 'anthropic' | 'gemini', containing: string): Promise<Seen[]> {
  const response = await fetch(`${given('UPSTREAMS_URL')}/${provider}?${new URLSearchParams({ containing })}`)
  return (await response.json()) as Seen[]
}

/** A key of an organisation that only this conversation of an agent uses. */
export function agentKey(index: number): string {
  return given('AGENT_KEYS').split(',')[index]!
}

/** What the providers stated about the requests of an agent's conversation. */
export async function accountOf(conversation: string): Promise<Account> {
  const response = await fetch(`${given('UPSTREAMS_URL')}/conversation?${new URLSearchParams({ name: conversation })}`)
  return (await response.json()) as Account
}

type Wallet = { balance_usd: number; reserved_usd: number; held_usd: number }

/** The wallet of a key's organisation once nothing is reserved in it, or when that takes too long. */
export async function settledWallet(key: string): Promise<Wallet> {
  const deadline = performance.now() + bookedWithinMs
  for (;;) {
    const response = await fetch(`${baseUrl}/balance`, { headers: { authorization: `Bearer ${key}` } })
    const wallet = (await response.json()) as Wallet
    if (wallet.reserved_usd === 0 || performance.now() > deadline) return wallet
    await sleep(pollMs)
  }
}

/** Creates a key with a policy of its own; its secret. */
export async function createKey(policy: object): Promise<string> {
  const response = await fetch(`${origin}/api/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${given('PROVISIONING_KEY')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'client matrix', ...policy }),
  })
  if (!response.ok) throw new Error(`no key: ${response.status} ${await response.text()}`)
  const { key } = (await response.json()) as { key: string }
  return key
}

const bookedWithinMs = 60_000
const pollMs = 50

/** What a key has spent this month, in USD, as soon as it is at least this much or does not become it in time. */
export async function spentUsd(secret: string, atLeastUsd: number): Promise<number> {
  const deadline = performance.now() + bookedWithinMs
  for (;;) {
    const response = await fetch(`${origin}/api/v1/keys/${hashSecret(secret)}`, {
      headers: { authorization: `Bearer ${given('PROVISIONING_KEY')}` },
    })
    const { data } = (await response.json()) as { data: { spend_month_usd: number } }
    if (data.spend_month_usd >= atLeastUsd || performance.now() > deadline) return data.spend_month_usd
    await sleep(pollMs)
  }
}
