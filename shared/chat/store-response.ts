import type { GatewayError } from '../base/errors.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import type { ResponseStorage } from './run-input.ts'
import type { AnswerRelay } from './stream-relay.ts'

/** Stores a complete response under our id, and returns it as the client is to see it. */
export function storeAnswer(storage: ResponseStorage, id: string, answer: object): Promise<ResponsesObject> {
  return storage.store({ ...(answer as ResponsesObject), id, ...storage.fields })
}

/** Stores the response of a stream, as it failed if it did, and returns it as the client is to see it. */
export async function storeStreamed(
  storage: ResponseStorage,
  relay: AnswerRelay,
  failure?: GatewayError,
): Promise<{ response?: ResponsesObject }> {
  const response = relay.response?.(failure)
  return response ? { response: await storage.store(response) } : {}
}
