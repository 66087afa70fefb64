import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Answer, Receiver } from './receiver.ts'

/** What a guard is asked, as it arrives. */
export type Question = {
  type: string
  request_id: string
  key: string
  kind: string
  model: string
  texts: { id: string; role: string; text: string }[]
}

/** Answers with JSON. */
export function verdict(body: object): Answer {
  return (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
}

export const allow = verdict({ action: 'allow' })

/** A customer's guard on loopback: allows, unless it is told otherwise. */
export async function startGuard(): Promise<Receiver> {
  const guard = await Receiver.start()
  guard.always = allow
  return guard
}

/** The questions that a guard was asked. */
export function questionsOf(guard: Receiver): Question[] {
  return guard.received.map(({ body }) => JSON.parse(body))
}
