import { events, type Reply } from '../../emulators/emulator.ts'

const response = { id: 'resp_begun', object: 'response', created_at: 1, status: 'in_progress', model: 'm', output: [] }
const item = { type: 'message', id: 'msg_begun', role: 'assistant', status: 'in_progress', content: [] }

/** What a provider sends of a response that it has begun. */
export function begunEvents(...deltas: string[]): string[] {
  const at = { output_index: 0, content_index: 0, item_id: item.id, logprobs: [] }
  const all = [
    { type: 'response.created', response },
    { type: 'response.output_item.added', output_index: 0, item },
    ...deltas.map(delta => ({ type: 'response.output_text.delta', ...at, delta })),
  ]
  return all.map((event, sequence_number) => {
    return `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`
  })
}

/** A provider that begins a response and does not end it. */
export function neverEnding(...deltas: string[]): Reply {
  return events(begunEvents(...deltas), { end: 'hang' })
}
