import type OpenAI from 'openai'
import type { Reply } from '../../emulators/emulator.ts'
import { type ResponsesReplyOptions, responsesReply } from '../../emulators/openai-responses.ts'
import { eventually } from '../gateway.ts'
import type { Response } from './world.ts'

/** An event of a streamed response, as the SDK gives it. */
export type Event = OpenAI.Responses.ResponseStreamEvent & { response?: Response }

/** Waits until a response in the background has a status. */
export async function untilStatus(client: OpenAI, id: string, ...statuses: string[]): Promise<Response> {
  let response!: Response
  await eventually(
    async () => {
      response = (await client.responses.retrieve(id)) as Response
      return statuses.includes(response.status!)
    },
    `${id} is ${statuses.join(' or ')}`,
  )
  return response
}

/** Waits until a response is over. */
export function untilOver(client: OpenAI, id: string): Promise<Response> {
  return untilStatus(client, id, 'completed', 'incomplete', 'failed', 'cancelled')
}

/** All events of a stream. */
export async function collect(stream: AsyncIterable<object>): Promise<Event[]> {
  const events: Event[] = []
  for await (const event of stream) events.push(event as Event)
  return events
}

/** A streamed response that stops after `count` events until `go` is called. */
export function stalling(count: number, options: ResponsesReplyOptions = {}): { reply: Reply; go(): void } {
  const gate = Promise.withResolvers<void>()
  return {
    async reply(request, response) {
      const write = response.write.bind(response)
      let written = 0
      response.write = ((text: string, done: () => void) => {
        if (written++ < count) return write(text, done)
        void gate.promise.then(() => (response.destroyed ? done() : write(text, done)))
        return true
      }) as typeof response.write
      await responsesReply(options)(request, response)
    },
    go: () => gate.resolve(),
  }
}
