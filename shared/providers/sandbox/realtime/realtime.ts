import type { WebSocket } from '../../../io/socket.ts'
import { type Tokenizer, tokenizer } from '../../../kinds/tokenizer.ts'
import { EventError, errorEvent } from './event-error.ts'
import { type ClientEvent, type ClientEvents, eventOf } from './events.ts'
import { decodeBase64 } from './items.ts'
import { SandboxSession } from './session.ts'
import { Wire } from './wire.ts'

/** The session ends after so many invalid events in a row. */
const maxErrors = 64

/**
 * Serves one session of a test key like OpenAI's Realtime API
 * (developers.openai.com/api/docs/guides/realtime-conversations). `intent`: `transcription` for a transcription
 * session.
 */
export function serveSession(socket: WebSocket, model: string, intent: string | null): void {
  socket.on('error', () => {}) // The socket is closed afterwards.
  socket.pause()
  tokenizer().then(
    tokens => {
      if (socket.readyState !== socket.OPEN) return
      runSession(socket, tokens, model, intent === 'transcription' ? intent : 'realtime')
      socket.resume()
    },
    () => socket.close(1011),
  )
}

function runSession(socket: WebSocket, tokens: Tokenizer, model: string, type: 'realtime' | 'transcription'): void {
  let errors = 0
  const wire: Wire = new Wire(socket, (frame, isBinary) => {
    const { eventId, event } = eventOf(frame, isBinary)
    try {
      if (event instanceof Error) throw event
      dispatch(sandboxSession, event)
      errors = 0
    } catch (error) {
      wire.send('error', { error: { ...errorEvent(error), event_id: eventId } })
      if (++errors >= maxErrors) socket.close(1008, 'too_many_invalid_events')
    }
  })
  const sandboxSession = new SandboxSession(wire, tokens, model, type)
  socket.once('close', () => sandboxSession.close())
}

function dispatch(sandboxSession: SandboxSession, event: ClientEvent): void {
  const handler = handlers[event.type] as (sandboxSession: SandboxSession, event: ClientEvent) => void
  handler(sandboxSession, event)
}

const handlers: { [T in ClientEvent['type']]: (sandboxSession: SandboxSession, event: ClientEvents[T]) => void } = {
  'session.update': (sandboxSession, { session }) => sandboxSession.update(session),
  'input_audio_buffer.append': (sandboxSession, { audio }) => sandboxSession.appendAudio(decodeBase64(audio, 'audio')),
  'input_audio_buffer.commit': sandboxSession => sandboxSession.commit(),
  'input_audio_buffer.clear': sandboxSession => sandboxSession.clear(),
  'output_audio_buffer.clear': () => {
    const message = 'output_audio_buffer.clear is for WebRTC and SIP only. Over a WebSocket, stop playing the sound.'
    throw new EventError('invalid_value', message, 'type')
  },
  'conversation.item.create': (sandboxSession, { item, previous_item_id: previousId = null }) =>
    sandboxSession.add(item, previousId),
  'conversation.item.retrieve': (sandboxSession, { item_id: id }) => sandboxSession.retrieve(id),
  'conversation.item.delete': (sandboxSession, { item_id: id }) => sandboxSession.delete(id),
  'conversation.item.truncate': (sandboxSession, { item_id: id, content_index: index, audio_end_ms: endMs }) =>
    sandboxSession.truncate(id, index, endMs),
  'response.create': (sandboxSession, { response = {} }) => sandboxSession.respond(response),
  'response.cancel': (sandboxSession, { response_id: id }) => sandboxSession.cancel(id),
}
