import type { WebSocket } from '../../io/socket.ts'
import { type Tokenizer, tokenizer } from '../../kinds/tokenizer.ts'
import { type ClientEvent, type ClientEvents, eventOf } from './realtime-events.ts'
import { decoded } from './realtime-items.ts'
import { errorOf, Refused } from './realtime-refused.ts'
import { SandboxTalk } from './realtime-talk.ts'
import { Wire } from './realtime-wire.ts'

/**
 * Holds one session of a test key as OpenAI's Realtime API would
 * (developers.openai.com/api/docs/guides/realtime-conversations). `intent`: `transcription` for one that only writes down.
 */
export function serveSession(socket: WebSocket, model: string, intent: string | null): void {
  socket.on('error', () => {}) // It is closed then.
  socket.pause()
  tokenizer().then(
    tokens => {
      if (socket.readyState !== socket.OPEN) return
      converse(socket, tokens, model, intent === 'transcription' ? intent : 'realtime')
      socket.resume()
    },
    () => socket.close(1011),
  )
}

function converse(socket: WebSocket, tokens: Tokenizer, model: string, type: 'realtime' | 'transcription'): void {
  const wire: Wire = new Wire(socket, (frame, isBinary) => {
    const { eventId, event } = eventOf(frame, isBinary)
    try {
      if (event instanceof Refused) throw event
      obey(talk, event)
    } catch (error) {
      wire.send('error', { error: { ...errorOf(error), event_id: eventId } })
    }
  })
  const talk = new SandboxTalk(wire, tokens, model, type)
  socket.once('close', () => talk.close())
}

function obey(talk: SandboxTalk, event: ClientEvent): void {
  const verb = verbs[event.type] as (talk: SandboxTalk, event: ClientEvent) => void
  verb(talk, event)
}

const verbs: { [T in ClientEvent['type']]: (talk: SandboxTalk, event: ClientEvents[T]) => void } = {
  'session.update': (talk, { session }) => talk.update(session),
  'input_audio_buffer.append': (talk, { audio }) => talk.hear(decoded(audio, 'audio')),
  'input_audio_buffer.commit': talk => talk.commit(),
  'input_audio_buffer.clear': talk => talk.clear(),
  'output_audio_buffer.clear': () => {
    const message = 'output_audio_buffer.clear is for WebRTC and SIP only. Over a WebSocket, stop playing the sound.'
    throw new Refused('invalid_value', message, 'type')
  },
  'conversation.item.create': (talk, { item, previous_item_id: previousId = null }) => talk.add(item, previousId),
  'conversation.item.retrieve': (talk, { item_id: id }) => talk.retrieve(id),
  'conversation.item.delete': (talk, { item_id: id }) => talk.delete(id),
  'conversation.item.truncate': (talk, { item_id: id, content_index: index, audio_end_ms: endMs }) =>
    talk.truncate(id, index, endMs),
  'response.create': (talk, { response = {} }) => talk.respond(response),
  'response.cancel': (talk, { response_id: id }) => talk.cancel(id),
}
