import type { IncomingMessage } from 'node:http'
import { type ProviderSession, refuse, SessionEmulator, type Upgrade } from './sessions.ts'

/** xAI's voice API on a local port: OpenAI's events, sound in binary frames where asked for, no usage. The API key `invalid` is refused. */
export function startXaiRealtime(): Promise<SessionEmulator> {
  return SessionEmulator.start(hold, admit)
}

function admit({ headers, url }: IncomingMessage): Upgrade | null {
  const { pathname, searchParams } = new URL(url ?? '/', 'http://emulator')
  const [, key] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return refuse(401, { code: 'unauthenticated', error: 'Incorrect API key provided.' })
  if (pathname !== '/v1/realtime') return refuse(404, { code: 'not_found', error: 'Not found.' })
  return searchParams.has('model') ? null : refuse(400, { code: 'invalid_argument', error: 'A model is required.' })
}

/** Repeats the audio that it received. */
function hold(session: ProviderSession): void {
  let heard: Buffer[] = []
  let binary = false
  let ids = 0
  const say = (type: string, more: object = {}) => session.send({ event_id: `event_${++ids}`, type, ...more })
  const settings = () => ({ model: session.query.get('model'), voice: 'Ara', binary })
  const respond = () => {
    const response = { id: `resp_${ids}`, object: 'realtime.response', output: [] }
    say('response.created', { response: { ...response, status: 'in_progress' } })
    for (const sound of heard) {
      if (binary) session.socket.send(sound)
      else say('response.output_audio.delta', { delta: sound.toString('base64') })
    }
    heard = []
    say('response.done', { response: { ...response, status: 'completed' } })
  }
  say('session.created', { session: settings() })
  session.socket.on('message', (frame: Buffer, isBinary) => {
    if (isBinary) return void heard.push(frame)
    const event = JSON.parse(frame.toString())
    switch (event.type) {
      case 'session.update':
        binary = event.session.audio?.output?.format?.transport === 'binary'
        return say('session.updated', { session: settings() })
      case 'input_audio_buffer.append':
        return void heard.push(Buffer.from(event.audio, 'base64'))
      case 'response.create':
        return respond()
      default:
        return say('error', { error: { type: 'invalid_request_error', message: `Unknown event ${event.type}.` } })
    }
  })
}
