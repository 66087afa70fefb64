import type OpenAI from 'openai'
import type { Database } from '../../../shared/io/db.ts'
import { startWorld, type World } from '../chat/gateway.ts'
import type { Account, KeyOptions } from '../gateway.ts'

export { startWorld, type World }

/** An account whose organisation keeps responses. */
export async function keepingAccount(
  { gateway }: Pick<World, 'gateway'>,
  options: KeyOptions & { usd?: string; retentionDays?: number } = {},
): Promise<Account> {
  const { retentionDays, ...rest } = options
  const account = await gateway.account({ usd: '10', ...rest })
  await gateway.services.db.organisation.update({
    where: { id: account.organisationId },
    data: { keepResponses: true, responseRetentionDays: retentionDays ?? null },
  })
  return account
}

/** A model for each way of serving a response: native, and translated to Anthropic's and Gemini's format. */
export const models = ['gpt-4o-mini', 'gpt-5-mini', 'claude-haiku-4-5', 'gemini-3.5-flash'] as const

/** The types of the SDK lack `store`. */
export type Response = OpenAI.Responses.Response & { store?: boolean }

/** A response of the SDK, whole or streamed. */
export async function respond(
  client: OpenAI,
  body: OpenAI.Responses.ResponseCreateParamsNonStreaming,
  streamed: boolean,
): Promise<Response> {
  return streamed ? client.responses.stream(body as never).finalResponse() : client.responses.create(body)
}

/** Whether a statement of this database waits for a row that another transaction has changed. */
export async function waitsForLock(db: Database): Promise<boolean> {
  const waiting = await db.$queryRaw<object[]>`
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return waiting.length > 0
}
