import type { Prisma } from '../../../shared/generated/prisma/client.ts'

type Row = Omit<Prisma.GenerationCreateManyInput, 'id'>

/** A row of the request log for a successful chat request, except for the given fields. */
export function requestLogRow(fields: Partial<Row> & Pick<Row, 'createdAt' | 'organisationId'>): Row {
  return {
    keyId: 'key_1',
    requestId: 'req_x',
    kind: 'chat',
    environment: 'live',
    model: 'gpt-5',
    provider: 'openai',
    status: 200,
    streamed: false,
    attempts: 1,
    promptTokens: 1,
    completionTokens: 1,
    cachedTokens: 0,
    reasoningTokens: 0,
    estimated: false,
    costNano: 1n,
    durationMs: 1,
    ...fields,
  }
}
